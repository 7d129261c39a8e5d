package virtualtime

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// answered makes the leader answer a program in this instant.
func answered(p *program) {
	require.NoError(p.World, p.Take("another", lock.Request{}).Release(p.World.Context()))
}

// A leaseTakeover is the takeover of a holder that is cut off. The other request has its priority, and is not forceful,
// unless force says so.
type leaseTakeover struct {
	cleanup time.Duration // of the holder
	cut     time.Duration // how long before the takeover
	broken  bool          // its connection ends; else nothing comes through it any more
	delay   time.Duration // LockDelay of the holder
	force   bool          // by a request that is more important and forceful, long before the lease is over
}

const (
	leaseSession = 16 * time.Second
	// unnoticed is how long a client takes at most to notice that nothing comes through: a quarter of the session timeout, and
	// two steps of its watchdog. One step is how long it takes to see that the lease is over.
	unnoticed = leaseSession/4 + 2*step
	step      = leaseSession / 32
)

// play returns when the takeover was, when the work of the holder was told, and when that of the other one began.
func (c leaseTakeover) play(w *world) (taken, told, began time.Duration) {
	// given a holder, and one that waits for the end of its lease
	const lease = time.Minute
	holder, equal := w.Program("holder", leaseSession), w.Program("equal", long)
	held := holder.Do(lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: lease, CleanupTimeout: c.cleanup, LockDelay: c.delay}}, func(ctx context.Context) error {
		<-ctx.Done()
		hold, _ := lockguard.FromContext(ctx)
		<-hold.Lost() // work that overruns its grace period, if it was preempted
		told = w.Now()
		return context.Cause(ctx)
	})
	r := lockguard.Requirement{}
	if taken = lease + c.cleanup; c.force {
		r.Priority, r.Forceful = 5, true
		taken = c.cleanup
	}
	next := equal.Do(r, untilCancelled)

	// when the holder is cut off
	w.Until(taken - c.cut)
	answered(holder)
	deadline := w.Since(held.Hold().Deadline())
	away := w.On(zktest.Op(zktest.Connect).From("holder")).Hold()
	if c.broken {
		require.True(w, w.Disconnect(holder.Session().ID))
	} else {
		w.Partition("holder")
	}

	// then it is taken over at the end of its grace
	w.Until(taken)
	require.Contains(w, equal.Told(), taken.String()+" TakenOver")
	require.Error(w, held.Returned())
	w.Until(taken + 2*leaseSession)
	require.True(w, next.Holds())
	require.Greater(w, next.Hold().Token(), held.Hold().Token())
	require.LessOrEqual(w, told, deadline)
	w.Heal()
	away.Remove()
	return taken, told, next.Began()
}

// The end of a lease is enforced by any request, polite and of equal priority too. A holder that is cut off then
// believes that it holds until it notices, see docs/safety.md, "Takeovers and breaks".
func TestHolderThatIsCutOffAtTheEndOfItsLeaseBelievesInItUntilItNotices(t *testing.T) {
	each(t, map[string]leaseTakeover{
		"shortly before":                  {cut: time.Second},
		"a while before":                  {cut: leaseSession / 8},
		"at the end of a grace":           {cut: time.Second, cleanup: 20 * time.Second},
		"in a grace":                      {cut: leaseSession / 8, cleanup: 20 * time.Second},
		"before a grace that is short":    {cut: 3 * time.Second, cleanup: 2 * time.Second},
		"right before":                    {cut: time.Millisecond},
		"right before the end of a grace": {cut: time.Millisecond, cleanup: 20 * time.Second},
		"in a grace, by force":            {cut: time.Second, cleanup: 20 * time.Second, force: true},
		"its connection hangs for long":   {cut: unnoticed + time.Millisecond},
		"and before a grace":              {cut: unnoticed + time.Millisecond, cleanup: unnoticed},
		"its connection is broken":        {cut: time.Second, broken: true},
		"and in a grace":                  {cut: time.Second, broken: true, cleanup: 20 * time.Second},
		"it has a lock-delay":             {cut: time.Second, delay: unnoticed},
		"and is cut off right before":     {cut: time.Millisecond, delay: unnoticed},
	}, func(w *world, c leaseTakeover) {
		taken, told, began := c.play(w)
		w.Logf("cut %s, taken %s, told %s, began %s", taken-c.cut, taken, told, began)
		overlap := max(0, told-began)
		require.Equal(w, taken+c.delay, began)
		require.LessOrEqual(w, overlap, max(step, unnoticed-c.cut))
		switch {
		case c.delay > 0:
			require.Zero(w, overlap)
		case c.broken, c.cut > unnoticed:
			require.LessOrEqual(w, overlap, step)
		default:
			require.Positive(w, overlap, "two believe that they hold: if that is over, docs/safety.md may promise more")
		}
	})
}
