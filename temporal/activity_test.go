package temporal_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// A scene is a worker whose activity "work" needs a lock, and a stranger.
type scene struct {
	t        *testing.T
	env      *testsuite.TestActivityEnvironment
	stranger *lockguard.Guard
}

func newScene(t *testing.T, lock temporal.Lock, work any, options ...temporal.PluginOption) *scene {
	t.Helper()
	zk := zktest.RunT(t, zktest.Pipe())
	if lock.Scope == "" {
		lock.Scope = "s"
	}
	env := activities(newPlugin(t, newGuard(t, zk, "worker"), append(options, temporal.Declare("work", lock))...))
	env.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
	return &scene{t: t, env: env, stranger: newGuard(t, zk, "stranger")}
}

// busy has the stranger hold the lock.
func (s *scene) busy() (release func()) {
	s.t.Helper()
	hold, err := s.stranger.Acquire(s.t.Context(), lockguard.Requirement{Scope: "s", Owner: "stranger"})
	require.NoError(s.t, err)
	return func() { require.NoError(s.t, hold.Release(context.WithoutCancel(s.t.Context()))) }
}

// run executes the activity.
func (s *scene) run(args ...any) (string, error) {
	s.t.Helper()
	value, err := s.env.ExecuteActivity("work", args...)
	if err != nil {
		return "", err
	}
	var text string
	require.NoError(s.t, value.Get(&text))
	return text, nil
}

// failed returns the failure that Temporal hears.
func failed(t *testing.T, err error) *sdk.ApplicationError {
	t.Helper()
	var failure *sdk.ApplicationError
	require.ErrorAs(t, err, &failure)
	return failure
}

func done(context.Context) (string, error) { return "done", nil }

func TestActivityKnowsItsHoldAndItsKey(t *testing.T) {
	var key string
	var info lockguard.Info
	s := newScene(t, temporal.Lock{}, func(ctx context.Context) (string, error) {
		hold, _ := lockguard.FromContext(ctx)
		key, info = temporal.IdempotencyKey(ctx), hold.Info()
		return activity.GetInfo(ctx).ActivityType.Name, nil
	})
	name, err := s.run()
	require.NoError(t, err)
	require.Equal(t, "work", name)
	require.NotZero(t, info.Token)
	require.Equal(t, key+"#1", info.Requirement.Owner)
	require.Equal(t, "work", info.Requirement.Job)
	require.Empty(t, temporal.IdempotencyKey(t.Context()))
}

// awaitWaiter waits until somebody waits for the lock.
func awaitWaiter(t *testing.T, g *lockguard.Guard) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := g.Do(t.Context(), lockguard.Requirement{Scope: "s", Terms: priority.Terms{AcquireTimeout: new(time.Duration(0))}}, func(context.Context) error { return nil })
		var busy *lock.NotAcquiredError
		return errors.As(err, &busy) && busy.Ahead == 1
	}, patience, 10*time.Millisecond)
}

func TestActivityThatMaySkipDoesNotWait(t *testing.T) {
	var events []lockguard.Event
	ran := false
	zk := zktest.RunT(t)
	guard := newGuard(t, zk, "worker", lockguard.WithObserver(func(_ context.Context, e lockguard.Event) { events = append(events, e) }))
	env := activities(newPlugin(t, guard, temporal.Declare("work", temporal.Lock{Requirement: lockguard.Requirement{Scope: "s"}, OnBusy: temporal.BusySkip, SkipResult: "skipped"})))
	env.RegisterActivityWithOptions(func(context.Context) (string, error) { ran = true; return "done", nil }, activity.RegisterOptions{Name: "work"})
	s := &scene{t: t, env: env, stranger: newGuard(t, zk, "stranger")}
	release := s.busy()
	result, err := s.run()
	require.NoError(t, err)
	require.Equal(t, "skipped", result)
	require.False(t, ran)
	skipped, ok := events[len(events)-1].Notice.(lockguard.Skipped)
	require.True(t, ok, "%T", events[len(events)-1])
	require.Equal(t, "work", skipped.Job)

	release()
	result, err = s.run()
	require.NoError(t, err)
	require.Equal(t, "done", result)
}

