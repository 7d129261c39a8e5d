package clients

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// One Java program plays all scenarios on one side: starting Java takes longer than most of them.
func TestCuratorBehavesTheSameOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	java := peers.BuildJava(t, filepath.Join("java", "scenarios"), "scenarios.Main")
	names := curatorScenarios(t, java)
	if !*update {
		requireAllPlayed(t, "curator", names)
	}
	embedded, genuine := sides(t, true)
	root := zkserver.Root(t)
	onEmbedded, onGenuine := playBoth(t, embedded, genuine, func(s *side) []string {
		return java.Command(s.connect(), root)
	}, ".")
	embeddedTranscripts, genuineTranscripts := byScenario(t, onEmbedded), byScenario(t, onGenuine)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			requireSame(t, filepath.Join("curator", name), embeddedTranscripts[name], genuineTranscripts[name])
		})
	}
	require.Len(t, embeddedTranscripts, len(names))
	require.Len(t, genuineTranscripts, len(names))
}

func curatorScenarios(t *testing.T, java peers.Java) []string {
	t.Helper()
	command := java.Command("--list")
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).Output()
	require.NoError(t, err)
	names := strings.Fields(string(out))
	require.NotEmpty(t, names)
	return names
}

// byScenario cuts a transcript where a line "=== NAME" begins a scenario.
func byScenario(t *testing.T, whole string) map[string]string {
	t.Helper()
	transcripts := map[string]string{}
	for _, part := range strings.Split("\n"+whole, "\n=== ")[1:] {
		name, transcript, _ := strings.Cut(part, "\n")
		require.NotContains(t, transcripts, name, "played twice")
		transcripts[name] = strings.TrimSuffix(transcript, "\n") + "\n"
	}
	return transcripts
}
