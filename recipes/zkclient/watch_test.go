package zkclient

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// An event may come between a look's request and its answer, of a watch that was set before. If it comes after the
// answer, it ends the watch of the look as well.
func TestALookThatAnEventOvertakesKnowsWhetherItsWatchStands(t *testing.T) {
	for name, stands := range map[string]bool{"event, answer": true, "answer, event": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.RunT(t, zktest.Pipe())
				c, err := NewClient(Config{Servers: []string{server.Addr()}, Dialer: server.Dial})
				require.NoError(t, err)
				defer func() { require.NoError(t, c.Close(t.Context())) }()
				s, err := c.Usable(t.Context())
				require.NoError(t, err)
				synctest.Wait() // what follows a new connection is over: it makes each watcher read again
				_, err = s.Create(t.Context(), "/a", nil, zk.FlagEphemeral)
				require.NoError(t, err)

				told := 0
				w := Watcher(func(WatchKind) { told++ })
				_, _, err = s.Look(t.Context(), "/a", &w)
				require.NoError(t, err)
				s.watches.reset(false) // as a reconnect does: the watch stands, and is not known
				change := func() {
					_, err := s.conn.Set("/a", []byte("1"), -1)
					require.NoError(t, err)
					synctest.Wait()
				}
				_, err = lookWith(t.Context(), s, watchKey{path: "/a"}, &w, nil,
					func(c *zk.Conn) (NodeData, libraryWatch, error) {
						if stands {
							change()
						}
						data, stat, watch, err := c.GetW("/a")
						if !stands {
							change()
						}
						return NodeData{data, stat}, watch, err
					})
				require.NoError(t, err)
				require.Equal(t, 1, told)
				s.Unwatch("/a", &w)
				require.Equal(t, stands, s.WatchIdle("/a"))
				require.Equal(t, stands, s.watches.resends())
			})
		})
	}
}

func TestWatchesThatHaveEndedDoNotPileUp(t *testing.T) {
	table := newWatchTable()
	for i := range 10_000 {
		late := make(chan zk.Event)
		table.keep(watchKey{path: fmt.Sprint(i)}, late)
		close(late)
	}
	require.Less(t, len(table.library), 200)
	for i := range 1000 {
		table.keep(watchKey{path: fmt.Sprint(i)}, make(chan zk.Event))
	}
	require.Equal(t, 1000, table.standing())
}

// A node that comes ends the watches on its coming, and not those on its data.
func TestAWatchOnDataOutlivesTheEventOfTheNodesCreation(t *testing.T) {
	table := newWatchTable()
	table.keep(watchKey{path: "/a"}, make(chan zk.Event))
	table.fire(zk.Event{Type: zk.EventNodeCreated, Path: "/a"})
	require.True(t, table.idle(watchKey{path: "/a"}))
	table.fire(zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"})
	require.False(t, table.idle(watchKey{path: "/a"}))
}
