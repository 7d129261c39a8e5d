package temporal_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// ordersLock is the lock of the workflows of these tests.
var ordersLock = lockguard.Requirement{Scope: "cluster/orders", Priority: 5, CleanupTimeout: 20 * time.Second}

// A migration is a workflow of several steps under one lock, as a test wants it.
type migration struct {
	Steps     []string      // activities, one after the other
	Then      time.Duration // to wait after them
	After     []string      // activities after that
	Unlocked  bool          // it needs no lock at all, for comparison
	OnClose   bool
	Again     bool
	Heartbeat time.Duration
	Patience  *time.Duration // to wait for the lock
	Next      *migration     // what to continue as
}

// A report is what a step says of itself.
type report struct {
	Step  string
	Token lockguard.Token
	Asked bool // its context has ended
}

// Migrate is the workflow.
func Migrate(ctx workflow.Context, m migration) ([]report, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var reports []report
	body := func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		do := func(steps []string) error {
			for _, step := range steps {
				var r report
				if err := workflow.ExecuteActivity(ctx, step).Get(ctx, &r); err != nil {
					return err
				}
				reports = append(reports, r)
			}
			return nil
		}
		if err := do(m.Steps); err != nil {
			return err
		}
		if m.Next != nil {
			return hold.ContinueAsNew(ctx, Migrate, *m.Next)
		}
		if m.Then > 0 {
			if err := workflow.Sleep(ctx, m.Then); err != nil {
				return err
			}
		}
		return do(m.After)
	}
	if m.Unlocked {
		return reports, body(ctx, temporal.WorkflowHold{})
	}
	options := []temporal.WithLockOption{temporal.OnPreempt(func(ctx workflow.Context, p temporal.Preemption) error {
		return workflow.ExecuteActivity(ctx, "undo").Get(ctx, nil)
	})}
	if m.OnClose {
		options = append(options, temporal.ReleaseOnClose())
	}
	if m.Again {
		options = append(options, temporal.AgainAfterLoss())
	}
	if m.Heartbeat > 0 {
		options = append(options, temporal.KeptBy(temporal.KeeperOptions{HeartbeatTimeout: m.Heartbeat}))
	}
	requirement := ordersLock
	requirement.AcquireTimeout = m.Patience
	err := temporal.WithLock(ctx, requirement, body, options...)
	return reports, err
}

// A yard is workers and clients around one Temporal server and one ZooKeeper, and
// what their activities have said.
type yard struct {
	t     *testing.T
	c     client.Client
	queue string
	root  string

	mu      sync.Mutex
	reports []report
	came    chan struct{} // each report
	blocked chan time.Time
	told    chan time.Time // when a blocked one was told to go
}

func newYard(t *testing.T) *yard {
	t.Helper()
	return &yard{
		t: t, c: dial(t), queue: devserver.Name(t), root: testbed.Root(t),
		came: make(chan struct{}, 1000), blocked: make(chan time.Time, 1000), told: make(chan time.Time, 1000),
	}
}

// guard is a process of its own.
func (y *yard) guard(change ...func(*recipes.Config)) *lockguard.Guard {
	y.t.Helper()
	return guard(y.t, append([]func(*recipes.Config){func(c *recipes.Config) { c.Chroot = y.root }}, change...)...)
}

// work starts a worker, with a plugin of its own, which runs until the end of the
// test unless it is stopped before.
func (y *yard) work(change ...func(*recipes.Config)) (stop func()) {
	y.t.Helper()
	p, err := temporal.NewPlugin(y.guard(change...))
	require.NoError(y.t, err)
	return y.workWith(p)
}

func (y *yard) workWith(p *temporal.Plugin) (stop func()) {
	y.t.Helper()
	w := worker.New(y.c, y.queue, worker.Options{Plugins: []worker.Plugin{p}})
	y.register(w)
	require.NoError(y.t, w.Start())
	stop = sync.OnceFunc(w.Stop)
	y.t.Cleanup(stop)
	return stop
}

func (y *yard) register(w worker.Registry) {
	w.RegisterWorkflow(Migrate)
	w.RegisterActivityWithOptions(y.step, activity.RegisterOptions{Name: "step"})
	w.RegisterActivityWithOptions(y.block, activity.RegisterOptions{Name: "block"})
	w.RegisterActivityWithOptions(y.undo, activity.RegisterOptions{Name: "undo"})
}

func (y *yard) step(ctx context.Context) (report, error) { return y.report(ctx, "step"), nil }
func (y *yard) undo(ctx context.Context) (report, error) { return y.report(ctx, "undo"), nil }

