package recipes

import (
	"slices"
	"time"
)

// A Prospect is what becomes of a waiter if from the moment of a LockState on
// nobody does anything on his own accord. It is what Plan is for the first in
// line, continued: those behind it wait for whoever got the lock before them,
// until their right to it comes. A release brings everything forward, and a
// newcomer may put everything off.
type Prospect struct {
	Waiter Contender

	// Outcome is how it ends, After when, counted from LockState.At:
	// OutcomeGranted (beside those who share the lock by then, or because it is
	// free), OutcomeTakesOver, OutcomeGivesUp or OutcomeTimesOut.
	// OutcomeInLine: that does not follow.
	Outcome Outcome
	After   time.Duration

	// Asks are the requests to go that it is going to send, in order, without
	// those that stand already. Some may be to waiters, who are holders by then.
	Asks []ProspectAsk

	// Overdue is by how much its waiting timeout is over while it has not left:
	// it is Patient, and somebody is to decide. It is then foreseen as if it had
	// no waiting timeout.
	Overdue time.Duration
}

// A ProspectAsk is a request to go that is going to be sent.
type ProspectAsk struct {
	Holder Contender
	PlannedAsk
}

// staying is how long after its waiting timeout a request that is not Patient
// may still be seen.
const staying = 2 * time.Second

// Outlook foresees what becomes of the waiters, in the order of the queue.
func (s LockState) Outlook() []Prospect {
	prospects := make([]Prospect, len(s.Waiters))
	index := make(map[string]int, len(s.Waiters))
	for i, w := range s.Waiters {
		prospects[i] = Prospect{Waiter: w, Outcome: OutcomeInLine, Overdue: s.overdue(w)}
		index[w.ID] = i
	}
	start := s.At
	s.Holders, s.Waiters = slices.Clone(s.Holders), slices.Clone(s.Waiters)
	for i := range s.Waiters {
		if prospects[i].Overdue > 0 {
			s.Waiters[i].WaitingTimeout = nil
		}
	}
	for len(s.Waiters) > 0 {
		first := s.Waiters[0]
		p := s.plan(first.rules(), nil, nil, first.ID, nil)
		if p.Outcome == OutcomeInLine {
			break // does not happen to the first
		}
		leaver, outcome, step := 0, p.Outcome, p.After
		if late, left, ok := s.firstToTimeOut(); ok && left < step {
			leaver, outcome, step = late, OutcomeTimesOut, left
		}
		passed := s.At.Sub(start)
		mine := &prospects[index[first.ID]]
		mine.Asks = append(mine.Asks, s.sent(first, p, step, passed)...)
		s.pass(step)
		w := s.Waiters[leaver]
		done := &prospects[index[w.ID]]
		done.Outcome, done.After = outcome, passed+step
		switch outcome {
		case OutcomeTakesOver:
			s.Holders = slices.DeleteFunc(s.Holders, func(h Contender) bool { return !w.Mode.Admits(h.Mode) })
			s.admit(w)
		case OutcomeGranted:
			s.admit(w)
		case OutcomeGivesUp, OutcomeTimesOut, OutcomeRefused, OutcomeInLine:
			s.forget(w.ID)
		}
		s.Waiters = slices.Delete(s.Waiters, leaver, leaver+1)
	}
	return prospects
}

// overdue returns by how much the waiting timeout of a polite waiter is over.
func (s LockState) overdue(w Contender) time.Duration {
	if w.Forceful || w.WaitingTimeout == nil {
		return 0
	}
	var over time.Duration
	for _, h := range s.Holders {
		for _, n := range h.PreemptedBy {
			if n.ID == w.ID {
				over = max(over, s.At.Sub(n.At)-*w.WaitingTimeout)
			}
		}
	}
	if over < staying {
		return 0
	}
	return over
}

// firstToTimeOut returns the waiter whose acquire timeout ends first, and in how
// long.
func (s LockState) firstToTimeOut() (at int, left time.Duration, found bool) {
	for i, w := range s.Waiters {
		if w.AcquireTimeout == nil {
			continue
		}
		if l := max(w.Joined.Add(*w.AcquireTimeout).Sub(s.At), 0); !found || l < left {
			at, left, found = i, l, true
		}
	}
	return at, left, found
}

// sent puts what the first in line asks within step into the mailboxes, and
// returns it.
func (s *LockState) sent(first Contender, p Plan, step, passed time.Duration) []ProspectAsk {
	var asks []ProspectAsk
	for _, o := range p.Obstacles {
		h := &s.Holders[slices.IndexFunc(s.Holders, func(h Contender) bool { return h.ID == o.Holder.ID })]
		for _, ask := range o.Asks {
			if ask.After > step {
				continue
			}
			h.PreemptedBy = append(slices.Clone(h.PreemptedBy), Preemptor{
				ID: first.ID, Owner: first.Owner, Priority: first.Priority, Reason: ask.Reason,
				Forceful: first.Forceful, Grace: ask.Grace, At: s.At.Add(ask.After),
			})
			ask.After += passed
			asks = append(asks, ProspectAsk{Holder: o.Holder, PlannedAsk: ask})
		}
	}
	slices.SortStableFunc(asks, func(a, b ProspectAsk) int { return int(a.After - b.After) })
	return asks
}

// pass lets time pass for the holders.
func (s *LockState) pass(d time.Duration) {
	s.At = s.At.Add(d)
	if d > 0 { // those that had not begun are over as well, for whoever has waited for them
		s.Delays = slices.DeleteFunc(slices.Clone(s.Delays), func(x Delay) bool { return !x.Until.After(s.At) })
	}
	for i := range s.Holders {
		h := &s.Holders[i]
		h.LeaseLeft, h.MinRuntimeLeft = max(h.LeaseLeft-d, 0), max(h.MinRuntimeLeft-d, 0)
	}
}

// admit makes a waiter a holder.
func (s *LockState) admit(w Contender) {
	w.Since, w.LeaseLeft, w.MinRuntimeLeft, w.Position = s.At, w.LeaseTimeout, w.MinRuntime, 0
	s.Holders = append(s.Holders, w)
	s.forget(w.ID)
}

// forget drops what a waiter has asked for that waits no more.
func (s *LockState) forget(id string) {
	for i := range s.Holders {
		h := &s.Holders[i]
		h.PreemptedBy = slices.DeleteFunc(slices.Clone(h.PreemptedBy), func(n Preemptor) bool { return n.ID == id })
	}
}
