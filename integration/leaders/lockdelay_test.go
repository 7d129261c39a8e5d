package leaders

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delay is longer than an election takes. On a machine where it is not, less is shown, and nothing fails.
const delay = 20 * time.Second

// A new leader's clock says that it is an hour later. Still no request is granted before the delay is over: not one
// that has counted it since before that, not the first one after that, and not a try.
func TestDelayedLockStaysFreeUnderANewLeaderWhoseClockIsFast(t *testing.T) {
	timeouts := zkserver.WithSessionTimeouts(time.Second, 4*harness.Patience)
	ensemble := zkserver.StartEnsemble(t, zkserver.WithSteppableClock(), timeouts)
	c := harness.NewClient(t, lock.Config{
		Servers: ensemble.Addrs(), SessionTimeout: 2 * harness.Patience,
		Auth: &lock.Digest{User: "ana", Password: "secret"},
	})
	f := &harness.Fixture{TB: t, History: harness.NewHistory(t)}
	leader, err := ensemble.Leader(t.Context())
	require.NoError(t, err)
	for _, s := range ensemble.Servers() {
		if s != leader {
			require.NoError(t, s.StepClock(time.Hour))
		}
	}
	granted := func(r *harness.Request) <-chan time.Time {
		at := make(chan time.Time, 1)
		go func() { <-r.Done(); at <- time.Now() }()
		return at
	}

	// given three locks whose holders have gone uncleanly
	var holders []*harness.Request
	scopes := []string{"counted", "followed", "tried"}
	for _, scope := range scopes {
		holders = append(holders, f.Hold(f.Lock(c, scope), "holder", func(r *lock.Request) { r.LockDelay = delay }))
	}
	counts, leaves := f.Acquire(f.Lock(c, "counted"), "counts"), f.Acquire(f.Lock(c, "followed"), "leaves")
	counts.Queued()
	leaves.Queued()
	follows := f.Acquire(f.Lock(c, "followed"), "follows")
	follows.Queued()
	counted, followed := granted(counts), granted(follows)
	begun := time.Now()
	for i, scope := range scopes {
		r := lock.BreakRequest{Scope: scope, Token: holders[i].Token(), By: "ana", Reason: "it hangs"}
		_, err := c.Break(t.Context(), r)
		require.NoError(t, err)
	}
	harness.Await[lock.Delayed](t, counts.Notices)
	harness.Await[lock.Delayed](t, leaves.Notices)
	try := func() error {
		_, err := f.Acquire(f.Lock(c, "tried"), "tries", harness.Try).Wait()
		return err
	}
	require.ErrorContains(t, try(), "delayed until about")

	// when the leader dies, and the first of those who wait for the second lock leaves
	require.NoError(t, leader.Kill())
	next, err := ensemble.Leader(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, leader, next)
	leaves.Cancel()

	// then each is granted, and not before the delay is over
	harness.Eventually(t, func() bool { <-time.After(100 * time.Millisecond); return try() == nil }, "no try has it")
	require.GreaterOrEqual(t, time.Since(begun), delay, "who has only tried")
	counts.Granted()
	require.GreaterOrEqual(t, (<-counted).Sub(begun), delay, "who has counted from the beginning")
	follows.Granted()
	require.GreaterOrEqual(t, (<-followed).Sub(begun), delay, "who was behind one that has left")
}
