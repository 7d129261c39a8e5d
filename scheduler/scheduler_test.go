package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func TestANewJobBeginsWithTheFirstTickThatIsDueInAnyDaemon(t *testing.T) {
	// how long requests of the slow and of the fast daemon take
	cases := map[string][2]time.Duration{
		"slow first":                      {time.Millisecond, 3 * time.Millisecond},
		"fast first":                      {3 * time.Millisecond, time.Millisecond},
		"slow first, fast sees it run":    {time.Millisecond, 1500 * time.Microsecond},
		"both see nothing, slow is first": {2 * time.Millisecond, 3 * time.Millisecond},
	}
	for name, far := range cases {
		bubble(t, name, func(t *testing.T, c *cluster) {
			list := []jobs.Job{job("a", "@every 1s", 5*time.Millisecond)}
			daemons := []*daemon{
				start(t, c.daemon("slow").takes(far[0]), list, withSkew(-2*time.Second)),
				start(t, c.daemon("fast").takes(far[1]), list, withSkew(2*time.Second)),
			}
			time.Sleep(10*time.Second + 500*time.Millisecond)
			for _, d := range daemons {
				d.drain()
			}
			first := -1 // when the slow one is first, the fast one must not leave out what is still to come there
			if far[0] > far[1] {
				first = 3
			}
			requireOnce(t, c, "a", sec(first), sec(12), time.Second, "ran")
			require.Len(t, c.outcomes("a"), 13-first)
		})
	}
}

func TestADaemonGoesByTheTimeZoneAndThePolicyOfItsJob(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		// given a job at half past two in New York, where that is left out on 2 April 2000
		april := time.Date(2000, 4, 2, 0, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(april))
		j := job("a", "30 2 * * *", time.Second)
		j.TimeZone, j.DST.Gap = "America/New_York", jobs.GapSkip
		d := start(t, c.daemon("one"), []jobs.Job{j})

		// then it runs the night after that for the first time
		time.Sleep(36 * time.Hour)
		d.drain()
		require.Equal(t, map[time.Time][]string{april.Add(30*time.Hour + 30*time.Minute): {"ran"}}, c.outcomes("a"))
	})
}

func TestATickWaitsAMomentForARunThatBeganElsewhereJustNow(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		other := start(t, c.daemon("other"), []jobs.Job{job("short", "", 600*time.Millisecond), job("long", "", 4*time.Second)})
		d := start(t, c.daemon("one"), []jobs.Job{job("short", "@every 10s", time.Second), job("long", "@every 10s", time.Second)})
		time.Sleep(9500 * time.Millisecond)
		for _, name := range []string{"short", "long"} {
			go func() { _ = other.RunNow(t.Context(), name) }()
		}
		time.Sleep(5 * time.Second)
		d.drain()
		other.drain()
		requireOnce(t, c, "short", sec(10), sec(10), time.Second, "ran")
		requireOnce(t, c, "long", sec(10), sec(10), time.Second, "overlap")
		require.Equal(t, 1, d.log.lines("tick skipped", "job=long", "reason=overlap", "runs already: by \\\"other\\\""))
	})
}

func TestAnOutageFromTheBeginningIsToldForWhatItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		l := c.daemon("one")
		l.down()
		d := start(t, l, []jobs.Job{job("a", "@every 1s", 100*time.Millisecond)})
		time.Sleep(20500 * time.Millisecond)
		require.EqualValues(t, 15, d.stats("a").Skipped[SkipUndecided])
		require.EqualValues(t, 15, d.stats("a").Total(), "%+v", d.stats("a"))
		require.Equal(t, 15, d.log.lines("tick skipped", "reason=undecided", "ZooKeeper does not answer"))
		l.up()
		time.Sleep(3 * time.Second)
		d.drain()
		requireOnce(t, c, "a", sec(1), sec(15), time.Second, "undecided")
		requireOnce(t, c, "a", sec(16), sec(23), time.Second, "ran")
	})
}

func TestTicksMissedHereButRunElsewhereAreNoSkips(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		list := []jobs.Job{job("a", "* * * * *", time.Second)}
		var behind atomic.Int64
		asleep := start(t, c.daemon("asleep"), list, func(cfg *Config) {
			cfg.Now = func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
		})
		awake := start(t, c.daemon("awake"), list)
		behind.Store(int64(10 * time.Minute)) // its clock stands still, so to say
		time.Sleep(10*time.Minute + time.Second)
		behind.Store(0)
		time.Sleep(time.Minute)
		asleep.drain()
		awake.drain()
		require.Empty(t, asleep.stats("a").Skipped)
		require.EqualValues(t, 11, asleep.stats("a").Taken+asleep.stats("a").Ran)
		requireOnce(t, c, "a", minute(1), minute(10), time.Minute, "ran")
	})
}