func TestActivityWhoseLockIsBusyEndsAsItIsDeclared(t *testing.T) {
	for name, c := range map[string]struct {
		lock  temporal.Lock
		want  string
		delay time.Duration
		final bool
		says  string
	}{
		"it retries": {temporal.Lock{OnBusy: temporal.BusyRetry, RetryDelay: 10 * time.Millisecond}, temporal.ErrTypeLockBusy, 10 * time.Millisecond, false, "is busy since"},
		"it tries":   {within(0), temporal.ErrTypeLockBusy, temporal.DefaultRetryDelay, false, "stranger"},
		"it waits":   {within(50 * time.Millisecond), temporal.ErrTypeLockWaitTimeout, 0, true, "stranger"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, c.lock, done)
				defer s.busy()()
				_, err := s.run()
				failure := failed(t, err)
				require.Equal(t, c.want, failure.Type())
				require.Equal(t, c.final, failure.NonRetryable())
				require.Equal(t, c.delay, failure.NextRetryDelay())
				require.Equal(t, sdk.ApplicationErrorCategoryBenign, failure.Category())
				require.ErrorContains(t, err, c.says)
			})
		})
	}
}

func within(d time.Duration) temporal.Lock {
	return temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{AcquireTimeout: &d}}}
}

func TestScopeThatDoesNotFitFailsForGood(t *testing.T) {
	for scope, says := range map[string]string{
		"a/{{.ID}}":   "does not fit the arguments",
		"a/{{.}}":     `became "a/x//y"`,
		"a/{{arg 1}}": "there is no argument 1",
	} {
		s := newScene(t, temporal.Lock{Requirement: lockguard.Requirement{Scope: scope}}, func(context.Context, string) (string, error) { return "", nil })
		_, err := s.run("x//y")
		failure := failed(t, err)
		require.Equal(t, temporal.ErrTypeLockConfiguration, failure.Type())
		require.True(t, failure.NonRetryable())
		require.ErrorContains(t, err, says)
	}
}

// interrupted runs work until somebody more important has asked for its lock,
// and had it.
func interrupted(t *testing.T, lock temporal.Lock, then func(ctx context.Context) error) (err error) {
	t.Helper()
	lock.CleanupTimeout = 10 * time.Second
	var s *scene
	s = newScene(t, lock, func(ctx context.Context) (string, error) {
		asked := make(chan error, 1)
		go func() {
			asked <- s.stranger.Do(context.WithoutCancel(t.Context()), lockguard.Requirement{Scope: "s", Terms: priority.Terms{Priority: 9}, Owner: "boss"}, func(context.Context) error { return nil })
		}()
		t.Cleanup(func() { require.NoError(t, <-asked) })
		<-ctx.Done()
		return "stopped", then(ctx)
	})
	_, err = s.run()
	return err
}