// block runs until it is told to go.
func (y *yard) block(ctx context.Context) (report, error) {
	y.blocked <- time.Now()
	<-ctx.Done()
	y.told <- time.Now()
	return y.report(ctx, "block"), ctx.Err()
}

func (y *yard) report(ctx context.Context, step string) report {
	r := report{Step: step, Asked: ctx.Err() != nil}
	if hold, ok := lockguard.FromContext(ctx); ok {
		r.Token = hold.Token()
	}
	y.mu.Lock()
	y.reports = append(y.reports, r)
	y.mu.Unlock()
	y.came <- struct{}{}
	return r
}

func (y *yard) said() []report {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.Clone(y.reports)
}

// start starts a workflow.
func (y *yard) start(m migration) client.WorkflowRun {
	y.t.Helper()
	run, err := y.c.ExecuteWorkflow(y.t.Context(), client.StartWorkflowOptions{ID: devserver.Name(y.t), TaskQueue: y.queue, WorkflowRunTimeout: 5 * time.Minute}, Migrate, m)
	require.NoError(y.t, err)
	return run
}

// result waits for the end of a workflow.
func (y *yard) result(run client.WorkflowRun) ([]report, error) {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), 2*patience)
	defer cancel()
	var reports []report
	err := run.Get(ctx, &reports)
	require.NoError(y.t, ctx.Err(), "the workflow does not end")
	return reports, err
}

// sleeping returns when the workflow has done its steps and waits.
func (y *yard) sleeping(run client.WorkflowRun) {
	y.t.Helper()
	require.Eventually(y.t, func() bool {
		return slices.ContainsFunc(devserver.History(y.t, y.c, run.GetID(), run.GetRunID()), func(e *historypb.HistoryEvent) bool {
			return e.GetEventType() == enums.EVENT_TYPE_TIMER_STARTED
		})
	}, patience, 20*time.Millisecond)
}

func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "does not come: "+what)
		panic("unreachable")
	}
}

// hotfix takes the lock by force, as an emergency would, and returns its token.
func (y *yard) hotfix(g *lockguard.Guard) lockguard.Token {
	y.t.Helper()
	requirement := lockguard.Requirement{Scope: ordersLock.Scope, Priority: 9, Owner: "hotfix", Forceful: true}
	ctx, cancel := context.WithTimeout(y.t.Context(), patience)
	defer cancel()
	var token lockguard.Token
	require.NoError(y.t, g.Do(ctx, requirement, func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		token = hold.Token()
		return nil
	}))
	return token
}

// isFree returns when nobody holds the lock, and says how long that took.
func (y *yard) isFree(g *lockguard.Guard) time.Duration {
	y.t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(y.t.Context(), patience)
	defer cancel()
	hold, err := g.Acquire(ctx, lockguard.Requirement{Scope: ordersLock.Scope, NeverPreempts: true})
	require.NoError(y.t, err)
	require.NoError(y.t, hold.Release(ctx))
	return time.Since(begun)
}

func requireFailed(t *testing.T, want string, err error) {
	t.Helper()
	var application *sdk.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, want, application.Type(), "%v", err)
}

func TestWorkflowHoldsItsLockOverSeveralActivities(t *testing.T) {
	y := newYard(t)
	y.work()
	y.work() // whoever gets the steps

	// when two workflows want the same lock
	first, second := y.start(migration{Steps: []string{"step", "step", "step"}}), y.start(migration{Steps: []string{"step", "step", "step"}})
	a, err := y.result(first)
	require.NoError(t, err)
	b, err := y.result(second)
	require.NoError(t, err)

	// then each has done all its steps under one token, and one after the other
	require.Len(t, slices.Compact(slices.Clone(a)), 1)
	require.Len(t, slices.Compact(slices.Clone(b)), 1)
	require.NotZero(t, a[0].Token)
	require.NotEqual(t, a[0].Token, b[0].Token)
	require.Len(t, slices.Compact(y.said()), 2, "%v", y.said())
	require.Less(t, y.isFree(y.guard()), patience)
}

func TestEventsOfAWorkflowHold(t *testing.T) {
	y := newYard(t)
	y.work()
	count := func(m migration) (events int) {
		run := y.start(m)
		_, err := y.result(run)
		require.NoError(t, err)
		return len(devserver.History(t, y.c, run.GetID(), ""))
	}
	steps := []string{"step", "step"}
	without := count(migration{Steps: steps, Unlocked: true})
	for _, c := range []struct {
		what string
		m    migration
		most int
	}{
		{"at the end of the workflow", migration{Steps: steps}, 7},
		{"released on close", migration{Steps: steps, OnClose: true}, 5},
	} {
		got := count(c.m) - without
		t.Logf("events of a workflow hold, %s: %d", c.what, got)
		require.LessOrEqual(t, got, c.most, c.what)
	}
}

