package interleavings

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A user is one request, then its grant, and all that it was told.
type user struct {
	*harness.Request

	w     *world
	c     *client
	scope string

	// These belong to the lock of the world.
	mode  priority.Mode
	guid  string // of the grant
	ended bool   // released or lost
	lost  bool
}

// ask requests the lock users in the background, as a client that is connected if need be. The owner is called as the
// client is.
func (w *world) ask(name string, change ...harness.Option) *user {
	w.Helper()
	return w.client(name).ask(users, name, change...)
}

// hold asks and waits for the grant, and then until the hold is no short one: those leave without a look at who waits.
func (w *world) hold(name string, change ...harness.Option) *user {
	w.Helper()
	u := w.ask(name, change...)
	u.Granted()
	w.Pass(short)
	return u
}

// wait asks and waits until the request is in the queue.
func (w *world) wait(name string, change ...harness.Option) *user {
	w.Helper()
	u := w.ask(name, change...)
	u.Queued()
	return u
}

// stops asks, and waits until a request that matches is held.
func (w *world) stops(m zktest.Match, name string, change ...harness.Option) (*zktest.Rule, *user) {
	w.Helper()
	rule := w.On(m).Hold()
	u := w.ask(name, change...)
	w.reached(rule)
	return rule, u
}

// ask requests the lock of a scope for an owner, in the background.
func (c *client) ask(scope, owner string, change ...harness.Option) *user {
	w := c.w
	w.Helper()
	u := &user{w: w, c: c, scope: scope}
	l := w.fixture.Lock(c.Client, scope)
	acquire := func(ctx context.Context, r lock.Request) (*lock.Grant, error) {
		g, err := l.Acquire(ctx, r)
		if err == nil {
			w.enters(u, g.ID())
		}
		return g, err
	}
	u.Request = w.fixture.Start(owner, acquire, append(change, func(r *lock.Request) {
		u.mode = r.Mode
		hear := r.Notify
		r.Notify = func(n lock.Notice) { u.hear(n); hear(n) }
		w.History.Add(owner, "asks for %s at %d", scope, r.Priority)
	})...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users = append(w.users, u)
	return u
}

func (u *user) hear(n lock.Notice) {
	switch n := n.(type) {
	case lock.TakenOver:
		for _, c := range n.From {
			u.w.forgive(c.ID)
		}
	case lock.Lost:
		u.w.leaves(u, false)
	}
}

var (
	at       = harness.At
	lease    = harness.Lease
	cleanup  = harness.Cleanup
	waiting  = harness.Waiting
	sharing  = harness.Shared
	within   = harness.Within
	forceful = harness.Forceful
)

// waits fails the test unless the request still waits, after all that can happen by now has happened.
func (u *user) waits() {
	u.w.Helper()
	synctest.Wait()
	u.IsPending()
}

// holdsOn checks that the grant is still held.
func (u *user) holdsOn() {
	u.w.Helper()
	require.Zero(u.w, times[lock.Lost](u))
	require.NoError(u.w, u.Granted().Check())
}

// joined waits until the request's node is there; it may have done nothing else.
func (u *user) joined() {
	u.w.Helper()
	u.w.eventually(u.Owner+" joins the queue", func() bool { return len(u.nodes()) == 1 })
}

// release gives the lock back and waits until that is done.
func (u *user) release() {
	u.w.Helper()
	require.NoError(u.w, u.releases()(), "%s's release", u.Owner)
}

// releases begins to give the lock back. The function that it returns waits for the outcome.
func (u *user) releases() (outcome func() error) {
	u.w.Helper()
	g := u.Granted()
	u.w.leaves(u, true)
	return u.does("release", g.Release)
}

// releasesUpTo begins to give the lock back, and waits until a request that matches is held.
func (u *user) releasesUpTo(m zktest.Match) (rule *zktest.Rule, outcome func() error) {
	u.w.Helper()
	rule = u.w.On(m).Hold()
	outcome = u.releases()
	u.w.reached(rule)
	return rule, outcome
}

// handsOverTo releases what is no short hold, and requires that another one is granted, with a greater token.
func (u *user) handsOverTo(next *user) {
	u.w.Helper()
	u.w.Pass(short)
	u.release()
	require.Greater(u.w, next.Token(), u.Token())
}

// does begins to do something with the grant. The function that it returns waits for the outcome.
func (u *user) does(what string, f func(context.Context) error) (outcome func() error) {
	wait := later(u.w, u.Owner+"'s "+what, func() (struct{}, error) {
		err := f(context.Background())
		u.w.History.Add(u.Owner, "%s: error %v", what, err)
		return struct{}{}, err
	})
	return func() error { _, err := wait(); return err }
}

// downgrades begins to make a writer that holds a reader. The function that it returns waits for the outcome.
func (u *user) downgrades() (outcome func() error) {
	u.w.Helper()
	g := u.Granted()
	u.w.mu.Lock()
	u.mode = priority.Shared // from here on it may be one of several
	u.w.mu.Unlock()
	return u.does("downgrade", g.Downgrade)
}

// downgrade makes a writer that holds a reader.
func (u *user) downgrade() {
	u.w.Helper()
	require.NoError(u.w, u.downgrades()())
}

// nodes returns the paths of the requests of this owner at the server.
func (u *user) nodes() (paths []string) {
	for _, c := range u.w.contenders() {
		if c.Owner == u.Owner {
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// node returns the path of its one node.
func (u *user) node() string {
	u.w.Helper()
	nodes := u.nodes()
	require.Len(u.w, nodes, 1, "nodes of %s", u.Owner)
	return nodes[0]
}

// id returns the guid of its one node.
func (u *user) id() string {
	u.w.Helper()
	for _, c := range u.w.contenders() {
		if c.Owner == u.Owner {
			return c.ID
		}
	}
	require.FailNow(u.w, u.Owner+" has no node")
	return ""
}

// await waits for the next notice of a kind, behind the one awaited last.
func await[N lock.Notice](u *user) N { u.w.Helper(); return harness.Await[N](u.w, u.Notices) }

// awaitAt also says when it came, since the world began.
func awaitAt[N lock.Notice](u *user) (N, time.Duration) {
	u.w.Helper()
	n, when := harness.AwaitAt[N](u.w, u.Notices)
	return n, u.w.Since(when)
}

// times counts the notices of a kind that have come, after all that can happen by now has happened.
func times[N lock.Notice](u *user) int {
	synctest.Wait()
	return len(harness.All[N](u.Notices))
}

// lostBy returns why a lock was lost, as an error says.
func lostBy(w *world, err error) *lock.LostError {
	w.Helper()
	var lost *lock.LostError
	require.ErrorAs(w, err, &lost)
	return lost
}
