package recipes

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A lateGrant is a request whose granting reply, or event, comes after the deadline of its session.
type lateGrant struct {
	event bool         // an event grants, and not a reply
	match zktest.Match // what grants
	queue bool         // LocalQueue of the client

	// given makes what the request meets. It returns what makes ZooKeeper grant it; nil: the request itself.
	given func(w *lateWorld) (grants func())

	// take asks until it holds. It returns the deadline that it was promised, and what ends the hold.
	take func(w *lateWorld) (deadline time.Time, end func(context.Context) error, err error)
}

// A lateWorld is a server, the client whose grant is late, and others.
type lateWorld struct {
	*testing.T
	server *zktest.Server
	late   *Client
}

func (w *lateWorld) client(name string, change ...func(*Config)) *Client {
	w.Helper()
	cfg := Config{Servers: []string{w.server.Addr()}, Dialer: w.server.Dialer(name), SessionTimeout: 20 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := NewClient(cfg)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, c.Close(context.Background())) })
	require.NoError(w, c.Ready(w.Context()))
	return c
}

func (w *lateWorld) lock(c *Client) *PriorityLock {
	w.Helper()
	l, err := c.PriorityLock("users")
	require.NoError(w, err)
	return l
}

// held is a hold of another client, of a length that counts.
func (w *lateWorld) held(name string, r Request) *Grant {
	w.Helper()
	g, err := w.lock(w.client(name)).Acquire(w.Context(), r)
	require.NoError(w, err)
	w.Cleanup(func() { _ = g.Release(context.Background()) }) // it may be over
	time.Sleep(20 * time.Millisecond)
	return g
}

// nodes are those of the late client's session.
func (w *lateWorld) nodes() (paths []string) {
	id, _ := w.late.Session()
	for _, n := range w.server.Tree("/") {
		if n.Stat.EphemeralOwner == id {
			paths = append(paths, n.Path)
		}
	}
	return paths
}

func locking(r Request) func(w *lateWorld) (time.Time, func(context.Context) error, error) {
	return func(w *lateWorld) (time.Time, func(context.Context) error, error) {
		g, err := w.lock(w.late).Acquire(context.Background(), r)
		if err != nil {
			return time.Time{}, nil, err
		}
		return g.Deadline(), g.Release, nil
	}
}

func multiOf(kinds ...zktest.OpType) zktest.Match {
	return zktest.Op(zktest.Multi).From("late").Where(func(q zktest.Request) bool {
		return slices.EqualFunc(q.Ops, kinds, func(op zktest.Request, kind zktest.OpType) bool { return op.Op == kind })
	})
}

// A grant is a promise of the session, so it is none when the session has nothing to promise any more: the request
// does not hold, and the node that was granted goes.
func TestAGrantThatIsHeardOfAfterTheDeadlineOfItsSessionIsNone(t *testing.T) {
	behind := func(r Request, leaves func(w *lateWorld, g *Grant)) func(w *lateWorld) func() {
		return func(w *lateWorld) func() {
			g := w.held("holder", r)
			return func() { leaves(w, g) }
		}
	}
	releases := func(w *lateWorld, g *Grant) { require.NoError(w, g.Release(w.Context())) }
	for name, c := range map[string]lateGrant{
		"an idle lock (T1)": {
			match: multiOf(zktest.Check, zktest.Create, zktest.SetData),
			take:  locking(Request{}),
		},
		"the lock of a holder that is gone (T3)": {
			match: multiOf(zktest.SetData, zktest.SetData),
			given: behind(Request{}, func(w *lateWorld, g *Grant) { require.True(w, w.server.Expire(g.s.sessionID())) }),
			take:  locking(Request{}),
		},
		"a lock that is handed over (T4)": {
			event: true,
			match: zktest.Event(zktest.NodeDataChanged).From("late"),
			given: behind(Request{}, releases),
			take:  locking(Request{}),
		},
		"a lock that is taken over (T7)": {
			match: multiOf(zktest.Delete, zktest.SetData, zktest.SetData),
			given: func(w *lateWorld) func() { w.held("holder", Request{}); return nil },
			take:  locking(Request{Priority: 5, Forceful: true}),
		},
		"a lock that a reader walks in (T18)": {
			match: multiOf(zktest.Check, zktest.Create, zktest.Check),
			given: func(w *lateWorld) func() {
				for _, name := range []string{"reader", "another"} {
					w.held(name, Request{Mode: priority.Shared})
				}
				return nil
			},
			take: locking(Request{Mode: priority.Shared}),
		},
		"a lock that is passed on (T17)": {
			queue: true,
			match: multiOf(zktest.SetData, zktest.SetData),
			given: func(w *lateWorld) func() {
				g, err := w.lock(w.late).Acquire(w.Context(), Request{})
				require.NoError(w, err)
				return func() { go func() { _ = g.Release(context.Background()) }() }
			},
			take: locking(Request{}),
		},
		"a mutex": {
			match: zktest.Op(zktest.GetChildren).From("late").Path("/desk"),
			take: func(w *lateWorld) (time.Time, func(context.Context) error, error) {
				m, err := w.late.Mutex("/desk", MutexOptions{})
				require.NoError(w, err)
				g, err := m.Acquire(context.Background())
				if err != nil {
					return time.Time{}, nil, err
				}
				return g.Deadline(), g.Release, nil
			},
		},
		"a permit": {
			match: multiOf(zktest.Delete, zktest.Create),
			given: func(w *lateWorld) func() { // the directories
				m, err := w.client("another").Semaphore("/pool", SemaphoreOptions{Limit: 1})
				require.NoError(w, err)
				g, err := m.Acquire(w.Context())
				require.NoError(w, err)
				require.NoError(w, g.Release(w.Context()))
				return nil
			},
			take: func(w *lateWorld) (time.Time, func(context.Context) error, error) {
				m, err := w.late.Semaphore("/pool", SemaphoreOptions{Limit: 1})
				require.NoError(w, err)
				g, err := m.Acquire(context.Background())
				if err != nil {
					return time.Time{}, nil, err
				}
				return g.Deadline(), g.Release, nil
			},
		},
		"a term": {
			match: zktest.Op(zktest.GetData).From("late").Path("/office/*"),
			take: func(w *lateWorld) (time.Time, func(context.Context) error, error) {
				e, err := w.late.Election("/office", "late", ElectionOptions{})
				require.NoError(w, err)
				term, err := e.Campaign(context.Background())
				if err != nil {
					return time.Time{}, nil, err
				}
				return term.Deadline(), term.Resign, nil
			},
		},
		"a place in a group": {
			match: zktest.Op(zktest.GetChildren).From("late").Path("/**/members"),
			take: func(w *lateWorld) (time.Time, func(context.Context) error, error) {
				g, err := w.late.Group(GroupSpec{Name: "shards", Locks: []string{"a"}})
				require.NoError(w, err)
				m, err := g.Join(context.Background(), "late", quiet{make(chan LockGrant, 9)})
				if err != nil {
					return time.Time{}, nil, err
				}
				s, err := w.late.session(context.Background())
				require.NoError(w, err)
				return time.Now().Add(s.deadline().sub(s.clock.now())), m.Leave, nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.play(&lateWorld{T: t}) })
		})
	}
}