func TestPreemptionBetweenActivitiesPutsThingsRightUnderTheLock(t *testing.T) {
	y := newYard(t)
	y.work()
	hotfix := y.guard()

	// given a workflow that waits under its lock
	run := y.start(migration{Steps: []string{"step"}, Then: time.Hour})
	wait(t, y.came, "step")

	// when somebody more important wants it
	token := y.hotfix(hotfix)

	// then things have been put right before, under the token of the workflow
	said := y.said()
	require.Equal(t, []string{"step", "undo"}, []string{said[0].Step, said[1].Step})
	require.Equal(t, said[0].Token, said[1].Token)
	require.Greater(t, token, said[1].Token)
	_, err := y.result(run)
	requireFailed(t, temporal.ErrTypeLockPreempted, err)
	p, ok := temporal.PreemptionOf(err)
	require.True(t, ok)
	require.Equal(t, "hotfix", p.By)
	require.Equal(t, 9, p.Priority)
}

func TestPreemptionReachesARunningActivityInMilliseconds(t *testing.T) {
	y := newYard(t)
	y.work()
	y.work()
	hotfix := y.guard()
	const rounds = 20
	var took []time.Duration
	for range rounds {
		// given an activity that runs under the lock of its workflow, with a heartbeat
		// timeout that is not even set
		run := y.start(migration{Steps: []string{"block"}})
		wait(t, y.blocked, "block")

		// when somebody more important asks for it
		asked := time.Now()
		y.hotfix(hotfix)

		// then the context of the activity has ended at once
		took = append(took, wait(t, y.told, "the end of its context").Sub(asked))
		_, err := y.result(run)
		requireFailed(t, temporal.ErrTypeLockPreempted, err)
	}
	slices.Sort(took)
	t.Logf("from the preemptor's request to the cancelled context of an activity: median %s, p99 %s of %d", took[rounds/2], took[rounds-1], rounds)
	require.Less(t, took[rounds-1], patience)
	for _, r := range y.said() {
		require.True(t, r.Step == "undo" || r.Asked, "%v", r)
	}
}

