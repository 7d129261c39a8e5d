package interleavings

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// shared is the server of the tests that run on a real one as well.
var shared testbed.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m, func() error { return goleak.Find() })) }

const (
	root  = "/lockkeeper"
	users = "users" // the scope that all contend for, unless a test says otherwise

	// short is longer than a hold that counts as a short one.
	short = 20 * time.Millisecond
)

// A world is a server, the clients that contend on it, and a referee. Rules, partitions and heals are those of zktest:
// w.On(T1(users).From("A")).Hold().
type world struct {
	*virtual.World

	referee *virtual.Referee
	fixture *harness.Fixture // of requests

	mu      sync.Mutex
	clients map[string]*client
	order   []*client
	users   []*user
	fouls   []string

	inside   map[string][]*user // who believes to hold, by scope
	forgiven map[string]bool    // guids of those who may not know yet that they are out
}

// scenario plays a test in a world of its own.
func scenario(t *testing.T, body func(w *world)) {
	t.Helper()
	t.Parallel()
	virtual.Run(t, func(v *virtual.World) {
		w := &world{
			World: v, fixture: &harness.Fixture{TB: v.T, History: v.History},
			clients: make(map[string]*client), inside: make(map[string][]*user), forgiven: make(map[string]bool),
		}
		w.referee = virtual.NewReferee(w.Server, root, w.foul)
		eye := w.On(zktest.Any().Where(func(zktest.Request) bool { w.referee.Look(); return false })).Delay(0)
		w.Cleanup(eye.Remove)
		body(w)
		w.finish()
	})
}

// scenarios plays several tests of one thing.
func scenarios(t *testing.T, bodies map[string]func(w *world)) {
	t.Helper()
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) { scenario(t, body) })
	}
}

// each plays a test for each of several cases.
func each[C any](t *testing.T, cases map[string]C, body func(w *world, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { scenario(t, func(w *world) { body(w, c) }) })
	}
}

// losses are the two ways in which a connection breaks over a request: before the server has it, and after.
var losses = map[string]func(*zktest.Fault) *zktest.Rule{
	"the request is lost": (*zktest.Fault).DropRequest, "its answer is lost": (*zktest.Fault).DropReply,
}

// --- clients ------------------------------------------------------------------------

// A client is one process: a session of its own, and connections that rules and partitions know by its name.
type client struct {
	*lock.Client

	w    *world
	name string
}

// client returns the client of a name, and connects it when it is new. A session lasts 10s unless change says otherwise.
func (w *world) client(name string, change ...func(*lock.Config)) *client {
	w.Helper()
	w.mu.Lock()
	c := w.clients[name]
	w.mu.Unlock()
	if c != nil {
		require.Empty(w, change, "%s is connected already", name)
		return c
	}
	c = &client{w.Connect(name, 10*time.Second, change...), w, name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[name] = c
	w.order = append(w.order, c)
	return c
}

// expire ends the session of a client at the server, all at once.
func (w *world) expire(name string) {
	w.Helper()
	id, _ := w.client(name).Session()
	w.mu.Lock()
	for _, u := range w.users {
		if u.c.name == name && u.guid != "" {
			w.forgiven[u.guid] = true
		}
	}
	w.mu.Unlock()
	require.True(w, w.Expire(id), "there is no session of %s", name)
	w.History.Add("server", "session of %s expired", name)
}

// disconnect breaks the connection of a client.
func (w *world) disconnect(name string) {
	w.Helper()
	id, _ := w.client(name).Session()
	require.True(w, w.Disconnect(id), "%s is connected", name)
	w.History.Add("network", "connection of %s broken", name)
}

// evict deletes the node of a request, by an administrator's hand.
func (w *world) evict(u *user) {
	w.Helper()
	w.forgive(u.id())
	require.NoError(w, w.Delete(u.node()))
	w.History.Add("admin", "deleted the node of %s", u.Owner)
}

// --- what happens -------------------------------------------------------------------

// eventually waits for what must become true, without a rule or a notice that tells of it.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for deadline := w.Now() + harness.Patience; ; <-time.After(time.Millisecond) {
		if synctest.Wait(); is() {
			return
		}
		require.Less(w, w.Now(), deadline, "never: "+what)
	}
}

// reached waits until a rule has acted.
func (w *world) reached(r *zktest.Rule) {
	w.Helper()
	harness.Receive(w, r.Reached(), "%s", r)
	w.History.Add("network", "%s", r)
}