func TestPreemptedActivityEndsAsThePolicySays(t *testing.T) {
	ended := func(ctx context.Context) error { return ctx.Err() }
	own := errors.New("disk full")

	failure := failed(t, interrupted(t, temporal.Lock{}, ended))
	require.Equal(t, temporal.ErrTypeLockPreempted, failure.Type())
	require.Equal(t, temporal.DefaultRetryDelay, failure.NextRetryDelay())
	require.Equal(t, sdk.ApplicationErrorCategoryBenign, failure.Category())
	require.ErrorContains(t, failure, `preempted by "boss"`)

	failure = failed(t, interrupted(t, temporal.Lock{RetryDelay: time.Minute}, func(context.Context) error { return own }))
	require.Equal(t, temporal.ErrTypeLockPreempted, failure.Type())
	require.Equal(t, time.Minute, failure.NextRetryDelay())
	require.ErrorContains(t, failure, "disk full")

	failure = failed(t, interrupted(t, temporal.Lock{OnPreempted: temporal.PreemptedFail}, ended))
	require.Equal(t, temporal.ErrTypeLockPreempted, failure.Type())
	require.True(t, failure.NonRetryable())

	failure = failed(t, interrupted(t, temporal.Lock{OnPreempted: temporal.PreemptedCooperate}, func(context.Context) error { return own }))
	require.NotEqual(t, temporal.ErrTypeLockPreempted, failure.Type())
	require.ErrorContains(t, failure, "disk full")

	failure = failed(t, interrupted(t, temporal.Lock{}, func(context.Context) error {
		return sdk.NewNonRetryableApplicationError("bad order", "BadOrder", nil)
	}))
	require.Equal(t, "BadOrder", failure.Type())

	require.NoError(t, interrupted(t, temporal.Lock{}, func(context.Context) error { return nil }), "it has completed")
}

func TestActivityThatPanicsGivesItsLockBack(t *testing.T) {
	s := newScene(t, temporal.Lock{}, func(context.Context) (string, error) { panic("ouch") })
	_, err := s.run()
	require.ErrorContains(t, err, "ouch")
	require.ErrorAs(t, err, new(*sdk.PanicError))
	s.busy()()
}

func TestActivityTakesAllOfSeveralLocks(t *testing.T) {
	lock := temporal.Lock{OnBusy: temporal.BusyWait, Also: []lockguard.Requirement{{Scope: "t/{{.}}"}}}
	s := newScene(t, lock, func(ctx context.Context, _ string) (string, error) {
		hold, _ := lockguard.FromContext(ctx)
		var scopes []string
		for scope := range hold.Tokens() {
			scopes = append(scopes, scope)
		}
		if len(scopes) == 2 && hold.Tokens()["t/x"] != 0 {
			return "both", nil
		}
		return strings.Join(scopes, " "), nil
	})
	result, err := s.run("x")
	require.NoError(t, err)
	require.Equal(t, "both", result)
}

func TestLocalActivityTriesButDoesNotWait(t *testing.T) {
	local := func(s *scene) error {
		_, err := s.env.ExecuteLocalActivity(done)
		return err
	}
	zk := zktest.RunT(t)
	newLocal := func(name string, lock temporal.Lock) *scene {
		lock.Scope = "s"
		env := activities(newPlugin(t, newGuard(t, zk, name), temporal.Declare("done", lock)))
		return &scene{t: t, env: env, stranger: newGuard(t, zk, name+"'s stranger")}
	}
	failure := failed(t, local(newLocal("waits", temporal.Lock{})))
	require.Equal(t, temporal.ErrTypeLockConfiguration, failure.Type())
	require.True(t, failure.NonRetryable())
	require.ErrorContains(t, failure, "a local activity cannot wait for a lock")

	try := newLocal("tries", temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{AcquireTimeout: new(time.Duration(0))}}})
	require.NoError(t, local(try))
	release := try.busy()
	require.Equal(t, temporal.ErrTypeLockBusy, failed(t, local(try)).Type())
	require.NoError(t, local(newLocal("skips", temporal.Lock{OnBusy: temporal.BusySkip})))
	release()
}

func TestProgressOfAnActivityReachesTheListener(t *testing.T) {
	s := newScene(t, temporal.Lock{}, func(ctx context.Context) (string, error) {
		var page int
		if activity.HasHeartbeatDetails(ctx) {
			if err := activity.GetHeartbeatDetails(ctx, &page); err != nil {
				return "", err
			}
		}
		activity.RecordHeartbeat(ctx, page+1)
		return "", nil
	})
	var told []int
	s.env.SetHeartbeatDetails(41)
	s.env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var page int
		require.NoError(t, details.Get(&page))
		told = append(told, page)
	})
	_, err := s.run()
	require.NoError(t, err)
	require.Equal(t, []int{42}, told)
}
