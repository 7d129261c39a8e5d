package interleavings

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	// soon is how long anything that must happen may take, on a busy machine.
	soon = 30 * time.Second

	// users is the scope that all contend for, unless a test says otherwise.
	users = "users"
)

// scenario plays body twice, as subtests: "embedded", on the embedded server in
// a bubble of virtual time, and "real", on the real server behind a proxy with
// the same faults. It is called once for each t.
func scenario(t *testing.T, body func(w *world)) {
	t.Helper()
	t.Parallel()
	inBubble(t, body)
	if backend, err := testbed.Selected(); err != nil {
		t.Fatal(err)
	} else if backend == testbed.Embedded {
		return
	}
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		server := shared.Server(t)
		proxy := zktest.RunProxyT(t, server.Addr())
		play(&world{
			T: t, network: proxy, admin: newShell(t, server), root: testbed.Root(t),
			settle: func() { <-time.After(quiet) }, stop: func() { _ = proxy.Close() },
		}, body)
	})
}

// embeddedOnly plays body on the embedded server alone, because of reason: it
// says what no real server can do.
func embeddedOnly(t *testing.T, reason string, body func(w *world)) {
	t.Helper()
	t.Parallel()
	require.NotEmpty(t, reason, "why not on the real server")
	inBubble(t, body)
}

func inBubble(t *testing.T, body func(w *world)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			z := zktest.RunT(t, zktest.Pipe())
			play(&world{
				T: t, network: z, z: z, admin: embedded{z}, root: "/lockkeeper",
				settle: synctest.Wait, stop: func() { _ = z.Close() },
			}, body)
		})
	})
}

// quiet is how long a real server is watched for what must not happen. That
// can miss a fault, and never invents one; virtual time misses none.
const quiet = 30 * time.Millisecond

func play(w *world, body func(w *world)) {
	w.start = time.Now()
	w.story = &story{start: w.start}
	w.clients = make(map[string]*client)
	w.referee = newReferee(w)
	w.Cleanup(w.finish)
	body(w)
}

// A network is what lies between clients and server, with faults on demand. It
// is a *zktest.Server or a *zktest.Proxy.
type network interface {
	On(m zktest.Match) *zktest.Fault
	Partition(names ...string)
	Heal(names ...string)
	Disconnect(session int64) bool
	Trace() []zktest.Exchange
	Dialer(name string) func(ctx context.Context, network, address string) (net.Conn, error)
}

// A world is a server, the clients that contend on it, and a referee. Rules,
// partitions and heals are those of zktest: w.On(T1(users).From("A")).Hold().
type world struct {
	*testing.T
	network

	// z is the embedded server; nil on the real one.
	z *zktest.Server

	// settle returns when everything that can happen without the passing of time
	// has happened. On the real server it is only likely: it is for what must not
	// happen, and for nothing else.
	settle func()

	admin   admin
	root    string
	stop    func()
	start   time.Time
	story   *story
	referee *referee

	mu      sync.Mutex
	clients map[string]*client
	order   []*client
	askers  []*user
}

// elapsed is the time since the world began.
func (w *world) elapsed() time.Duration { return time.Since(w.start) }

// pass lets time pass; in a bubble it is virtual.
func (w *world) pass(d time.Duration) { <-time.After(d) }

// eventually waits for what must become true soon, without a rule or a notice
// that tells of it.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(soon); ; <-time.After(time.Millisecond) {
		if w.z != nil {
			w.settle() // then no time has to pass
		}
		if is() {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(w, "never: "+what)
		}
	}
}

// reached waits until a rule has acted.
func (w *world) reached(r *zktest.Rule) {
	w.Helper()
	select {
	case <-r.Reached():
		w.story.tell("network", "%s", r)
	case <-time.After(soon):
		require.FailNow(w, "never happened: "+r.String())
	}
}

// must fails the test unless a request that matches is sent, by its end.
func (w *world) must(m zktest.Match) *zktest.Rule { return w.On(m).Delay(0) }

