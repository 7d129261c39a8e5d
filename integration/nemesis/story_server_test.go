package nemesis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

func (w *town) sessionsExpire(t *testing.T, k nemesis.Kind) {
	before := map[string]int{}
	for name, c := range w.clients {
		before[name] = c.count(zk.StateExpired)
	}
	require.NoError(t, w.Play(t.Context(), nemesis.Step{Kind: k}))
	fault := w.last(k)
	require.GreaterOrEqual(t, len(fault.Clients), 2)
	require.Len(t, fault.Sessions, len(fault.Clients))
	for _, name := range fault.Clients {
		happens(t, name+" is notified", func() bool { return w.clients[name].count(zk.StateExpired) > before[name] })
	}
}

func (w *town) peersSlow(t *testing.T, k nemesis.Kind) {
	w.during(t, nemesis.Step{Kind: k}, func() {
		for range 5 {
			w.witness.serves(t)
		}
	})
}

func (w *town) serverClock(t *testing.T, k nemesis.Kind) {
	ahead := func() bool {
		path := w.ephemeral(t, w.witness)
		_, stat, err := w.witness.Exists(path)
		return err == nil && time.Until(time.UnixMilli(stat.Mtime)) > 50*time.Minute
	}
	require.False(t, ahead())
	w.leads(t, k, func() nemesis.Fault {
		return w.during(t, nemesis.Step{Kind: k, Offset: time.Hour}, func() { happens(t, "an hour ahead", ahead) })
	})
	require.False(t, ahead())
}

func (w *town) serverKill(t *testing.T, k nemesis.Kind) {
	fault := w.during(t, nemesis.Step{Kind: k, Server: 2}, func() {
		happens(t, "gone", func() bool { return !w.server(2).Alive() })
		w.a.serves(t)
	})
	require.Equal(t, []string{"server 2"}, fault.Victims())
}

// leaderGone: whatever happens to a leader, another one takes its place, and all clients can write.
func (w *town) leaderGone(t *testing.T, k nemesis.Kind) {
	w.leads(t, k, func() nemesis.Fault {
		return w.during(t, nemesis.Step{Kind: k}, func() {
			w.replaced(t, w.last(k).Servers[0])
			w.witness.serves(t)
		})
	})
}

func (w *town) replaced(t *testing.T, leader int) {
	t.Helper()
	happens(t, "another leader", func() bool {
		next, err := w.Ensemble().Leader(t.Context())
		return err == nil && next.ID() != leader
	})
}

func (w *town) noQuorum(t *testing.T, k nemesis.Kind) {
	fault := w.during(t, nemesis.Step{Kind: k, Server: 1}, func() {
		happens(t, "two are gone", func() bool { return !w.server(2).Alive() && !w.server(3).Alive() })
		happens(t, "no client can write", mute(w.witness))
		require.True(t, w.server(1).Alive())
	})
	require.Equal(t, []int{2, 3}, fault.Servers)
}

func (w *town) allRestart(t *testing.T, k nemesis.Kind) {
	pids := func() (list []int) {
		for _, s := range w.Ensemble().Servers() {
			list = append(list, s.PID())
		}
		return list
	}
	before := pids()
	require.NoError(t, w.Play(t.Context(), nemesis.Step{Kind: k, Client: w.name}))
	for i, pid := range pids() {
		require.NotEqual(t, before[i], pid)
	}
}

func (w *town) serverPause(t *testing.T, k nemesis.Kind) {
	w.during(t, nemesis.Step{Kind: k, Server: 3}, func() {
		happens(t, "no answer", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := w.server(3).Mode(ctx)
			return err != nil
		})
		w.a.serves(t)
	})
}

// leaderTrap: the client stays with a leader that leads no more, until that one gives up.
func (w *town) leaderTrap(t *testing.T, k nemesis.Kind) {
	w.leads(t, k, func() nemesis.Fault {
		fault := w.during(t, nemesis.Step{Kind: k}, func() {
			happens(t, "trapped", mute(w.a))
			w.replaced(t, w.last(k).Servers[0])
			w.b.serves(t)
			require.Error(t, w.a.write())
		})
		require.Equal(t, []string{w.name}, fault.Clients)
		return fault
	})
}

func (w *town) followerPartition(t *testing.T, k nemesis.Kind) {
	w.leads(t, k, func() nemesis.Fault {
		return w.during(t, nemesis.Step{Kind: k}, func() {
			happens(t, "a follower alone serves no client", func() bool {
				_, err := w.server(w.last(k).Servers[0]).Mode(t.Context())
				return err != nil
			})
			w.witness.serves(t)
		})
	})
}

// followerAcked: the follower that serves the client is struck when it has answered a write, and not for a read. A client
// that reaches no other server loses its session.
func (w *town) followerAcked(t *testing.T, k nemesis.Kind) {
	for reach, detail := range map[nemesis.Reach]string{nemesis.Alone: "reaches no other server", nemesis.Elsewhere: "can go elsewhere"} {
		w.leads(t, k, func() nemesis.Fault {
			path := w.ephemeral(t, w.a)
			fault := w.during(t, nemesis.Step{Kind: k, Reach: reach}, func() {
				w.readsByFollower(t)
				before := w.a.count(zk.StateDisconnected)
				happens(t, "the follower is struck", func() bool { return w.a.write() != nil || w.a.count(zk.StateDisconnected) > before })
				if reach == nemesis.Alone {
					happens(t, "the session ends", func() bool { return !w.there(path) })
					require.Error(t, w.a.write())
				} else {
					w.a.serves(t)
				}
				w.b.serves(t)
			})
			require.Regexp(t, `^\d+m?s after an answer, the client `+detail, fault.Detail)
			require.Len(t, fault.Servers, 1)
			require.Equal(t, []string{fmt.Sprintf("client %s - server %d", w.name, fault.Servers[0])}, fault.Victims())
			return fault
		})
	}
}

// readsByFollower: the client reads for a while, and no server is any worse for it.
func (w *town) readsByFollower(t *testing.T) {
	t.Helper()
	leader, err := w.Ensemble().Leader(t.Context())
	require.NoError(t, err)
	addr := strings.Split(w.Connect(w.name), ",")[leader.ID()-1]
	reads := func() bool {
		_, _, err := w.a.Exists("/")
		return err == nil && w.a.Server() != addr
	}
	happens(t, "a follower serves the client", reads)
	n := 0
	happens(t, "it reads for a while", func() bool {
		if reads() {
			n++
		}
		return n == 50
	})
	for _, s := range w.Ensemble().Servers() {
		require.True(t, s.Alive())
		_, err := s.Mode(t.Context())
		require.NoError(t, err)
	}
}

func (w *town) diskFull(t *testing.T, k nemesis.Kind) {
	var pid int
	w.during(t, nemesis.Step{Kind: k, Server: 1}, func() {
		pid = w.server(1).PID()
		happens(t, "a server that cannot write serves no client", func() bool {
			_, _ = w.witness.Create("/big-", make([]byte, 5000), zk.FlagSequence, zk.WorldACL(zk.PermAll))
			_, err := w.server(1).Mode(t.Context())
			return err != nil
		})
		w.witness.serves(t)
	})
	require.NotEqual(t, pid, w.server(1).PID(), "it was not started again")
}
