package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A wish is one request as it was drawn, and what its player means to do.
type wish struct {
	request lock.Request
	guarded bool          // through package lockguard
	giveUp  time.Duration // when the context ends; 0: never
	stay    time.Duration // how long the work takes
	manner  manner        // when it is preempted
	soften  bool          // downgrade on the way
	extend  bool          // ask for a longer lease on the way
	hasty   bool          // release with a context that has ended
	clings  bool          // when ZooKeeper is silent it waits what becomes of the lock
}

// manner is how a holder goes that is asked to.
type manner int

const (
	prompt   manner = iota // soon
	punctual               // at the very end of the grace: when it may be taken over
	stubborn               // when it is done, or has lost
	manners
)

// highest is the priority that no other outranks.
const highest priority.Level = 30

// dice draw what is random.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func (d dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)+1))
}

// draw makes up a request. Whatever can meet in a cluster is in it, the odd things
// more often than there.
func draw(r *rand.Rand, tempo float64, readers, calm int) wish {
	d := dice{r}
	w := wish{guarded: d.chance(40), manner: manner(d.IntN(int(manners)))}
	q := &w.request
	d.terms(q, readers)
	if d.chance(20) {
		w.giveUp = d.between(0, 800*time.Millisecond)
	}
	w.stay = d.stay(tempo)
	if q.Mode == priority.Shared && d.chance(10) { // readers stay, and many at a time
		w.stay = d.between(time.Second, 6*time.Second)
	}
	if d.chance(calm) { // what is cut off is held to the end of its session, and not taken over
		q.Priority, q.LeaseTimeout, q.Forceful = highest, 20*time.Second, false
	}
	w.soften = q.Mode == priority.Exclusive && d.chance(10)
	w.extend, w.hasty, w.clings = d.chance(5), d.chance(5), d.chance(60)
	return w
}

func (d dice) terms(q *lock.Request, readers int) {
	q.Priority = priority.Level(d.IntN(4)) * highest / 3
	q.LeaseTimeout = d.between(5*time.Second, 20*time.Second)
	if d.chance(30) {
		q.LeaseTimeout = d.between(5*time.Millisecond, 150*time.Millisecond)
	}
	if d.chance(readers) {
		q.Mode = priority.Shared
	}
	if d.chance(60) {
		q.CleanupTimeout = min(d.between(5*time.Millisecond, 250*time.Millisecond), q.LeaseTimeout-time.Millisecond)
	}
	switch {
	case d.chance(20):
		q.WaitingTimeout = new(time.Duration(0))
	case d.chance(40):
		q.WaitingTimeout = new(d.between(10*time.Millisecond, 400*time.Millisecond))
	}
	switch {
	case d.chance(15):
		q.AcquireTimeout = new(time.Duration(0))
	case d.chance(40):
		q.AcquireTimeout = new(d.between(20*time.Millisecond, 5*time.Second))
	}
	q.Forceful = d.chance(40)
	switch {
	case d.chance(5):
		q.MinRuntime = q.LeaseTimeout
	case d.chance(10):
		q.MinRuntime = min(d.between(time.Millisecond, 200*time.Millisecond), q.LeaseTimeout)
	}
	switch {
	case d.chance(5):
		q.NeverPreempts = true
	case d.chance(10):
		q.PreemptDelta = 20
	}
}

// stay is how long the work takes.
func (d dice) stay(tempo float64) time.Duration {
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) * tempo) }
	switch n := d.IntN(100); {
	case n < 45:
		return slow(d.between(0, 8*time.Millisecond))
	case n < 80:
		return slow(d.between(5*time.Millisecond, 60*time.Millisecond))
	case n < 94:
		return slow(d.between(60*time.Millisecond, 500*time.Millisecond))
	default:
		return d.between(500*time.Millisecond, 5*time.Second)
	}
}

// requirement is the request as package lockguard takes it.
func (w *wish) requirement(scope string) lockguard.Requirement {
	q := &w.request
	return lockguard.Requirement{Scope: scope, Owner: q.Owner, Terms: q.Terms}
}

// asked is the request as the judge reads it.
func (w *wish) asked() *history.Request {
	q := &w.request
	return &history.Request{
		Lease: q.LeaseTimeout, Cleanup: q.CleanupTimeout, MinRuntime: q.MinRuntime, Waiting: q.WaitingTimeout,
		Acquire: q.AcquireTimeout, GiveUp: w.giveUp, Delta: q.PreemptDelta, Forceful: q.Forceful, Never: q.NeverPreempts,
	}
}

// String tells all that for people.
func (w *wish) String() string {
	q := &w.request
	var b strings.Builder
	fmt.Fprintf(&b, "lease %s cleanup %s",
		q.LeaseTimeout.Round(time.Millisecond), q.CleanupTimeout.Round(time.Millisecond))
	optional := func(name string, d *time.Duration) {
		if d != nil {
			fmt.Fprintf(&b, " %s %s", name, d.Round(time.Millisecond))
		}
	}
	optional("waiting", q.WaitingTimeout)
	optional("acquire", q.AcquireTimeout)
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{q.Forceful, "forceful"},
		{q.NeverPreempts, "never-preempts"},
		{q.PreemptDelta > 0, "delta"},
		{q.MinRuntime > 0, "min-runtime"},
		{w.soften, "softens"},
		{w.extend, "extends"},
		{w.hasty, "hasty"},
		{w.clings, "clings"},
	} {
		if flag.set {
			b.WriteString(" " + flag.name)
		}
	}
	if w.giveUp > 0 {
		fmt.Fprintf(&b, " gives up after %s", w.giveUp.Round(time.Millisecond))
	}
	fmt.Fprintf(&b, " stays %s, %s",
		w.stay.Round(time.Millisecond), [...]string{"prompt", "punctual", "stubborn"}[w.manner])
	return b.String()
}
