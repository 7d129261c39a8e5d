package priority

import (
	"slices"
	"time"
)

// Judge returns what the waiter of f does at this moment. The holders that
// count are those it conflicts with: all whose mode does not admit its own.
// The first rule that fits rules:
//
//  1. First in line, and no conflict: Grant.
//  2. A try: Refuse. The lock is not free, so it leaves.
//  3. Not first: Wait for an event. Only the first waiter deals with holders.
//  4. Every conflicting holder may be evicted: TakeOver, all of them at once.
//     While one may not, none is: the lock would not become free.
//  5. The patience is over (see below): GiveUp.
//  6. A holder can be preempted: Preempt.
//  7. Otherwise: Wait.
//
// Whom to ask. A holder whose lease has run out is asked for that reason,
// whatever the levels. One whose lease still runs is asked if it is outranked
// and nothing bars that (BarOf): else it is left alone until its lease ends, or
// its minimum runtime if that is the bar. No holder is asked twice for the same
// reason. A holder that was asked as outranked is asked
// again when its lease ends, because that is another right, by which a polite
// request too may take over. It never happens the other way round: one asked
// for its lease is not asked as outranked, for that adds nothing, and the right
// stays even if its lease seems to run again (a preempted holder
// cannot extend it, so the clocks were corrected).
//
// Outranked holders are asked when every holder in the way has been asked or
// may be, for whatever reason: all at once. While one is left alone the lock is
// not free, so the work of the others would be stopped for nothing. One
// that has outstayed its lease is asked in any case: its time is over.
//
// Who may be evicted. A holder whose grace, counted from one of the waiter's
// asks, is over, if the waiter is forceful or that ask was for the lease. Each
// ask has a grace of its own: a lease that ends does not shorten what was
// promised, nor does it inherit what had passed.
//
// Patience. Only a polite request with a waiting timeout loses it: that long
// after the oldest of its asks to the conflicting holders that are still
// there. Before the first ask it waits as long as it takes. A takeover that is
// due wins over giving up, so with equal timeouts the request gets the lock. A
// forceful request never gives up here: its waiting timeout ends the holder's
// grace instead.
//
// A polite request with the waiting timeout 0 gives up where it would ask. It
// would leave in the same moment, so the holder would be cancelled for
// nothing. The exception is an ask that wins at once: all leases in the way
// have run out, and no holder there needs time to clean up.
//
// Verdict.After is the smallest of: what is left of each grace at whose end a
// holder may be evicted that may not be now, what is left of each lease at
// whose end there is a holder to ask, what is left until the last holder may be
// asked, and what is left of the patience.
//
// Timeouts and times below 0 count as 0. Judge keeps nothing of f and changes
// nothing in it. The order of the holders does not matter.
func Judge(f Facts) Verdict {
	standing := conflicts(f)
	switch {
	case f.First && len(standing) == 0:
		return Verdict{Action: Grant}
	case f.Request.Try:
		return Verdict{Action: Refuse}
	case !f.First:
		return Verdict{Action: Wait, After: Never}
	case evictable(f.Request, standing):
		return Verdict{Action: TakeOver}
	}

	asks := due(f.Request, standing)
	sent := send(asks, standing)
	won := evictable(f.Request, sent) // as soon as the asks are sent
	left, counting := patience(f.Request, sent)
	switch {
	case counting && left == 0 && !won:
		return Verdict{Action: GiveUp}
	case won:
		return Verdict{Action: Preempt, Asks: asks}
	case len(asks) > 0:
		return Verdict{Action: Preempt, Asks: asks, After: nextLook(f.Request, sent)}
	}
	return Verdict{Action: Wait, After: nextLook(f.Request, sent)}
}

// conflict is a holder in the waiter's way.
type conflict struct {
	Holder
	index int // in Facts.Holders
}

func conflicts(f Facts) []conflict {
	var found []conflict
	for i, h := range f.Holders {
		if !f.Request.Mode.Admits(h.Mode) {
			found = append(found, conflict{h, i})
		}
	}
	return found
}

// due returns the asks that are to be sent now.
func due(r Request, standing []conflict) []Ask {
	var asks []Ask
	together := allAskableIn(r, standing) == 0
	for _, c := range standing {
		if reason, ok := c.dueReason(r); ok && (together || reason == LeaseExpired) {
			asks = append(asks, Ask{Holder: c.index, Reason: reason, Grace: Grace(reason, r, c.CleanupTimeout)})
		}
	}
	return asks
}

// send returns the conflicts as they are right after the asks were sent.
func send(asks []Ask, standing []conflict) []conflict {
	sent := slices.Clone(standing)
	for i, c := range sent {
		for _, a := range asks {
			if a.Holder == c.index {
				// Concat, not append: the caller's array is not written to.
				sent[i].Asked = slices.Concat(c.Asked, []Asked{{Reason: a.Reason}})
			}
		}
	}
	return sent
}

func evictable(r Request, all []conflict) bool {
	return !slices.ContainsFunc(all, func(c conflict) bool { return !c.evictable(r) })
}

// patience returns what is left of the waiting timeout, 0 at least, and whether
// it counts at all.
func patience(r Request, all []conflict) (left time.Duration, counting bool) {
	if r.Forceful || r.WaitingTimeout == nil {
		return 0, false
	}
	var oldest time.Duration
	for _, c := range all {
		for _, a := range c.Asked {
			counting = true
			oldest = max(oldest, a.Ago)
		}
	}
	return max(max(*r.WaitingTimeout, 0)-oldest, 0), counting
}

// nextLook returns when time alone changes something for the waiter.
func nextLook(r Request, all []conflict) time.Duration {
	look := Never
	sooner := func(d time.Duration) {
		if look == Never || d < look {
			look = d
		}
	}
	for _, c := range all {
		if c.LeaseLeft > 0 && !c.asked(LeaseExpired) {
			sooner(c.LeaseLeft)
		}
		if c.evictable(r) {
			continue
		}
		for _, a := range c.Asked {
			if a.Reason.evicts(r) {
				sooner(c.graceLeft(r, a))
			}
		}
	}
	if left := allAskableIn(r, all); left > 0 {
		sooner(left)
	}
	if left, counting := patience(r, all); counting {
		sooner(left)
	}
	return look
}

func (c conflict) dueReason(r Request) (Reason, bool) {
	switch {
	case c.asked(LeaseExpired):
		return "", false
	case c.LeaseLeft <= 0:
		return LeaseExpired, true
	case BarOf(r, c.Holder) == NoBar && !c.asked(Outranked):
		return Outranked, true
	}
	return "", false
}

func (c conflict) asked(reason Reason) bool {
	return slices.ContainsFunc(c.Asked, func(a Asked) bool { return a.Reason == reason })
}

func (c conflict) evictable(r Request) bool {
	return slices.ContainsFunc(c.Asked, func(a Asked) bool {
		return a.Reason.evicts(r) && c.graceLeft(r, a) == 0
	})
}

func (c conflict) graceLeft(r Request, a Asked) time.Duration {
	return max(Grace(a.Reason, r, c.CleanupTimeout)-max(a.Ago, 0), 0)
}
