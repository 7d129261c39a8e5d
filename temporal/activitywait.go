package temporal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	// parkAfter is how long an attempt waits before it lends out its slot: most
	// have their lock by then.
	parkAfter = 10 * time.Millisecond

	// parkAgain is how soon an attempt tries again to be parked, when
	// there are as many as there may be.
	parkAgain = time.Second

	// adoptTime is how long it may take to take a place over from where it is kept:
	// an attempt does not yield earlier.
	adoptTime = 2 * time.Second

	// joinTime is how long an attempt that yields waits until its request stands
	// in the queue.
	joinTime = time.Second
)

// errOutOfTime is why an attempt gives up that has no time left to run.
var errOutOfTime = errors.New("the timeouts of the activity leave no time to wait on")

// acquire waits for the lock as the declaration says. When the attempt is to
// yield, the error says so to Temporal. The context is that of the Hold; nil for
// a local activity.
func (a *locked) acquire() (*lockguard.Hold, *bidContext, error) {
	if a.isTry() {
		ctx := newBidContext(a.ctx)
		hold, err := a.host.plugin.guard.AcquireAll(ctx, a.trying())
		return hold, ctx, err
	}
	w := &wait{locked: a, stops: a.host.stops(), unpark: func() {}}
	defer func() { w.unpark() }()
	w.bid, w.ctx = a.firstBid()
	hold, err := w.run()
	return hold, w.ctx, err
}

func (a *locked) isTry() bool {
	patience := a.lock.patience()
	return a.lock.OnBusy == BusySkip || a.info.IsLocalActivity || patience != nil && *patience == 0
}

// trying are the requirements of an attempt that does not wait.
func (a *locked) trying() []lockguard.Requirement {
	requirements := slices.Clone(a.requirements)
	for i := range requirements {
		requirements[i].AcquireTimeout = new(time.Duration(0))
	}
	return requirements
}

// isBusy reports whether another holder has the lock.
func isBusy(err error) bool {
	late, ok := errors.AsType[*lock.NotAcquiredError](err)
	return ok && late.Err == nil || errors.As(err, new(*lock.QueueFullError)) ||
		errors.As(err, new(*lockguard.FrozenError))
}

// firstBid goes on where the attempt before has yielded, or asks anew.
func (a *locked) firstBid() (bid, *bidContext) {
	ref, r := a.slip.Reference, a.requirements
	// declared otherwise since
	if ref == (lockguard.Reference{}) || len(r) > 1 || ref.Scope != r[0].Scope || ref.Mode != r[0].Mode {
		a.slip.Reference = lockguard.Reference{}
		return a.newBid()
	}
	ctx := newBidContext(a.since())
	return newPledge(&ref, func() (*lockguard.Hold, error) {
		return a.host.plugin.guard.Adopt(ctx, a.requirements[0], ref)
	}), ctx
}

func (a *locked) newBid() (bid, *bidContext) {
	ctx := newBidContext(a.since())
	requirements := slices.Clone(a.requirements)
	for i := range requirements {
		if requirements[i].AcquireTimeout != nil {
			requirements[i].AcquireTimeout = new(max(a.patience(), time.Millisecond))
		}
	}
	if len(requirements) > 1 {
		return newPledge(nil, func() (*lockguard.Hold, error) { return a.host.plugin.guard.AcquireAll(ctx, requirements) }),
			ctx
	}
	requirements[0].Hold = "activity-" + rand.Text() // so that the next attempt can take it over
	return a.host.plugin.guard.Enqueue(ctx, requirements[0]), ctx
}

// since is the context of the attempt, for observers with the time since which
// the execution waits.
func (a *locked) since() context.Context {
	return lockguard.WaitingSince(a.ctx, a.began.Add(-a.waited()))
}

// waited is how long the attempts before have waited, on the server's clock.
func (a *locked) waited() time.Duration {
	if a.slip.Since.IsZero() {
		return 0
	}
	return max(0, a.info.StartedTime.Sub(a.slip.Since))
}

// patience is how long the attempts may still wait, if that is bounded.
func (a *locked) patience() time.Duration {
	return *a.lock.patience() - a.waited() - time.Since(a.began)
}

// A wait is the time in which an attempt waits in its slot.
type wait struct {
	*locked
	bid    bid
	ctx    *bidContext
	stops  <-chan struct{}
	unpark func()
}

func (w *wait) run() (*lockguard.Hold, error) {
	due := w.startTimers()
	defer due.stop()
	for {
		select {
		case <-w.bid.Done():
			hold, err := w.bid.Hold()
			if w.isLapsed(err) {
				w.bid, w.ctx = w.newBid()
				if w.lock.OnBusy == BusyRetry {
					due.yield.set(parkAfter)
				}
				continue
			}
			return hold, err
		case <-w.locked.ctx.Done():
			return nil, w.withdraw(context.Cause(w.locked.ctx))
		case <-w.stops:
			w.stops = nil
			if err := w.yield(ErrTypeLockHandover, handoverDelay, worker.ErrWorkerShutdown); err != nil {
				return nil, err
			}
		case <-due.park.c():
			var full bool
			if w.unpark, full = w.host.slots.park(w.info.TaskQueue); full {
				due.park.set(parkAgain)
			}
		case <-due.yield.c():
			if err := w.yield(ErrTypeLockBusy, w.lock.retryDelay(w.slip.Yields), nil); err != nil {
				return nil, err
			}
			if w.mayYield(ErrTypeLockBusy, w.lock.retryDelay(w.slip.Yields)) { // it could not be told
				due.yield.set(w.lock.inSlotWait())
			}
		case <-due.patience.c():
			return nil, w.withdraw(w.failure(ErrTypeLockWaitTimeout,
				fmt.Sprintf("was not acquired within %s", *w.lock.patience()), nil, forGood))
		case <-due.end.c():
			if err := w.yield(ErrTypeLockBusy, w.lock.retryDelay(w.slip.Yields), errOutOfTime); err != nil {
				return nil, err
			}
			return nil, w.withdraw(w.failure(ErrTypeLockWaitTimeout, "was not acquired", errOutOfTime))
		}
	}
}

