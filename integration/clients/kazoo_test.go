package clients

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// restarters are the scenarios of Kazoo that restart the server.
var restarters = []string{"reconnect"}

func TestKazooBehavesTheSameOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	python := findKazoo(t)
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

// findKazoo returns a Python that has Kazoo: Debian's, else the one on PATH.
func findKazoo(t *testing.T) string {
	t.Helper()
	var tried []string
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.CommandContext(t.Context(), python, "-c", "import kazoo.client").CombinedOutput()
		if err == nil {
			return python
		}
		tried = append(tried, fmt.Sprintf("%s: %v %s", python, err, lastLine(string(out))))
	}
	require.FailNow(t, "no Python with Kazoo here: run `make setup`, which installs Debian's python3-kazoo; "+
		"on other systems install kazoo 2.8 or later for the python3 on PATH", "tried:\n%s", strings.Join(tried, "\n"))
	return ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
