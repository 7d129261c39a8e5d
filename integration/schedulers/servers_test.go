package schedulers

import (
	"fmt"
	"strconv"
	"strings"
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
	addr   string
	pid    int
	apache *zkserver.Server // nil: the embedded one
}

// start starts a server for the length of a test.
func (k serverKind) start(t testing.TB) server {
	t.Helper()
	if k == apache {
		s := zkserver.Start(t, zkserver.WithOptimisingCompiler(), zkserver.WithTick(2*time.Second), zkserver.WithHeap(1024))
		return server{addr: s.Addr(), pid: s.PID(), apache: s}
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

// proposals are all that the server has agreed on with itself: the writes, and
// the beginnings and ends of sessions.
func (s server) proposals(t testing.TB) int64 {
	t.Helper()
	if s.apache == nil {
		return 0
	}
	text, err := s.apache.Command(t.Context(), "srvr")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(text, "Zxid: 0x")
	const counter = 0xffffffff // above it is the epoch
	zxid, err := strconv.ParseInt(strings.Fields(rest)[0], 16, 64)
	require.NoError(t, err)
	return zxid & counter
}

func startEmbedded() (*zktest.Server, error) { return zktest.Start() }