// inSlot is how long the attempt waits before it yields.
func (w *wait) inSlot(d time.Duration) time.Duration {
	if _, kept := w.bid.(*pledge); kept {
		return max(d, adoptTime)
	}
	return d
}

// isLapsed reports whether the place that was kept is gone, or names none, and
// forgets it.
func (w *wait) isLapsed(err error) bool {
	if w.slip.Reference == (lockguard.Reference{}) || !isNotThere(err) && !errors.As(err, new(*lockguard.RequestError)) {
		return false
	}
	w.slip.Reference = lockguard.Reference{}
	return true
}

// withdraw takes the request back, and returns why.
func (w *wait) withdraw(why error) error {
	w.ctx.end(why)
	<-w.bid.Done()
	if hold, err := w.bid.Hold(); err == nil {
		_ = hold.Release(w.ctx)
	}
	return why
}

// yield ends the attempt so that another one follows, which finds the place in
// the queue that is kept for it. nil: the attempt goes on.
func (w *wait) yield(errorType string, delay time.Duration, cause error) error {
	if !w.mayYield(errorType, delay) {
		return nil
	}
	if !w.awaitJoin() {
		return nil
	}
	next := slip{Since: w.slip.Since, Yields: w.slip.Yields + 1}
	if next.Since.IsZero() {
		next.Since = w.info.StartedTime
	}
	reserved, yields := w.reserve(&next, errorType == ErrTypeLockBusy && cause == nil)
	if !yields {
		return nil
	}
	if err := w.pulse.leave(next); err != nil || closed(w.bid.Done()) || reserved && !w.ctx.loosen() {
		w.pulse.take()
		if reserved {
			w.host.tickets.free()
		}
		return nil
	}
	why := w.failure(errorType, fmt.Sprintf("is busy since %s", (w.waited()+time.Since(w.began)).Round(time.Millisecond)),
		cause, again(delay))
	if !reserved {
		return w.withdraw(why)
	}
	p := w.host.plugin
	ticket := parkedTicket{bid: w.bid, ctx: w.ctx, info: w.info, window: p.claimWindow, logger: p.logger}
	if w.pulse.token != nil {
		ticket.look = looker(w.client, w.info)
	}
	w.host.tickets.keep(w.host.background(), ticket)
	return why
}

// awaitJoin waits until the request stands in the queue, not for long. It
// returns false when the activity has ended.
func (w *wait) awaitJoin() bool {
	join := time.NewTimer(joinTime)
	defer join.Stop()
	select {
	case <-w.bid.Joined():
	case <-w.bid.Done():
	case <-w.locked.ctx.Done():
		return false
	case <-join.C:
	}
	return true
}

// reserve makes next refer to the place in the queue, if it will be kept:
// elsewhere, or here under the ticket that is reserved then. It returns whether
// the attempt yields; one that is only busy goes on when no more places can be
// kept.
func (w *wait) reserve(next *slip, busy bool) (reserved, yields bool) {
	ref, known := w.bid.Reference()
	_, kept := w.bid.(*pledge) // elsewhere
	switch {
	case closed(w.bid.Done()):
		return false, false // granted, or refused
	case known && kept:
		next.Reference = ref
	case known && w.host.tickets.reserve(w.host.plugin.maxTickets):
		next.Reference = ref
	case known && w.lock.OnBusy == BusyHybrid && busy:
		return false, false // as many places are kept as may be
	}
	return next.Reference != (lockguard.Reference{}) && !kept, true
}

// mayYield reports whether another attempt will follow one that fails so.
func (a *locked) mayYield(errorType string, delay time.Duration) bool {
	if a.pulse == nil || a.ctx.Err() != nil {
		return false
	}
	if a.lock.patience() != nil && a.patience() <= delay {
		return false
	}
	policy := a.info.RetryPolicy
	switch {
	case policy == nil: // of a server that does not tell, or of a test environment
		return a.lock.OnBusy == BusyRetry
	case policy.MaximumAttempts > 0 && a.info.Attempt >= policy.MaximumAttempts:
		return false
	case slices.Contains(policy.NonRetryableErrorTypes, errorType):
		return false
	}
	if total := a.info.ScheduleToCloseTimeout; total > 0 {
		gone := a.info.StartedTime.Sub(a.info.ScheduledTime) + time.Since(a.began)
		return total-gone > delay+safetyMargin+a.lock.cleanup()
	}
	return true
}