func (c lateGrant) play(w *lateWorld) {
	const session = 20 * time.Second
	w.server = zktest.RunT(w.T, zktest.Pipe(), zktest.TickTime(2*time.Second))
	w.late = w.client("late", func(cfg *Config) {
		// So the deadline comes before the client gives up the connection on which it waits for the reply.
		cfg.SessionTimeout, cfg.Margin = session, session/2
		if c.queue {
			cfg.LocalQueue = MaxLocalQueue
		}
	})
	s, err := w.late.session(w.Context())
	require.NoError(w, err)

	// given a request that ZooKeeper grants, and that does not hear of it
	var grants func()
	if c.given != nil {
		grants = c.given(w)
	}
	var news *zktest.Rule
	on := w.server.On(c.match.Nth(1))
	if c.event {
		news = on.Hold()
	} else {
		news = on.HoldReply()
	}
	type outcome struct {
		deadline, at time.Time
		end          func(context.Context) error
		err          error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		var o outcome
		o.deadline, o.end, o.err = c.take(w)
		o.at = time.Now()
		outcomes <- o
	}()
	if grants != nil {
		time.Sleep(time.Second) // until it only waits
		_, _, err := s.get(w.Context(), "/")
		require.NoError(w, err)
		grants()
	}
	w.Cleanup(func() { // else the client cannot be closed
		news.Remove()
		if w.Failed() {
			select {
			case o := <-outcomes:
				if o.err == nil {
					_ = o.end(context.Background())
				}
			case <-time.After(time.Minute):
			}
		}
	})
	<-news.Reached()
	granted := w.nodes()
	require.NotEmpty(w, granted)

	// and whose other requests reach ZooKeeper as little
	mute := w.server.On(zktest.Any().From("late")).Hold()
	w.Cleanup(mute.Remove)

	// when it hears of that after the deadline
	time.Sleep(session * 6 / 10)
	require.Greater(w, s.clock.now(), s.deadline())
	require.True(w, s.usable(), "on the same connection")
	news.Release()
	synctest.Wait()

	// then it does not hold
	require.Empty(w, outcomes)
	require.Greater(w, s.clock.now(), s.deadline())

	// and once it is heard it holds by another node, and the one that was granted is gone
	mute.Release()
	o := inAMinute(w.T, outcomes)
	require.NoError(w, o.err)
	require.True(w, o.deadline.After(o.at))
	time.Sleep(time.Second)
	now := w.nodes()
	require.NotEmpty(w, now)
	for _, node := range granted {
		require.NotContains(w, now, node)
	}
	again, _ := w.late.Session()
	require.Equal(w, s.sessionID(), again, "the session goes on")
	require.NoError(w, o.end(w.Context()))
	time.Sleep(time.Second)
	require.Empty(w, w.nodes())
}