// never fails the test if a request that matches is sent before the scenario
// ends.
func (w *world) never(m zktest.Match) {
	r := w.On(m).Delay(0)
	w.Cleanup(func() {
		if n := r.Fired(); n > 0 {
			w.Errorf("happened %d times: %s", n, m)
		}
		r.Remove()
	})
}

// expire ends the session of a client at the server, all at once.
func (w *world) expire(name string) {
	w.Helper()
	id, password := w.client(name).Session()
	require.NotZero(w, id)
	if w.z == nil { // it takes a while
		w.referee.forgiveWhoAsks(w.pending(name))
	}
	w.referee.forgive(w.holdersOf(name)...)
	if w.z == nil { // there a session is ended by another connection: its owner must not come back first
		away := w.On(zktest.Op(zktest.Connect).From(name)).Hold()
		defer away.Remove()
	}
	require.NoError(w, w.admin.expire(id, password))
	w.story.tell("server", "session of %s expired", name)
}

// disconnect breaks the connection of a client.
func (w *world) disconnect(name string) {
	w.Helper()
	id, _ := w.client(name).Session()
	require.True(w, w.Disconnect(id), "%s is connected", name)
	w.story.tell("network", "connection of %s broken", name)
}

// evict deletes the node of a request, by an administrator's hand.
func (w *world) evict(u *user) {
	w.Helper()
	w.referee.forgive(u.id())
	require.NoError(w, w.admin.remove(u.node()))
	w.story.tell("admin", "deleted the node of %s", u.owner)
}

// state is the lock as an onlooker sees it.
func (w *world) state() recipes.LockState {
	w.Helper()
	return w.look(users)
}

// look is state for any scope.
func (w *world) look(scope string) recipes.LockState {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), soon)
	defer cancel()
	state, err := w.client("onlooker").Lock(ctx, scope)
	require.NoError(w, err)
	return state
}

// holders are the owners of those that an onlooker sees hold the lock.
func (w *world) holders() []string { w.Helper(); return owners(w.state().Holders) }

// waiters are the owners of those that an onlooker sees wait, in order.
func (w *world) waiters() []string { w.Helper(); return owners(w.state().Waiters) }

func owners(list []recipes.Contender) []string {
	names := make([]string, 0, len(list))
	for _, c := range list {
		names = append(names, c.Owner)
	}
	return names
}

// finish ends the scenario: everybody leaves, and nothing may be left.
func (w *world) finish() {
	defer w.close() // also when a check fails
	w.mu.Lock()
	askers := w.askers
	w.mu.Unlock()
	if w.Failed() {
		w.explain()
		w.stop() // whatever a rule holds
	}
	for _, u := range askers {
		u.cancel()
	}
	for _, u := range askers {
		<-u.done
	}
	for _, u := range askers {
		u.end()
	}
	if w.Failed() {
		return
	}
	w.eventually("no request is left at the server", func() bool { return len(w.admin.contenders(w.root)) == 0 })
	w.eventually("no watch is left at the server", func() bool { return len(w.admin.watches(w.root)) == 0 })
	w.referee.concludes(askers)
}

// close ends the clients: in a bubble none may outlive its test.
func (w *world) close() {
	if w.Failed() {
		w.stop()
	}
	w.mu.Lock()
	clients := w.order
	w.mu.Unlock()
	for _, c := range clients {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		if err := c.Close(ctx); err != nil && !w.Failed() {
			w.Errorf("close %s: %v", c.name, err)
		}
		cancel()
	}
	w.admin.close()
}

// explain prints how it came to a failure.
func (w *world) explain() {
	w.Logf("what happened:\n%s", w.story)
	var frames []string
	for _, exchange := range w.Trace() {
		frames = append(frames, exchange.String())
	}
	w.Logf("what was sent:\n%s", lastLines(frames, 300))
	for _, node := range w.admin.contenders(w.root) {
		w.Logf("left: %s", node)
	}
}
