package interleavings

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A user is one request, then its grant, and all that it was told.
type user struct {
	w      *world
	c      *client
	scope  string
	owner  string
	mode   priority.Mode // guarded by the referee
	cancel context.CancelFunc
	done   chan struct{} // closed when Acquire has returned
	grant  *recipes.Grant
	err    error

	mu      sync.Mutex
	notices []heard
	read    int           // notices that were awaited
	news    chan struct{} // closed by the next one
	ended   bool          // released or lost
	lost    bool
}

// heard is a notice and when it came.
type heard struct {
	recipes.Notice
	at time.Duration // since the world began
}

// ask requests the lock "users" in the background, as a client that is
// connected if need be. The owner is called as the client is.
func (w *world) ask(name string, change ...func(*recipes.Request)) *user {
	w.Helper()
	return w.client(name).ask(users, name, change...)
}

// hold asks and waits for the grant, and then until the hold is no short one:
// those leave without a look at who waits.
func (w *world) hold(name string, change ...func(*recipes.Request)) *user {
	w.Helper()
	u := w.ask(name, change...)
	u.granted()
	w.pass(short)
	return u
}

// short is longer than a hold that counts as one.
const short = 20 * time.Millisecond

// ask requests the lock of a scope for an owner, in the background.
func (c *client) ask(scope, owner string, change ...func(*recipes.Request)) *user {
	c.w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	u := &user{w: c.w, c: c, scope: scope, owner: owner, cancel: cancel, done: make(chan struct{}), news: make(chan struct{})}
	r := recipes.Request{Owner: owner, Notify: u.hear}
	for _, f := range change {
		f(&r)
	}
	u.mode = r.Mode
	l := c.lock(scope)
	c.w.mu.Lock()
	c.w.askers = append(c.w.askers, u)
	c.w.mu.Unlock()
	c.w.story.tell(owner, "asks for %s at %d", scope, r.Priority)
	go func() {
		defer close(u.done)
		u.grant, u.err = l.Acquire(ctx, r)
		if u.err != nil {
			c.w.story.tell(owner, "is refused: %v", u.err)
			return
		}
		c.w.story.tell(owner, "holds %s as %s", scope, u.grant.ID())
		c.w.referee.enters(u, scope)
	}()
	return u
}

// --- requests ----------------------------------------------------------------

func at(level priority.Level) func(*recipes.Request) {
	return func(r *recipes.Request) { r.Priority = level }
}

func lease(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.LeaseTimeout = d }
}

func cleanup(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.CleanupTimeout = d }
}

// waiting bounds how long a preemptor waits for the holder's cleanup.
func waiting(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.WaitingTimeout = &d }
}

// sharing makes a reader.
func sharing(r *recipes.Request) { r.Mode = priority.Shared }

// within bounds the whole wait; 0 is a try.
func within(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.AcquireTimeout = &d }
}

// forceful takes the lock at the end of the holder's grace.
func forceful(r *recipes.Request) { r.Forceful = true }

// --- what becomes of a request -------------------------------------------------

// returned waits until Acquire has returned.
func (u *user) returned() {
	u.w.Helper()
	select {
	case <-u.done:
	case <-time.After(soon):
		require.FailNow(u.w, u.owner+"'s request has not ended")
	}
}

// granted waits for the grant.
func (u *user) granted() *recipes.Grant {
	u.w.Helper()
	u.returned()
	require.NoError(u.w, u.err, "%s's request", u.owner)
	return u.grant
}

// refused waits for the error.
func (u *user) refused() error {
	u.w.Helper()
	u.returned()
	require.Error(u.w, u.err, "%s's request was granted", u.owner)
	require.Nil(u.w, u.grant)
	return u.err
}

// waits fails the test unless the request still waits, after all that can
// happen by now has happened.
func (u *user) waits() {
	u.w.Helper()
	u.w.settle()
	select {
	case <-u.done:
		require.FailNow(u.w, u.owner+" does not wait any more", "error: %v", u.err)
	default:
	}
}

// queued waits until the request has looked around in the queue and was told
// its position.
func (u *user) queued() recipes.Queued {
	u.w.Helper()
	return await[recipes.Queued](u)
}

// joined waits until the request's node is there; it may have done nothing else.
func (u *user) joined() {
	u.w.Helper()
	u.w.eventually(u.owner+" joins the queue", func() bool { return len(u.nodes()) == 1 })
}

// release gives the lock back and waits until that is done.
func (u *user) release() {
	u.w.Helper()
	require.NoError(u.w, u.releases()(), "%s's release", u.owner)
}

// releases begins to give the lock back. The function that it returns waits for
// the outcome.
func (u *user) releases() (outcome func() error) {
	u.w.Helper()
	g := u.granted()
	u.w.referee.leaves(u, true)
	outcomes := make(chan error, 1)
	go func() {
		err := g.Release(context.Background())
		u.w.story.tell(u.owner, "has released: error %v", err)
		outcomes <- err
	}()
	return func() error {
		u.w.Helper()
		select {
		case err := <-outcomes:
			return err
		case <-time.After(soon):
			require.FailNow(u.w, u.owner+"'s release has not ended")
			return nil
		}
	}
}

