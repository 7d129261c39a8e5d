package zkserver

import (
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Guest is a plain client with a session of its own, for tests of servers.
type Guest struct {
	*zk.Conn
	// States are those that it has been in and that were not waited for.
	States chan zk.State // the library's own channel forgets what is not read at once

	t testing.TB
}

// Visit connects a guest, which is closed at the end of the test, and returns when it has its session.
func Visit(t testing.TB, servers string, timeout time.Duration) *Guest {
	t.Helper()
	g := &Guest{t: t, States: make(chan zk.State, 1000)}
	conn, _, err := zk.Connect(strings.Split(servers, ","), timeout,
		zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithEventCallback(func(e zk.Event) {
			if e.Type == zk.EventSession {
				g.States <- e.State
			}
		}))
	if err != nil {
		t.Fatalf("connect to %s: %v", servers, err)
	}
	t.Cleanup(conn.Close)
	g.Conn = conn
	g.Becomes(zk.StateHasSession)
	return g
}

// Becomes waits until the guest is in a state.
func (g *Guest) Becomes(state zk.State) {
	g.t.Helper()
	for deadline := time.After(3 * time.Minute); ; {
		select {
		case now := <-g.States:
			if now == state {
				return
			}
		case <-deadline:
			g.t.Fatalf("the client is not %s", state)
		}
	}
}
