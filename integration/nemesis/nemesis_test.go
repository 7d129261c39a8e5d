package nemesis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// A story plays one kind of fault, and shows what it does to those who live with it.
type story struct {
	kind nemesis.Kind
	tell func(*town, *testing.T, nemesis.Kind)
}

// networkStories concern one client each, and can be told side by side.
func networkStories() []story {
	return []story{
		{nemesis.LinkCut, (*town).linkCut},
		{nemesis.LinkReset, (*town).linkReset},
		{nemesis.LinkRefuse, (*town).linkRefuse},
		{nemesis.LinkHalfOpen, (*town).linkSilent},
		{nemesis.LinkBlackhole, (*town).linkSilent},
		{nemesis.LinkDeaf, (*town).linkSilent},
		{nemesis.LinkMute, (*town).linkMute},
		{nemesis.LinkStall, (*town).linkMute},
		{nemesis.LinkSlow, (*town).linkSlow},
		{nemesis.LeaderCutOff, (*town).leaderCutOff},
		{nemesis.ReplyDrop, (*town).replyDrop},
		{nemesis.RequestDrop, (*town).requestDrop},
		{nemesis.SessionExpire, (*town).sessionExpire},
		{nemesis.ClientKill, (*town).clientKill},
		{nemesis.ClientPause, (*town).clientPause},
		{nemesis.ClientClock, (*town).clientClock},
	}
}

// serverStories concern all clients: one after the other.
func serverStories() []story {
	return []story{
		{nemesis.SessionsExpire, (*town).sessionsExpire},
		{nemesis.PeersSlow, (*town).peersSlow},
		{nemesis.ServerClock, (*town).serverClock},
		{nemesis.ServerKill, (*town).serverKill},
		{nemesis.LeaderKill, (*town).leaderGone},
		{nemesis.MajorityKill, (*town).noQuorum},
		{nemesis.AllRestart, (*town).allRestart},
		{nemesis.ServerPause, (*town).serverPause},
		{nemesis.LeaderPause, (*town).leaderGone},
		{nemesis.LeaderPartition, (*town).leaderGone},
		{nemesis.LeaderMute, (*town).leaderGone},
		{nemesis.LeaderTrap, (*town).leaderTrap},
		{nemesis.FollowerPartition, (*town).followerPartition},
		{nemesis.FollowerKillAcked, (*town).followerAcked},
		{nemesis.FollowerPauseAcked, (*town).followerAcked},
		{nemesis.FollowerPartitionAcked, (*town).followerAcked},
		{nemesis.DiskFull, (*town).diskFull},
	}
}

func TestEveryKindHasAStory(t *testing.T) {
	var told []nemesis.Kind
	for _, s := range slices.Concat(networkStories(), serverStories()) {
		told = append(told, s.kind)
	}
	require.ElementsMatch(t, nemesis.All(), told)
}

// One ensemble bears all of them: each must be healed for the next to begin.
func TestEachFaultDoesWhatItSaysAndIsHealed(t *testing.T) {
	names := []string{"a", "b", "c"}
	for _, s := range networkStories() {
		names = append(names, string(s.kind))
	}
	w := settle(t, nemesis.Options{Seed: 3, Lanes: 3, Hold: 200 * time.Millisecond, Rest: 50 * time.Millisecond}, names...)
	require.Empty(t, w.Unavailable(), "run make setup")
	require.True(t, t.Run("network", func(t *testing.T) {
		for _, s := range networkStories() {
			t.Run(string(s.kind), func(t *testing.T) {
				t.Parallel()
				own := *w
				own.name, own.a = string(s.kind), w.clients[string(s.kind)]
				s.tell(&own, t, s.kind)
				own.whole(t)
			})
		}
	}))
	for _, s := range serverStories() {
		require.True(t, t.Run(string(s.kind), func(t *testing.T) {
			s.tell(w, t, s.kind)
			w.whole(t)
		}))
	}
	require.True(t, t.Run("random", w.random))
	require.True(t, t.Run("unsupported", w.unsupported))
}

// town is an ensemble with clients behind links of their own, and one that no fault of the network concerns.
type town struct {
	*nemesis.Nemesis
	processes *processes
	clients   map[string]*client
	name      string  // of a
	a         *client // who bears the fault
	b         *client // who does not
	witness   *client
	seen      *sync.Map // numbers of the faults under way
}

func settle(t *testing.T, o nemesis.Options, names ...string) *town {
	t.Helper()
	w := &town{processes: &processes{}, clients: map[string]*client{}, seen: &sync.Map{}}
	o.Clients, o.Processes, o.Session = names, w.processes, session
	o.Observe = func(f nemesis.Fault) {
		if f.Ended == 0 {
			w.seen.Store(f.Number, true)
		} else {
			w.seen.Delete(f.Number)
		}
	}
	w.Nemesis = nemesis.Start(t, o)
	t.Log(w.Notes(), w.Unavailable())
	for _, name := range names {
		w.clients[name] = connect(t, w.Connect(name))
	}
	w.name, w.a, w.b = names[0], w.clients[names[0]], w.clients["b"]
	w.witness = connect(t, w.Direct())
	return w
}

// open counts the faults under way.
func (w *town) open() (n int) {
	w.seen.Range(func(any, any) bool { n++; return true })
	return n
}

// during plays a step for as long as check takes, and returns the fault when it is healed.
func (w *town) during(t *testing.T, step nemesis.Step, check func()) nemesis.Fault {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	step.For = time.Hour
	step.Client = cmp.Or(step.Client, w.name)
	before := w.last(step.Kind).Number
	played := make(chan error, 1)
	go func() { played <- w.Play(ctx, step) }()
	happens(t, "the fault begins", func() bool { return w.last(step.Kind).Number > before })
	check()
	cancel()
	require.ErrorIs(t, <-played, context.Canceled)
	fault := w.last(step.Kind)
	require.Empty(t, fault.Err)
	require.Greater(t, fault.Ended, fault.Began)
	t.Log(fault)
	return fault
}

