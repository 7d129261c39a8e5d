package nemesis_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

func (w *town) linkCut(t *testing.T, k nemesis.Kind) {
	fault := w.during(t, nemesis.Step{Kind: k}, func() {
		happens(t, "cut off", mute(w.a))
		for addr := range strings.SplitSeq(w.Connect(w.name), ",") {
			_, err := net.Dial("tcp", addr)
			require.Error(t, err)
		}
		w.b.serves(t)
	})
	require.Equal(t, []string{"client " + w.name}, fault.Victims())
	fault = w.during(t, nemesis.Step{Kind: k, Server: 2}, func() {
		w.a.serves(t) // by another one
		_, err := net.Dial("tcp", strings.Split(w.Connect(w.name), ",")[1])
		require.Error(t, err)
	})
	require.Equal(t, []string{"client " + w.name + " - server 2"}, fault.Victims())
}

func (w *town) linkReset(t *testing.T, k nemesis.Kind) {
	before := w.a.count(zk.StateDisconnected)
	require.NoError(t, w.Play(t.Context(), nemesis.Step{Kind: k, Client: w.name}))
	happens(t, "the connection ends", func() bool { return w.a.count(zk.StateDisconnected) > before })
}

func (w *town) linkRefuse(t *testing.T, k nemesis.Kind) {
	for range 4 { // a busy machine lets a connection break by itself
		w.a.serves(t)
		before := w.a.count(zk.StateDisconnected)
		var written error
		w.during(t, nemesis.Step{Kind: k}, func() {
			happens(t, "no new client comes in", func() bool {
				return !slices.ContainsFunc(strings.Split(w.Connect(w.name), ","), func(addr string) bool {
					conn, err := net.Dial("tcp", addr)
					if err == nil {
						_ = conn.Close()
					}
					return err == nil
				})
			})
			written = w.a.write()
		})
		if written == nil && w.a.count(zk.StateDisconnected) == before {
			return
		}
	}
	require.Fail(t, "who was in is out")
}

// linkSilent: the client is not notified, and loses its session.
func (w *town) linkSilent(t *testing.T, k nemesis.Kind) {
	for range 4 { // again when a busy machine has ended the session before the fault began
		before := w.a.count(zk.StateExpired)
		path := w.ephemeral(t, w.a)
		early := false
		w.during(t, nemesis.Step{Kind: k}, func() {
			happens(t, "nothing arrives", mute(w.a))
			if early = w.a.count(zk.StateExpired) > before; early {
				return
			}
			happens(t, "the session ends", func() bool {
				there, _, err := w.witness.Exists(path)
				return err == nil && !there
			})
			require.Equal(t, before, w.a.count(zk.StateExpired), "it was told")
		})
		if !early {
			happens(t, "the client is notified", func() bool { return w.a.count(zk.StateExpired) > before })
			return
		}
	}
	require.Fail(t, "its session ends before each fault")
}

func (w *town) linkMute(t *testing.T, k nemesis.Kind) {
	w.during(t, nemesis.Step{Kind: k}, func() {
		happens(t, "nothing arrives", mute(w.a))
		w.b.serves(t)
	})
}

func (w *town) linkSlow(t *testing.T, k nemesis.Kind) {
	before := w.a.count(zk.StateDisconnected)
	fault := w.during(t, nemesis.Step{Kind: k}, func() {
		happens(t, "answers take their time", func() bool {
			asked := time.Now()
			_, _, err := w.a.Exists("/")
			return err == nil && time.Since(asked) >= 10*time.Millisecond
		})
	})
	require.Contains(t, fault.Detail, "later, each way")
	require.GreaterOrEqual(t, w.a.count(zk.StateDisconnected), before)
}

func (w *town) leaderCutOff(t *testing.T, k nemesis.Kind) {
	w.leads(t, k, func() nemesis.Fault {
		return w.during(t, nemesis.Step{Kind: k}, func() {
			w.a.serves(t) // by a follower
			addr := strings.Split(w.Connect(w.name), ",")[w.last(k).Servers[0]-1]
			require.NotEqual(t, addr, w.a.Server())
			w.b.serves(t)
		})
	})
}

func (w *town) replyDrop(t *testing.T, k nemesis.Kind) { w.writeFails(t, k, true) }

func (w *town) requestDrop(t *testing.T, k nemesis.Kind) { w.writeFails(t, k, false) }

// writeFails: a write fails, and is done or not.
func (w *town) writeFails(t *testing.T, k nemesis.Kind, done bool) {
	fault := w.during(t, nemesis.Step{Kind: k}, func() {
		happens(t, "a write that fails as it should", func() bool {
			path := fmt.Sprintf("/%s-%s", k, time.Now().Format("150405.000000000"))
			_, err := w.a.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			if err == nil {
				return false
			}
			return w.sees(t, path) == done
		})
	})
	require.Regexp(t, `^[1-9]\d* lost$`, fault.Detail)
}

func (w *town) sessionExpire(t *testing.T, k nemesis.Kind) {
	path := w.ephemeral(t, w.a)
	expired := w.a.count(zk.StateExpired)
	id := w.a.SessionID()
	require.NoError(t, w.Play(t.Context(), nemesis.Step{Kind: k, Client: w.name}))
	fault := w.last(k)
	require.Equal(t, []int64{id}, fault.Sessions)
	require.Contains(t, fault.Victims(), "client "+w.name)
	happens(t, "the client is notified", func() bool { return w.a.count(zk.StateExpired) > expired })
	require.False(t, w.sees(t, path))
}

func (w *town) clientKill(t *testing.T, k nemesis.Kind) {
	require.NoError(t, w.Play(t.Context(), nemesis.Step{Kind: k, Client: w.name}))
	require.Equal(t, []string{"kill"}, w.processes.of(w.name))
}

func (w *town) clientPause(t *testing.T, k nemesis.Kind) {
	w.during(t, nemesis.Step{Kind: k}, func() {
		happens(t, "pause", func() bool { return slices.Equal([]string{"pause"}, w.processes.of(w.name)) })
	})
	require.Equal(t, []string{"pause", "resume"}, w.processes.of(w.name))
}

func (w *town) clientClock(t *testing.T, k nemesis.Kind) {
	w.during(t, nemesis.Step{Kind: k, Offset: -time.Hour}, func() {
		happens(t, "step", func() bool { return slices.Equal([]string{"step -1h0m0s"}, w.processes.of(w.name)) })
	})
	require.Equal(t, []string{"step -1h0m0s", "step 0s"}, w.processes.of(w.name))
}
