package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func (s setup) retrying(t *testing.T, r Retry) *Guard {
	t.Helper()
	g, err := s.Retrying(r)
	require.NoError(t, err)
	return g
}

// refusing makes the locker refuse the first n requests.
func (s setup) refusing(n int, err error) (requests *int) {
	requests = new(int)
	s.locker.before = func(context.Context, *fakeGrant) error {
		if *requests++; *requests <= n {
			return err
		}
		return nil
	}
	return requests
}

func TestAcquisitionIsTriedAgainAndWorkRunsOnce(t *testing.T) {
	for name, refusal := range map[string]error{
		"not acquired":    &lock.NotAcquiredError{Scope: scope},
		"cleanup pending": &lock.CleanupPendingError{Scope: scope},
		"unavailable":     &lock.UnavailableError{},
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			// given a lock that is refused twice
			requests := s.refusing(2, refusal)
			start := time.Now()
			ran := 0

			// when work is done with retries, then it fails once, and is not run again
			err := s.retrying(t, Retry{Pause: time.Second}).Do(t.Context(), required(), func(context.Context) error {
				ran++
				return errWork
			})
			require.Same(t, errWork, err)
			require.Equal(t, 1, ran)
			require.Equal(t, 3, *requests)

			// and the pauses were about 1s and 2s
			took := time.Since(start)
			require.GreaterOrEqual(t, took, 1500*time.Millisecond)
			require.LessOrEqual(t, took, 4500*time.Millisecond)
			require.Equal(t, []string{
				"Waiting", "NotAcquired", "Waiting", "NotAcquired", "Waiting", "Acquired", "Released",
			}, s.events.names())
		})
	}
}

func TestWhatCannotGetBetterIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refusal := range []error{
			&RequestError{Field: "mode"}, &UpgradeError{Scope: scope}, lock.ErrClosed, &lock.EvictedError{Scope: scope},
			&lock.AccessError{Node: "/"},
		} {
			s := newSetup(t)
			requests := s.refusing(1, refusal)
			_, err := s.retrying(t, Retry{}).Acquire(t.Context(), required())
			require.ErrorIs(t, err, refusal)
			require.NotErrorAs(t, err, new(*RetryError))
			require.Equal(t, 1, *requests)
		}
		s := newSetup(t)
		_, err := s.retrying(t, Retry{}).Acquire(t.Context(), Requirement{})
		require.ErrorAs(t, err, new(*RequestError))
		require.NotErrorAs(t, err, new(*RetryError))
	})
}

func TestRetriesEndWithTheLastErrorAndWhatTheyTook(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		refusal := &lock.NotAcquiredError{Scope: scope}
		requests := s.refusing(100, refusal)

		// by attempts
		start := time.Now()
		_, err := s.retrying(t, Retry{Attempts: 3, Pause: time.Second}).Acquire(t.Context(), required())
		gaveUp := as[*RetryError](t, err)
		require.ErrorIs(t, err, refusal)
		require.Equal(t, 3, gaveUp.Attempts)
		require.Equal(t, time.Since(start), gaveUp.Elapsed)
		require.Equal(t, 3, *requests)
		require.ErrorContains(t, err, `gave up after 3 attempts in `)
		require.ErrorContains(t, err, `lock "cluster/orders" not acquired`)

		// by time
		start = time.Now()
		_, err = s.retrying(t, Retry{MaxElapsed: time.Minute, MaxPause: time.Second}).Acquire(t.Context(), required())
		require.ErrorAs(t, err, &gaveUp)
		require.LessOrEqual(t, time.Since(start), time.Minute)
		require.Greater(t, time.Since(start), 50*time.Second)

		// by the context
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(ErrShutdown) })
		start = time.Now()
		_, err = s.retrying(t, Retry{}).Acquire(ctx, required())
		require.Equal(t, 10*time.Second, time.Since(start))
		require.ErrorAs(t, err, &gaveUp)
		require.ErrorIs(t, err, ErrShutdown)
		require.ErrorIs(t, err, refusal)
	})
}

func TestRequestIsWithdrawnWhenTheTimeForAllRetriesIsOver(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		var waits []time.Duration
		s.locker.before = func(_ context.Context, g *fakeGrant) error {
			waits = append(waits, *g.request.AcquireTimeout)
			time.Sleep(*g.request.AcquireTimeout)
			return &lock.NotAcquiredError{Scope: scope}
		}
		r := required()
		r.AcquireTimeout = new(40 * time.Second)
		start := time.Now()
		_, err := s.retrying(t, Retry{MaxElapsed: time.Minute}).Acquire(t.Context(), r)
		require.ErrorAs(t, err, new(*RetryError))
		require.Equal(t, time.Minute, time.Since(start))
		require.Len(t, waits, 2)
		require.Equal(t, 40*time.Second, waits[0])
	})
}

func TestSeveralLocksAreTriedAgainTogether(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		requests := s.refusing(1, &lock.NotAcquiredError{Scope: "a"})
		hold, err := s.retrying(t, Retry{}).AcquireAll(t.Context(), three())
		require.NoError(t, err)
		require.Equal(t, 4, *requests)

		acquire(hold.Context(), t, s, Requirement{Scope: "c"}) // the guard that it was made of is no stranger
		require.Equal(t, 4, *requests)
	})
}

func TestRetryThatMakesNoSenseIsRefused(t *testing.T) {
	s := newSetup(t)
	_, err := s.Retrying(Retry{Attempts: -1, MaxElapsed: -1, Pause: -1, MaxPause: -1})
	for _, field := range []string{"Attempts", "MaxElapsed", "Pause", "MaxPause"} {
		require.ErrorContains(t, err, field+": ")
	}
	_, err = s.Retrying(Retry{Pause: time.Minute, MaxPause: time.Second})
	require.ErrorContains(t, err, "MaxPause: 1s is shorter than Pause (1m0s)")
}
