package leaders

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// soon is how long anything that must happen may take on a busy machine.
	soon = 2 * time.Minute

	// delay is longer than an election takes. On a machine where it is not, less is
	// shown, and nothing fails.
	delay = 20 * time.Second
)

// A new leader's clock says that it is an hour later. Nobody is granted before the
// delay is over all the same: not who has counted it since before that, not who
// comes first after that, and not who only tries.
func TestDelayedLockStaysFreeUnderANewLeaderWhoseClockIsFast(t *testing.T) {
	t.Parallel()
	ensemble := zkserver.StartEnsemble(t, zkserver.WithSteppableClock(), zkserver.WithSessionTimeouts(time.Second, 2*soon))
	c := newClient(t, ensemble.Addrs())
	leader, err := ensemble.Leader(t.Context())
	require.NoError(t, err)
	for _, s := range ensemble.Servers() {
		if s != leader {
			require.NoError(t, s.StepClock(time.Hour))
		}
	}

	// given three locks whose holders have gone uncleanly
	var tokens []recipes.Token
	for _, scope := range []string{"counted", "followed", "tried"} {
		token, err := ask(t, c, scope, recipes.Request{Owner: "holder", LockDelay: delay}).granted().Token(t.Context())
		require.NoError(t, err)
		tokens = append(tokens, token)
	}
	counts := ask(t, c, "counted", recipes.Request{Owner: "counts"})
	leaves := ask(t, c, "followed", recipes.Request{Owner: "leaves"})
	counts.hears("Queued")
	leaves.hears("Queued")
	follows := ask(t, c, "followed", recipes.Request{Owner: "follows"})
	follows.hears("Queued")
	begun := time.Now()
	for i, scope := range []string{"counted", "followed", "tried"} {
		_, err := c.Break(t.Context(), recipes.BreakRequest{Scope: scope, Token: tokens[i], By: "ana", Reason: "it hangs"})
		require.NoError(t, err)
	}
	counts.hears("Delayed")
	leaves.hears("Delayed")
	try := func() error {
		a := ask(t, c, "tried", recipes.Request{Owner: "tries", AcquireTimeout: new(time.Duration)})
		<-a.done
		return a.err
	}
	require.ErrorContains(t, try(), "delayed until about")

	// when the leader dies, and the first of those who wait for the second lock leaves
	require.NoError(t, leader.Kill())
	next, err := ensemble.Leader(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, leader, next)
	leaves.cancel()

	// then each is granted, and not before the delay is over
	for deadline := time.Now().Add(soon); try() != nil; <-time.After(100 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "no try has the lock")
	}
	require.GreaterOrEqual(t, time.Since(begun), delay, "who has only tried")
	counts.granted()
	require.GreaterOrEqual(t, counts.at.Sub(begun), delay, "who has counted from the beginning")
	follows.granted()
	require.GreaterOrEqual(t, follows.at.Sub(begun), delay, "who was behind one that has left")
}

func newClient(t *testing.T, servers []string) *recipes.Client {
	t.Helper()
	c, err := recipes.NewClient(recipes.Config{
		Servers: servers, SessionTimeout: soon, Auth: &recipes.Digest{User: "ana", Password: "secret"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, c.Close(ctx))
	})
	require.NoError(t, c.Ready(t.Context()))
	return c
}

// An asker is one request, and its grant.
type asker struct {
	t      *testing.T
	cancel context.CancelFunc
	heard  chan string
	done   chan struct{} // closed when the request has ended
	grant  *recipes.Grant
	err    error
	at     time.Time
}

// ask requests a lock, and gives it back at the end.
func ask(t *testing.T, c *recipes.Client, scope string, r recipes.Request) *asker {
	t.Helper()
	l, err := c.PriorityLock(scope)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	a := &asker{t: t, cancel: cancel, heard: make(chan string, 100), done: make(chan struct{})}
	r.Notify = func(n recipes.Notice) {
		switch n.(type) {
		case recipes.Queued:
			a.heard <- "Queued"
		case recipes.Delayed:
			a.heard <- "Delayed"
		}
	}
	go func() {
		defer close(a.done)
		a.grant, a.err = l.Acquire(ctx, r)
		a.at = time.Now()
	}()
	t.Cleanup(func() {
		cancel()
		<-a.done
		if a.grant != nil {
			_ = a.grant.Release(context.Background()) // unless it was broken
		}
	})
	return a
}

func (a *asker) granted() *recipes.Grant {
	a.t.Helper()
	select {
	case <-a.done:
	case <-time.After(soon):
		require.FailNow(a.t, "not granted")
	}
	require.NoError(a.t, a.err)
	return a.grant
}

func (a *asker) hears(what string) {
	a.t.Helper()
	for deadline := time.After(soon); ; {
		select {
		case n := <-a.heard:
			if n == what {
				return
			}
		case <-deadline:
			require.FailNow(a.t, "never told: "+what)
		}
	}
}
