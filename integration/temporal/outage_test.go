package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// throughProxy is a guard that reaches ZooKeeper through what cuts it off.
func (f farm) throughProxy(t *testing.T, session time.Duration) (g *lockguard.Guard, cut, pass func()) {
	t.Helper()
	proxy := newProxy(t)
	g = guard(t, func(c *recipes.Config) {
		c.Chroot, c.Servers, c.SessionTimeout = f.root, []string{proxy.Addr()}, session
	})
	return g, func() { require.NoError(t, proxy.Cut()) }, func() { require.NoError(t, proxy.Pass()) }
}

func TestActivityThatIsCutOffFromZooKeeperKnowsBeforeTheNextHolder(t *testing.T) {
	t.Parallel()
	f, d := newFarm(t), newDownstream(t)
	g, cut, pass := f.throughProxy(t, 2*time.Second)
	f.workerOn(t, g, lingering(temporal.Lock{Requirement: requirement()}), laborer{newMouth(d, "cut off")}.register)
	run := f.start(t, "linger", briskly())
	first := d.awaits(t, "write")

	// when its session ends, and somebody else has the lock
	cut()
	var told []word
	require.NoError(t, f.guard(t).Do(t.Context(), requirement(), func(context.Context) error {
		told = d.said("told")
		return nil
	}))

	// then it knew
	require.Len(t, told, 1)
	require.Equal(t, "lost", told[0].Cause)

	// and the next attempt has the lock when ZooKeeper is back, and what the first
	// one still writes is refused
	pass()
	token, err := result[lockguard.Token](t, run)
	require.NoError(t, err)
	require.Greater(t, token, first.Token)
	d.open("late")
	require.Equal(t, first.Token, d.awaits(t, "write", func(w word) bool { return w.Refused }).Token)
}

func TestActivityDoesNotNoticeThatZooKeeperIsAwayForLessThanASession(t *testing.T) {
	t.Parallel()
	f, d := newFarm(t), newDownstream(t)
	g, cut, pass := f.throughProxy(t, 40*time.Second)
	f.workerOn(t, g, []temporal.PluginOption{temporal.Declare("work", temporal.Lock{Requirement: requirement()})}, func(r registry) {
		laborer{}.register(r)
		register(r, "work", func(ctx context.Context) (bool, error) {
			mouth := newMouth(d, "cut off")
			if _, err := mouth.say(ctx, word{What: "began"}); err != nil {
				return false, err
			}
			if err := mouth.pass(ctx, "end"); err != nil {
				return false, err
			}
			hold, _ := lockguard.FromContext(ctx)
			return ctx.Err() == nil && hold.Check() == nil, nil
		})
	})
	run := f.start(t, "work", briskly())
	d.awaits(t, "began")
	cut()
	f.heartbeats(t, run, 3)
	pass()
	d.open("end")
	held, err := result[bool](t, run)
	require.NoError(t, err)
	require.True(t, held)
	require.Len(t, d.said("began"), 1)
}

// The server is stopped for as long as heartbeat timeouts need, a few seconds: what
// comes after that is the same after thirty.
func TestLocksWhileTheTemporalServerIsStopped(t *testing.T) {
	t.Parallel()
	server := devserver.Start(t, devserver.Settings{OnDisk: true})
	namespace := server.Namespace(t)
	f, d := newFarm(t), newDownstream(t)
	f.client, f.namespace = server.ClientIn(t, namespace), namespace

	// given an activity that holds its lock, and a workflow that holds another one
	f.workerOn(t, f.guard(t), lingering(temporal.Lock{Requirement: requirement()}), laborer{newMouth(d, "worker")}.register)
	activity := f.start(t, "linger", briskly())
	first := d.awaits(t, "write")
	y := newYard(t)
	y.c = f.client
	y.work()
	workflow := y.start(migration{Steps: []string{"step"}, Then: 8 * time.Second, After: []string{"step"}, Heartbeat: 2 * time.Second})
	y.sleeping(workflow)

	// when the server stops
	require.NoError(t, server.Stop())

	// then the attempt takes itself for superseded, and its lock is free
	require.Equal(t, "superseded", d.awaits(t, "told").Cause)
	f.isFree(t)

	// but the lock of the workflow is held
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := y.guard().Acquire(ctx, lockguard.Requirement{Scope: ordersLock.Scope, NeverPreempts: true})
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// and when the server is back, both go on: with a new token, and with the same
	require.NoError(t, server.Restart(t.Context()))
	token, err := result[lockguard.Token](t, activity)
	require.NoError(t, err)
	require.Greater(t, token, first.Token)
	reports, err := y.result(workflow)
	require.NoError(t, err)
	require.Len(t, reports, 2)
	require.Equal(t, reports[0].Token, reports[1].Token)
	y.isFree(y.guard())
}
