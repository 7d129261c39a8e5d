package inspect

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Prospect is what becomes of a waiter if from the moment of a LockState on
// no client acts on its own accord. It is what Plan is for the first in line,
// continued: those behind it wait for the ones that got the lock before them,
// until they may preempt those. A release brings everything forward, and a
// newcomer may delay everything.
type Prospect struct {
	Waiter lock.Contender

	// Outcome is how it ends, After when, counted from LockState.At:
	// OutcomeGranted (beside those who share the lock by then, or because it is
	// free), OutcomeTakesOver, OutcomeGivesUp or OutcomeTimesOut.
	// OutcomeInLine: that does not follow.
	Outcome Outcome
	After   time.Duration

	// Asks are the preemptions that it is going to send, in order, without
	// those that stand already. Some may be to waiters, who are holders by then.
	Asks []ProspectAsk

	// Overdue is by how much its waiting timeout is over while it has not left: it
	// is Patient, and waits for a decision. It is then foreseen as if it had no
	// waiting timeout.
	Overdue time.Duration
}

// A ProspectAsk is a preemption that is going to be sent.
type ProspectAsk struct {
	Holder lock.Contender
	PlannedAsk
}

// staying is how long after its waiting timeout a request that is not Patient
// may still be seen.
const staying = 2 * time.Second

// Outlook foresees what becomes of the waiters, in the order of the queue. It
// takes a time that grows with the number of requests, not with its square.
func Outlook(state lock.State) []Prospect {
	s := scene{state}
	prospects := make([]Prospect, len(s.Waiters))
	start := s.At
	s.Holders, s.Waiters = slices.Clone(s.Holders), slices.Clone(s.Waiters)
	asked := map[string]bool{} // who has a preemption in a holder's mailbox
	for _, h := range s.Holders {
		for _, n := range h.PreemptedBy {
			asked[n.ID] = true
		}
	}
	for i, w := range s.Waiters {
		prospects[i] = Prospect{Waiter: w, Outcome: OutcomeInLine}
		if asked[w.ID] {
			prospects[i].Overdue = s.overdue(w)
		}
		if prospects[i].Overdue > 0 {
			s.Waiters[i].WaitingTimeout = nil
		}
	}
	late := s.timeouts()
	gone := make([]bool, len(s.Waiters))
	for at := 0; ; {
		for at < len(gone) && gone[at] {
			at++
		}
		for len(late) > 0 && gone[late[0].waiter] {
			late = late[1:]
		}
		if at == len(gone) {
			return prospects
		}
		first := s.Waiters[at]
		p := s.planOfFirst(first)
		if p.Outcome == OutcomeInLine {
			return prospects // does not happen to the first
		}
		leaver, outcome, step := at, p.Outcome, p.After
		if len(late) > 0 && late[0].at.Sub(s.At) < step {
			leaver, outcome, step = late[0].waiter, OutcomeTimesOut, late[0].at.Sub(s.At)
		}
		passed := s.At.Sub(start)
		for _, ask := range s.sent(first, p, step, passed) {
			prospects[at].Asks = append(prospects[at].Asks, ask)
			asked[first.ID] = true
		}
		s.pass(step)
		w := s.Waiters[leaver]
		gone[leaver] = true
		prospects[leaver].Outcome, prospects[leaver].After = outcome, passed+step
		switch outcome {
		case OutcomeTakesOver:
			s.Holders = slices.DeleteFunc(s.Holders, func(h lock.Contender) bool { return !w.Mode.Admits(h.Mode) })
			s.admit(w)
		case OutcomeGranted:
			s.admit(w)
		case OutcomeGivesUp, OutcomeTimesOut, OutcomeRefused, OutcomeInLine:
		}
		if asked[w.ID] {
			s.forget(w.ID)
		}
	}
}

// planOfFirst is the plan of the first in line. A reader among readers has no
// holder in its way, however many they are.
func (s *scene) planOfFirst(first lock.Contender) Plan {
	if first.Mode == priority.Shared && len(s.Delays) == 0 &&
		!slices.ContainsFunc(s.Holders, func(h lock.Contender) bool { return h.Mode != priority.Shared }) {
		return Plan{Outcome: OutcomeGranted}
	}
	return s.plan(rulesOf(first.Terms, first.Patient), nil, nil, first.ID, nil)
}

// A timeout is when a waiter leaves.
type timeout struct {
	waiter int
	at     time.Time
}

// timeouts returns when waiters leave, the first one first. For one that should
// have left that is now.
func (s scene) timeouts() []timeout {
	var all []timeout
	for i, w := range s.Waiters {
		if w.AcquireTimeout == nil {
			continue
		}
		at := w.Joined.Add(*w.AcquireTimeout)
		if at.Before(s.At) {
			at = s.At
		}
		all = append(all, timeout{i, at})
	}
	slices.SortStableFunc(all, func(a, b timeout) int { return a.at.Compare(b.at) })
	return all
}

// overdue returns by how much the waiting timeout of a polite waiter is over.
func (s scene) overdue(w lock.Contender) time.Duration {
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

// sent puts what the first in line asks within step into the mailboxes, and
// returns it.
func (s *scene) sent(first lock.Contender, p Plan, step, passed time.Duration) []ProspectAsk {
	var asks []ProspectAsk
	for _, o := range p.Obstacles {
		h := &s.Holders[slices.IndexFunc(s.Holders, func(h lock.Contender) bool { return h.ID == o.Holder.ID })]
		for _, ask := range o.Asks {
			if ask.After > step {
				continue
			}
			h.PreemptedBy = append(slices.Clone(h.PreemptedBy), lock.Preemptor{
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
func (s *scene) pass(d time.Duration) {
	s.At = s.At.Add(d)
	if d == 0 {
		return
	}
	if len(s.Delays) > 0 { // those that had not begun are over as well, for the request that has waited for them
		s.Delays = slices.DeleteFunc(slices.Clone(s.Delays), func(x lock.Delay) bool { return !x.Until.After(s.At) })
	}
	for i := range s.Holders {
		h := &s.Holders[i]
		h.Remaining = h.Later(d)
	}
}

// admit makes a waiter a holder.
func (s *scene) admit(w lock.Contender) {
	w.Since, w.Remaining, w.Position = s.At, w.Granted(), 0
	s.Holders = append(s.Holders, w)
}

// forget drops what a waiter has asked for that waits no more.
func (s *scene) forget(id string) {
	for i := range s.Holders {
		h := &s.Holders[i]
		if len(h.PreemptedBy) == 0 {
			continue
		}
		h.PreemptedBy = slices.DeleteFunc(slices.Clone(h.PreemptedBy), func(n lock.Preemptor) bool { return n.ID == id })
	}
}

// A scene is a lock's state that time goes on in.
type scene struct{ lock.State }
