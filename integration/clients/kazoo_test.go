package clients

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// restarters are the scenarios of Kazoo that restart the server.
var restarters = []string{"reconnect"}

func TestKazooBehavesTheSameOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	python := peers.FindKazoo(t)
	names := kazooScenarios(t)
	if !*update {
		requireAllPlayed(t, "kazoo", names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			embedded, genuine := sides(t, slices.Contains(restarters, name))
			root := zkserver.Root(t)
			onEmbedded, onGenuine := playBoth(t, embedded, genuine, func(s *side) []string {
				return []string{python, "-B", "-X", "utf8", "-m", "scenarios", name, s.connect(), root}
			}, "python")
			requireSame(t, filepath.Join("kazoo", name), onEmbedded, onGenuine)
		})
	}
}

// kazooScenarios are the modules of the package scenarios, but for what they share.
func kazooScenarios(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("python", "scenarios", "*.py"))
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".py")
		if name != "stage" && !strings.HasPrefix(name, "__") {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	return names
}