// last returns the last fault of a kind.
func (w *town) last(k nemesis.Kind) (last nemesis.Fault) {
	for _, f := range w.Faults() {
		if f.Kind == k {
			last = f
		}
	}
	return last
}

// leads plays what is about a leader again when the machine is so busy that the lead has changed by itself meanwhile.
func (w *town) leads(t *testing.T, k nemesis.Kind, tell func() nemesis.Fault) {
	t.Helper()
	for range 4 {
		leader, err := w.Ensemble().Leader(t.Context())
		require.NoError(t, err)
		if slices.Contains(tell().Servers, leader.ID()) != strings.HasPrefix(string(k), "follower-") {
			return
		}
	}
	require.Fail(t, "never aimed at the leader")
}

// whole: all servers serve, and the clients can write.
func (w *town) whole(t *testing.T) {
	t.Helper()
	for _, s := range w.Ensemble().Servers() {
		require.True(t, s.Alive())
		_, err := s.Mode(t.Context())
		require.NoError(t, err)
	}
	for _, c := range []*client{w.a, w.b, w.witness} {
		c.serves(t)
	}
}

func (w *town) server(id int) *zkserver.Server { return w.Ensemble().Servers()[id-1] }

func mute(c *client) func() bool { return func() bool { return c.write() != nil } }

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
	before := w.a.count(zk.StateExpired)
	path := w.ephemeral(t, w.a)
	w.during(t, nemesis.Step{Kind: k}, func() {
		happens(t, "nothing arrives", mute(w.a))
		happens(t, "the session ends", func() bool {
			there, _, err := w.witness.Exists(path)
			return err == nil && !there
		})
		require.Equal(t, before, w.a.count(zk.StateExpired), "it was told")
	})
	happens(t, "the client is notified", func() bool { return w.a.count(zk.StateExpired) > before })
}

// ephemeral makes a node that lives as long as the client's session.
func (w *town) ephemeral(t *testing.T, c *client) (path string) {
	t.Helper()
	happens(t, "an ephemeral node", func() bool {
		var err error
		path, err = c.Create("/e-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err == nil
	})
	_, err := w.witness.Sync("/")
	require.NoError(t, err)
	return path
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

func (w *town) replyDrop(t *testing.T, k nemesis.Kind)   { w.writeFails(t, k, true) }
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
			_, err = w.witness.Sync("/")
			require.NoError(t, err)
			there, _, err := w.witness.Exists(path)
			require.NoError(t, err)
			return there == done
		})
	})
	require.Regexp(t, `^[1-9]\d* lost$`, fault.Detail)
}

func (w *town) sessionExpire(t *testing.T, k nemesis.Kind) {
	path := w.ephemeral(t, w.a)
	expired, other := w.a.count(zk.StateExpired), w.b.count(zk.StateExpired)
	id := w.a.SessionID()
	require.NoError(t, w.Play(t.Context(), nemesis.Step{Kind: k, Client: w.name}))
	fault := w.last(k)
	require.Equal(t, []int64{id}, fault.Sessions)
	require.Contains(t, fault.Victims(), "client "+w.name)
	happens(t, "the client is notified", func() bool { return w.a.count(zk.StateExpired) > expired })
	_, err := w.witness.Sync("/")
	require.NoError(t, err)
	there, _, err := w.witness.Exists(path)
	require.NoError(t, err)
	require.False(t, there)
	require.Equal(t, other, w.b.count(zk.StateExpired))
}

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
		happens(t, "no client can write", mute(w.witness))
		require.True(t, w.server(1).Alive())
		require.False(t, w.server(2).Alive())
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

// there tells whether a node is there, as the witness sees it.
func (w *town) there(path string) bool {
	there, _, err := w.witness.Exists(path)
	return err != nil || there
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

var errBusy = errors.New("just being started")

// random: Run plays what comes, and leaves all whole.
func (w *town) random(t *testing.T) {
	w.processes.fail(errBusy)
	defer w.processes.fail(nil)
	before := len(w.Faults())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	happens(t, "some faults", func() bool {
		_ = w.a.write()
		require.LessOrEqual(t, w.open(), 3)
		return len(w.Faults()) >= before+6
	})
	cancel()
	require.NoError(t, <-ran)

	require.Zero(t, w.open())
	w.whole(t)
	faults := w.Faults()
	for i, f := range faults {
		require.Equal(t, i+1, f.Number)
		require.NotZero(t, f.Ended)
		require.Equal(t, i >= before && slices.Contains([]nemesis.Kind{nemesis.ClientKill, nemesis.ClientPause, nemesis.ClientClock}, f.Kind),
			strings.Contains(f.Err, errBusy.Error()))
	}
	t.Log(faults[before:])
}

func (w *town) unsupported(t *testing.T) {
	w.processes.fail(errors.ErrUnsupported)
	require.Contains(t, w.Available(), nemesis.ClientClock)
	require.ErrorContains(t, w.Play(t.Context(), nemesis.Step{Kind: nemesis.ClientClock}), errors.ErrUnsupported.Error())
	require.NotContains(t, w.Available(), nemesis.ClientClock)
	require.Contains(t, w.Unavailable(), nemesis.ClientClock)
	require.ErrorContains(t, w.Play(t.Context(), nemesis.Step{Kind: nemesis.ClientClock}), "cannot be played")
}
