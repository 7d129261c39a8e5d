package harness

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutputOfADaemonIsKeptUntilItIsStopped(t *testing.T) {
	d := StartDaemon(t, exec.Command("sh", "-c", "echo one two; echo three >&2; exec sleep 600"))
	require.Equal(t, "one two\n", d.Await(t, "two", "one"))
	d.Await(t, "three")
	_, there := d.Line("one", "three")
	require.False(t, there, "of different lines")
	d.Stop()
	d.Stop()
	require.NotNil(t, d.Cmd.ProcessState)
	require.Contains(t, d.String(), "one two\n")
}

func TestLineIsOneThatHasItsEnd(t *testing.T) {
	var o Output
	_, _ = o.Write([]byte("one two"))
	_, there := o.Line("one")
	require.False(t, there, "more may come")
	_, _ = o.Write([]byte(" three\n"))
	line, _ := o.Line("one")
	require.Equal(t, "one two three\n", line)
}