func TestCancelledWorkflowPutsThingsRightUnderTheLock(t *testing.T) {
	y := newYard(t)
	y.work()
	run := y.start(migration{Steps: []string{"step"}, Then: time.Hour})
	wait(t, y.came, "step")
	require.NoError(t, y.c.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	_, err := y.result(run)
	require.True(t, sdk.IsCanceledError(err), "%v", err)
	said := y.said()
	require.Equal(t, "undo", said[1].Step)
	require.Equal(t, said[0].Token, said[1].Token)
	y.isFree(y.guard())
}

func TestActivityThatDeclaresTheLockOfItsWorkflowHasItAlready(t *testing.T) {
	y := newYard(t)
	p, err := temporal.NewPlugin(y.guard(), temporal.Declare("step", temporal.Lock{Requirement: lockguard.Requirement{Scope: ordersLock.Scope}}))
	require.NoError(t, err)
	y.workWith(p)
	reports, err := y.result(y.start(migration{Steps: []string{"step", "step"}}))
	require.NoError(t, err)
	require.Len(t, slices.Compact(reports), 1)
	require.NotZero(t, reports[0].Token)

	// and by itself it takes the lock
	reports, err = y.result(y.start(migration{Steps: []string{"step"}, Unlocked: true}))
	require.NoError(t, err)
	require.NotZero(t, reports[0].Token)
}

func TestTerminatedWorkflowLosesItsLockSoon(t *testing.T) {
	y := newYard(t)
	y.work()
	run := y.start(migration{Steps: []string{"step"}, Then: time.Hour, Heartbeat: 3 * time.Second})
	wait(t, y.came, "step")
	require.NoError(t, y.c.TerminateWorkflow(t.Context(), run.GetID(), run.GetRunID(), "test"))
	t.Logf("free after %s, of a heartbeat timeout of 3s", y.isFree(y.guard()))
	require.Len(t, y.said(), 1, "nothing else was run")
}

func TestWorkflowCancelledWhileItWaitsLeavesTheQueue(t *testing.T) {
	y := newYard(t)
	y.work()
	g := y.guard()
	hold, err := g.Acquire(t.Context(), lockguard.Requirement{Scope: ordersLock.Scope, Priority: 9})
	require.NoError(t, err)
	run := y.start(migration{Steps: []string{"step"}})
	require.Eventually(t, func() bool {
		return pendingHolder(t, y.c, run) == enums.PENDING_ACTIVITY_STATE_STARTED
	}, patience, 20*time.Millisecond)
	require.NoError(t, y.c.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	_, err = y.result(run)
	require.True(t, sdk.IsCanceledError(err), "%v", err)
	require.NoError(t, hold.Release(t.Context()))
	y.isFree(g)
	require.Empty(t, y.said())
}

func TestWorkflowThatDoesNotGetTheLockInTimeSaysWhoHasIt(t *testing.T) {
	y := newYard(t)
	y.work()
	hold, err := y.guard().Acquire(t.Context(), lockguard.Requirement{Scope: ordersLock.Scope, Priority: 9, Owner: "nightly"})
	require.NoError(t, err)
	defer func() { require.NoError(t, hold.Release(context.Background())) }()
	run := y.start(migration{Steps: []string{"step"}, Patience: new(time.Second)})
	_, err = y.result(run)
	requireFailed(t, temporal.ErrTypeLockWaitTimeout, err)
	require.ErrorContains(t, err, "nightly")
}

// pendingHolder is the state of the holder activity of a workflow.
func pendingHolder(t *testing.T, c client.Client, run client.WorkflowRun) enums.PendingActivityState {
	t.Helper()
	described, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	for _, a := range described.GetPendingActivities() {
		if a.GetActivityType().GetName() == temporal.HolderActivity {
			return a.GetState()
		}
	}
	return enums.PENDING_ACTIVITY_STATE_UNSPECIFIED
}

func TestWorkerThatStopsHandsTheLockOverWithTheSameToken(t *testing.T) {
	y := newYard(t)
	stop := y.work()

	// given a lock that a worker keeps, and somebody who waits for it
	run := y.start(migration{Steps: []string{"step", "step"}, Then: 3 * time.Second})
	wait(t, y.came, "step")
	wait(t, y.came, "step")
	rival := make(chan lockguard.Token, 1)
	go func() {
		_ = y.guard().Do(t.Context(), lockguard.Requirement{Scope: ordersLock.Scope, NeverPreempts: true}, func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			rival <- hold.Token()
			return nil
		})
	}()

	// when another worker comes, and that one stops
	y.work()
	begun := time.Now()
	stop()
	t.Logf("the worker has stopped after %s", time.Since(begun))

	// then the workflow ends without having noticed
	_, err := y.result(run)
	require.NoError(t, err)
	require.NotZero(t, wait(t, rival, "the rival's turn"))
	require.Len(t, y.said(), 2)
}

func TestContinueAsNewKeepsTheLockAndTheToken(t *testing.T) {
	y := newYard(t)
	y.work()
	y.work()
	last := migration{Steps: []string{"step"}}
	second := migration{Steps: []string{"step"}, Next: &last}
	run := y.start(migration{Steps: []string{"step"}, Next: &second})
	wait(t, y.came, "step")
	rival := make(chan lockguard.Token, 1)
	g := y.guard()
	var rivals sync.WaitGroup
	t.Cleanup(rivals.Wait) // before the client is closed
	rivals.Go(func() {
		_ = g.Do(t.Context(), lockguard.Requirement{Scope: ordersLock.Scope}, func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			rival <- hold.Token()
			return nil
		})
	})

	// three runs, one token; whoever waits comes after them
	_, err := y.result(run)
	require.NoError(t, err)
	said := y.said()
	require.Len(t, said, 3)
	require.Len(t, slices.Compact(said), 1, "%v", said)
	require.Greater(t, wait(t, rival, "the rival's turn"), said[0].Token)
}

func TestLockIsHeldWhileTemporalIsAway(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	namespace := temporals.Server(t).Namespace(t)
	proxy := netfault.New(t, temporals.Server(t).Addr())
	y.c = temporals.Server(t).ClientIn(t, namespace, func(o *client.Options) { o.HostPort = proxy.Addr() })
	y.work()
	g := y.guard()
	run := y.start(migration{Steps: []string{"step"}, Then: 20 * time.Second, Heartbeat: 2 * time.Second})
	y.sleeping(run)

	// when Temporal does not answer for several heartbeat timeouts
	require.NoError(t, proxy.Cut())
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	_, err := g.Acquire(ctx, lockguard.Requirement{Scope: ordersLock.Scope, NeverPreempts: true})

	// then the lock is held all the time, and afterwards too
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, proxy.Pass())
	_, err = y.result(run)
	require.NoError(t, err)
	require.Len(t, y.said(), 1)
	y.isFree(g)
}