func TestALockThatIsNotAcquiredBeforeTheNextTickSkipsThisOne(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		j := locked(job("a", "@every 10s", time.Millisecond))
		j.Requirements[0].Message = "why"
		d := start(t, c.daemon("one"), []jobs.Job{j})
		d.guard.set(time.Hour, nil)
		time.Sleep(31 * time.Second)
		d.drain()
		requireOnce(t, c, "a", sec(10), sec(20), 10*time.Second, "lock")
		require.Equal(t, 9*time.Second, *d.guard.asked[0].AcquireTimeout) // a second before the next
		require.Equal(t, "a", d.guard.asked[0].Owner)
		require.EqualValues(t, 2, d.stats("a").Skipped[SkipLock])
		require.Equal(t, "db", d.guard.skipped[0].Scope)
		require.Equal(t, "why", d.guard.skipped[0].Message)
		require.Equal(t, "lock", d.guard.skipped[0].Reason)
		require.Equal(t, sec(10), d.guard.skipped[0].Instant)
	})
}

func TestSeveralLocksOfAJobHaveOneAcquireTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a job with two locks, one of which says how long it waits
		j := locked(job("a", "@every 10s", time.Millisecond))
		j.Requirements = append(j.Requirements, lockguard.Requirement{Scope: "web", Terms: priority.Terms{CleanupTimeout: time.Second}})
		patient, hasty := j, j
		patient.Name, hasty.Name = "patient", "hasty"
		hasty.Requirements = slices.Clone(j.Requirements)
		hasty.Requirements[1].AcquireTimeout = new(3 * time.Second)
		d := start(t, newCluster().daemon("one"), []jobs.Job{patient, hasty})
		d.guard.set(0, &lock.NotAcquiredError{Scope: "web"})

		// when a tick comes, then that one counts; if none says it, the next tick
		time.Sleep(11 * time.Second)
		d.drain()
		require.Len(t, d.guard.asked, 4)
		for _, r := range d.guard.asked {
			switch {
			case r.Owner == "patient":
				require.Equal(t, 9*time.Second, *r.AcquireTimeout)
			case r.Scope == "web":
				require.Equal(t, 3*time.Second, *r.AcquireTimeout)
			default:
				require.Nil(t, r.AcquireTimeout)
			}
		}

		// and what was skipped is reported with the lock that was not acquired
		require.Len(t, d.guard.skipped, 2)
		require.Equal(t, "web", d.guard.skipped[0].Scope)
	})
}

func TestHowARunEndedIsRecorded(t *testing.T) {
	boom := errors.New("boom")
	never := func(context.Context, jobs.Run) error { panic("it has no lock") }
	freeze := override.Override{ID: "INC-7", By: "ana", Kind: override.Freeze}
	cases := []struct {
		name  string
		guard error // instead of a grant
		work  func(context.Context, jobs.Run) error
		want  string
	}{
		{"ran", nil, func(context.Context, jobs.Run) error { return nil }, "ran"},
		{"failed", nil, func(context.Context, jobs.Run) error { return boom }, "failed"},
		{"panicked", nil, func(context.Context, jobs.Run) error { panic("ouch") }, "failed"},
		{"preempted", nil, func(context.Context, jobs.Run) error { return &lockguard.PreemptedError{By: "x"} }, "preempted"},
		{"lease", nil, func(context.Context, jobs.Run) error { return &lockguard.LeaseExpiredError{By: "x"} }, "preempted"},
		{"lost", nil, func(context.Context, jobs.Run) error {
			return errors.Join(&lockguard.PreemptedError{}, &lockguard.LostError{Reason: lock.LossTaken})
		}, "lost"},
		{"busy", &lock.NotAcquiredError{}, never, "lock"},
		{"cleanup", &lock.CleanupPendingError{}, never, "lock"},
		{"evicted", &lock.EvictedError{}, never, "lock"},
		{"frozen", &lockguard.FrozenError{Override: freeze, Err: &lock.NotAcquiredError{}}, never, "lock"},
		{"unavailable", &lock.UnavailableError{}, never, "unavailable"},
		{"refused", &lockguard.RequestError{Field: "x", Reason: "y"}, never, "failed"},
	}
	for _, tc := range cases {
		bubble(t, tc.name, func(t *testing.T, c *cluster) {
			j := locked(job("a", "@every 10s", 0))
			j.Work = jobs.Func(tc.work)
			d := start(t, c.daemon("one"), []jobs.Job{j})
			d.guard.set(time.Second, tc.guard)
			time.Sleep(22 * time.Second)
			d.drain()
			requireOnce(t, c, "a", sec(10), sec(20), 10*time.Second, tc.want)
			require.EqualValues(t, 2, d.stats("a").Total(), "%+v", d.stats("a"))
			require.Equal(t, tc.name == "frozen", c.of("a").ends[0].Detail == "frozen by override INC-7 of ana")
			if tc.guard == nil {
				require.Equal(t, time.Second, c.of("a").ends[0].Waited)
			}
		})
	}
}

func TestWhatTheLedgerRefusesIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		l := c.daemon("one")
		var refusals atomic.Int32
		l.before = func(context.Context, string) error {
			if refusals.Add(-1) >= 0 {
				return errors.New("not now")
			}
			return nil
		}
		refusals.Store(3)
		d := start(t, l, []jobs.Job{job("a", "@every 10s", 3*time.Second)})
		time.Sleep(9 * time.Second)
		refusals.Store(3) // the claim
		time.Sleep(3 * time.Second)
		refusals.Store(3) // the end of the run
		time.Sleep(6 * time.Second)
		d.drain()
		requireOnce(t, c, "a", sec(10), sec(10), time.Second, "ran")
	})
}

func TestAJobRunsByHandThroughTheSameGuard(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		boom := errors.New("boom")
		failing := locked(job("failing", "manual", 0))
		failing.Work = jobs.Func(func(_ context.Context, run jobs.Run) error {
			require.Zero(t, run.Scheduled)
			return boom
		})
		d := start(t, c.daemon("one"), []jobs.Job{locked(job("a", "", 3*time.Second)), failing, job("ticking", "@every 10s", time.Second)})
		other := start(t, c.daemon("two"), []jobs.Job{job("a", "", time.Second)})
		ended := make(chan error)
		go func() { ended <- d.RunNow(t.Context(), "a") }()
		synctest.Wait()
		require.Equal(t, 1, d.stats("a").Running)
		require.ErrorAs(t, d.RunNow(t.Context(), "a"), new(*OverlapError))
		require.ErrorAs(t, other.RunNow(t.Context(), "a"), new(*OverlapError))
		require.NoError(t, <-ended)
		require.Nil(t, d.guard.asked[0].AcquireTimeout) // it waits as long as its caller
		require.EqualValues(t, 1, d.stats("a").Ran)
		require.ErrorIs(t, d.RunNow(t.Context(), "failing"), boom)
		require.ErrorAs(t, d.RunNow(t.Context(), "nothing"), new(*UnknownJobError))

		require.NoError(t, d.RunNow(t.Context(), "ticking"))
		time.Sleep(10 * time.Second)
		requireOnce(t, c, "ticking", sec(10), sec(10), time.Second, "ran") // no tick was taken by it

		d.guard.set(time.Hour, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.RunNow(ctx, "a"), context.DeadlineExceeded)
		d.guard.set(0, nil)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.RunNow(ctx, "a"), context.DeadlineExceeded)
		require.EqualValues(t, 1, d.stats("a").Interrupted)

		d.drain()
		other.drain()
		require.ErrorIs(t, d.RunNow(t.Context(), "a"), ErrStopped)
	})
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Ledger")

	l := newCluster().daemon("one")
	s, err := New(Config{Ledger: l, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, s.Add(job("a", "@daily", 0)))
	require.ErrorIs(t, s.RunNow(t.Context(), "a"), ErrStopped)
	require.ErrorContains(t, s.Add(job("a", "@daily", 0)), "another job has this name")
	require.ErrorContains(t, s.Add(locked(job("b", "@daily", 0))), "Config.Guard is nil")
	err = s.Add(jobs.Job{Name: "c c", Schedule: "0 0 30 2 *"})
	require.ErrorAs(t, err, new(*SpecError))
	require.ErrorContains(t, err, "run")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ctx))
	require.ErrorIs(t, s.Run(ctx), ErrStarted)
	require.ErrorIs(t, s.Add(job("d", "@daily", 0)), ErrStarted)
}

func TestARunIsReportedAtItsBeginningAndItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		c := newCluster()
		var told []string
		var seen []any
		j := locked(job("a", "0 1 * * *", 0))
		j.Retry = jobs.Retry{Max: 1, Initial: time.Second}
		j.Work = jobs.Func(func(ctx context.Context, run jobs.Run) error {
			seen = append(seen, ctx.Value(key{}))
			require.Equal(t, minute(60), run.Scheduled)
			require.Equal(t, "a", run.Job)
			_, _ = io.WriteString(run.Stdout, "three rows")
			return errors.New("boom")
		})
		d := start(t, c.daemon("one"), []jobs.Job{j}, func(cfg *Config) {
			cfg.Begin = func(ctx context.Context, job string, run ticks.Run) (context.Context, func(ticks.End)) {
				told = append(told, "begins "+job+" "+run.Instant.Format(time.Kitchen))
				return context.WithValue(ctx, key{}, run.ID), func(end ticks.End) {
					told = append(told, fmt.Sprintf("ends %s after %d", end.Outcome, end.Attempts))
				}
			}
		})
		time.Sleep(time.Hour + time.Minute)
		d.drain()
		require.Equal(t, []string{"begins a 1:00AM", "ends failed after 2"}, told)
		require.Len(t, seen, 2)
		require.NotNil(t, seen[0])
		require.Equal(t, seen[0], seen[1])
		require.Equal(t, 1, d.log.lines("job ended", "outcome=failed", "job=a", "three rowsthree rows"))
	})
}