// must fails the test unless a request that matches is sent, by its end.
func (w *world) must(m zktest.Match) *zktest.Rule { return w.On(m).Delay(0) }

// never fails the test if a request that matches is sent before the scenario ends.
func (w *world) never(m zktest.Match) {
	r := w.On(m).Delay(0)
	w.Cleanup(func() {
		if n := r.Fired(); n > 0 {
			w.Errorf("happened %d times: %s", n, m)
		}
		r.Remove()
	})
}

// later calls f in the background. The function that it returns waits for the outcome.
func later[T any](w *world, what string, f func() (T, error)) (outcome func() (T, error)) {
	return harness.Go(w, what, f).Wait
}

// --- what is so at the server -------------------------------------------------------

// state is the lock as an onlooker sees it.
func (w *world) state() lock.State { w.Helper(); return w.look(users) }

// look is state for any scope.
func (w *world) look(scope string) lock.State {
	w.Helper()
	return w.fixture.State(w.client("onlooker").Client, scope)
}

// holders are the owners of those that an onlooker sees hold the lock.
func (w *world) holders() []string { w.Helper(); return owners(w.state().Holders) }

// waiters are the owners of those that an onlooker sees wait, in order.
func (w *world) waiters() []string { w.Helper(); return owners(w.state().Waiters) }

var owners = harness.Owners

// lock is the lock node of the scope users.
func (w *world) lock() *virtual.Lock {
	w.Helper()
	for _, l := range virtual.Locks(w.Server, root) {
		if l.Scope == users {
			return l
		}
	}
	require.FailNow(w, "there is no lock node")
	return nil
}

// contenders are the nodes of all requests.
func (w *world) contenders() []virtual.Contender { return virtual.Contenders(w.Server, root) }

// watched is what is watched below the root.
func (w *world) watched() (paths []string) {
	for _, x := range w.Watches() {
		if strings.HasPrefix(x.Path, root+"/") {
			paths = append(paths, x.Path+" by "+x.Name)
		}
	}
	return paths
}

// --- the referee's other half: what clients believe ------------------------------------

func (w *world) foul(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.fouls, text) {
		w.fouls = append(w.fouls, text)
		w.History.Add("referee", "FOUL: %s", text)
	}
}

// forgive names holders that lose the lock by force: until they hear of it, the next one may hold beside them.
func (w *world) forgive(guids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, guid := range guids {
		w.forgiven[guid] = true
	}
}

// enters is called when a request has returned with a grant.
func (w *world) enters(u *user, guid string) {
	w.referee.Look()
	w.mu.Lock()
	var fouls []string
	u.guid = guid
	if !u.lost { // told already
		for _, other := range w.inside[u.scope] {
			if !w.forgiven[other.guid] && !u.mode.Admits(other.mode) {
				text := fmt.Sprintf("%s and %s both believe that they hold %s", other.Owner, u.Owner, u.scope)
				fouls = append(fouls, text)
			}
		}
		w.inside[u.scope] = append(w.inside[u.scope], u)
	}
	w.mu.Unlock()
	for _, text := range fouls {
		w.foul("%s", text)
	}
}

// leaves is called before a release, and with a loss.
func (w *world) leaves(u *user, released bool) {
	w.mu.Lock()
	w.inside[u.scope] = slices.DeleteFunc(w.inside[u.scope], func(other *user) bool { return other == u })
	u.ended = true
	u.lost = u.lost || !released
	w.mu.Unlock()
}

// finish ends the scenario: all leave, and nothing may be left.
func (w *world) finish() {
	for _, u := range w.users {
		u.Cancel()
	}
	for _, u := range w.users {
		<-u.Done()
	}
	for _, u := range w.users {
		u.end()
	}
	w.eventually("no request is left at the server", func() bool { return len(w.contenders()) == 0 })
	w.eventually("no watch is left at the server", func() bool { return len(w.watched()) == 0 })
	w.referee.Look()
	for scope, inside := range w.inside {
		for _, u := range inside {
			w.foul("%s was never told that it has lost %s", u.Owner, scope)
		}
	}
	require.Empty(w, w.fouls)
}

// end gives back what the test has left.
func (u *user) end() {
	g, _ := u.Wait()
	u.w.mu.Lock()
	ended := u.ended // it may hear of its loss just now
	u.w.mu.Unlock()
	if g == nil || ended {
		return
	}
	u.w.leaves(u, true)
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	_ = g.Release(ctx) // it may be lost by now
}