// downgrades makes a writer that holds a reader.
func (u *user) downgrades() {
	u.w.Helper()
	g := u.granted()
	u.w.referee.shares(u) // from here on it may be one of several
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(u.w, g.Downgrade(ctx), "%s's downgrade", u.owner)
	u.w.story.tell(u.owner, "shares %s", u.scope)
}

// token returns the token of the grant.
func (u *user) token() recipes.Token {
	u.w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	token, err := u.granted().Token(ctx)
	require.NoError(u.w, err, "%s's token", u.owner)
	return token
}

// asksForToken begins to ask for the token. The function that it returns waits
// for the outcome.
func (u *user) asksForToken() (outcome func() (recipes.Token, error)) {
	u.w.Helper()
	type answer struct {
		token recipes.Token
		err   error
	}
	g, answers := u.granted(), make(chan answer, 1)
	go func() {
		token, err := g.Token(context.Background())
		answers <- answer{token, err}
	}()
	return func() (recipes.Token, error) {
		u.w.Helper()
		select {
		case a := <-answers:
			return a.token, a.err
		case <-time.After(soon):
			require.FailNow(u.w, u.owner+" has no answer about its token")
			return 0, nil
		}
	}
}

// end gives back what the test has left.
func (u *user) end() {
	u.mu.Lock()
	over := u.ended || u.grant == nil
	u.mu.Unlock()
	if over {
		return
	}
	u.w.referee.leaves(u, true)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	_ = u.grant.Release(ctx) // it may be lost by now
}

// --- its node ------------------------------------------------------------------

// nodes returns the paths of the requests of this owner at the server.
func (u *user) nodes() []string {
	var paths []string
	for _, n := range u.w.admin.contenders(u.w.root) {
		if record(n).Owner == u.owner {
			paths = append(paths, n.Path)
		}
	}
	return paths
}

// node returns the path of its one node.
func (u *user) node() string {
	u.w.Helper()
	nodes := u.nodes()
	require.Len(u.w, nodes, 1, "nodes of %s", u.owner)
	return nodes[0]
}

// id returns the guid of its one node.
func (u *user) id() string { u.w.Helper(); return guid(u.node()) }

// --- what it is told -------------------------------------------------------------

func (u *user) hear(n recipes.Notice) {
	u.w.story.tell(u.owner, "%T %+v", n, n)
	switch n := n.(type) {
	case recipes.TookOver:
		for _, c := range n.From {
			u.w.referee.forgive(c.ID)
		}
	case recipes.Lost:
		u.w.referee.leaves(u, false)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.notices = append(u.notices, heard{n, u.w.elapsed()})
	close(u.news)
	u.news = make(chan struct{})
}

// told returns what the user was told so far, in order.
func (u *user) told() []heard {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.notices)
}

// await waits for the next notice of a kind, behind the one awaited last.
func await[N recipes.Notice](u *user) N {
	u.w.Helper()
	n, _ := awaitAt[N](u)
	return n
}

// awaitAt also says when it came, since the world began.
func awaitAt[N recipes.Notice](u *user) (N, time.Duration) {
	u.w.Helper()
	return awaitWithin[N](u, soon)
}

// awaitWithin is awaitAt with another patience: what hours of virtual time
// bring.
func awaitWithin[N recipes.Notice](u *user, patience time.Duration) (N, time.Duration) {
	u.w.Helper()
	deadline := time.After(patience)
	for {
		u.mu.Lock()
		for u.read < len(u.notices) {
			h := u.notices[u.read]
			u.read++
			if n, ok := h.Notice.(N); ok {
				u.mu.Unlock()
				return n, h.at
			}
		}
		news := u.news
		u.mu.Unlock()
		select {
		case <-news:
		case <-deadline:
			var none N
			require.FailNow(u.w, fmt.Sprintf("%s was not told %T", u.owner, none))
		}
	}
}

// times counts the notices of a kind that have come.
func times[N recipes.Notice](u *user) int {
	n := 0
	for _, h := range u.told() {
		if _, ok := h.Notice.(N); ok {
			n++
		}
	}
	return n
}

// holdersOf returns the guids under which a client holds anything.
func (w *world) holdersOf(name string) []string {
	w.mu.Lock()
	askers := slices.Clone(w.askers)
	w.mu.Unlock()
	var guids []string
	for _, u := range askers {
		select {
		case <-u.done:
			if u.c.name == name && u.grant != nil {
				guids = append(guids, u.grant.ID())
			}
		default:
		}
	}
	return guids
}

// pending is the requests of a client that have not returned yet.
func (w *world) pending(name string) []*user {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.askers), func(u *user) bool {
		select {
		case <-u.done:
			return true
		default:
			return u.c.name != name
		}
	})
}
