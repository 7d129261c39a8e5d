package schedulers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A serverKind is a kind of ZooKeeper.
type serverKind string

const (
	apache   serverKind = "zookeeper" // with its log in memory
	embedded serverKind = "embedded"  // in a process of its own
)

type server struct {
	addr string
	pid  int
}

// start starts a server for the length of a test.
func (k serverKind) start(t testing.TB) server {
	t.Helper()
	if k == apache {
		s := zkserver.Start(t, zkserver.WithOptimisingCompiler(), zkserver.WithTick(2*time.Second), zkserver.WithHeap(1024))
		return server{addr: s.Addr(), pid: s.PID()}
	}
	child := command(t, t.Context(), settings{})
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = child.Wait()
	})
	var addr string
	_, err = fmt.Fscanln(stdout, &addr)
	require.NoError(t, err)
	return server{addr: addr, pid: child.Process.Pid}
}

func startEmbedded() (*zktest.Server, error) { return zktest.Start() }
