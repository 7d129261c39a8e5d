package jobs

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChattyCommandIsBoundedAndNeverStandsStill(t *testing.T) {
	tail := NewTail(100)
	r := run(t, never, `head -c 5000000 /dev/zero; echo; echo the end`, func(c *Command) { c.Stdout, c.Stderr = tail, tail })
	require.NoError(t, r.wait(t))
	require.Len(t, tail.String(), 100)
	require.True(t, strings.HasSuffix(tail.String(), "\nthe end\n"))
	require.EqualValues(t, 5000000+len("\nthe end\n")-100, tail.Dropped())
}

func TestWriterThatFailsDoesNotBlockTheCommand(t *testing.T) {
	r := run(t, never, `head -c 5000000 /dev/zero && exit 5`, func(c *Command) { c.Stdout = failing{} })
	err := r.wait(t)
	var exit *ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 5, exit.Code, "it saw no broken pipe")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestOutputOfAFileIsInherited(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	r := run(t, never, `readlink /proc/self/fd/1`, func(c *Command) { c.Stdout = file })
	require.NoError(t, r.wait(t))
	said, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Equal(t, file.Name()+"\n", string(said))
}

func TestProcessThatLeftAndKeepsTheOutputIsGivenUp(t *testing.T) {
	r := run(t, never, `setsid sleep 1000 & echo daemon $!`)
	daemon := r.said.awaitPID(t, "daemon")
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	require.NoError(t, r.wait(t))
}
