package inspect

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Plan is what becomes of a request if from the moment of a LockState on no
// client acts on its own accord: no holder releases before it is made to, no
// other request comes or leaves. A release brings everything forward.
//
// It follows from that state alone: making it sends nothing to ZooKeeper.
type Plan struct {
	Scope string
	At    time.Time // of the look, by the server's clock; zero when no request is there

	// Outcome is how it ends, After when, counted from At. It is 0 with
	// OutcomeInLine.
	Outcome Outcome
	After   time.Duration

	// Position is the place in the queue: 1 is next in line. 0: the request does
	// not queue (OutcomeGranted at once, OutcomeRefused).
	Position int

	// Ahead are the waiters that come before it, Behind those that it comes
	// before, both in the order of the queue.
	Ahead, Behind []lock.Contender

	// Beside are the holders that it shares the lock with, Obstacles those in
	// its way.
	Beside    []lock.Contender
	Obstacles []Obstacle
}

// An Obstacle is a holder in the way of a request.
type Obstacle struct {
	Holder lock.Contender

	// Bar is what keeps the request now from preempting this holder for its
	// priority; priority.NoBar: nothing does. While one obstacle has a bar and a
	// lease that still runs, the others are not asked for their priority either.
	Bar priority.Bar

	// Asks are the preemptions that it is going to be sent, in order: at
	// most one for each reason, without those that stand already
	// (Holder.PreemptedBy). None with OutcomeInLine and OutcomeRefused, for
	// only the first in line asks, and a try never does.
	Asks []PlannedAsk
}

// PlannedAsk is a preemption of a holder that is going to be sent.
type PlannedAsk struct {
	Reason priority.Reason
	After  time.Duration // from Plan.At on; 0: at once
	Grace  time.Duration // how long the holder may then clean up
}

// An Outcome is how a Plan ends.
type Outcome string

// The outcomes of a Plan.
const (
	OutcomeGranted   Outcome = "granted"    // without any holder's consent: at once, or as soon as no lock-delay bars it
	OutcomeRefused   Outcome = "refused"    // a try (acquire timeout 0) that is not granted at once
	OutcomeInLine    Outcome = "in_line"    // it waits behind others, who act first: Plan.Ahead
	OutcomeTakesOver Outcome = "takes_over" // it evicts the obstacles, if they have not left by then
	// it is polite, and its waiting timeout ends before the cleanup of an obstacle
	OutcomeGivesUp  Outcome = "gives_up"
	OutcomeTimesOut Outcome = "times_out" // its acquire timeout ends first
)

// PlanFor returns what would become of r if it were made at s.At.
func PlanFor(s lock.State, r lock.Request) Plan {
	at := slices.IndexFunc(s.Waiters, func(c lock.Contender) bool { return r.Priority.Outranks(c.Priority) })
	if at < 0 {
		at = len(s.Waiters)
	}
	return scene{s}.plan(rulesOf(r.Terms, r.Patient), s.Waiters[:at], s.Waiters[at:], "", r.AcquireTimeout)
}

// PlanOf returns what will become of a waiter: why it does not preempt yet, and
// when it will. Its acquire timeout is not known to s, and not heeded. It
// returns false when none of s.Waiters has this ID.
func PlanOf(s lock.State, id string) (Plan, bool) {
	at := slices.IndexFunc(s.Waiters, func(c lock.Contender) bool { return c.ID == id })
	if at < 0 {
		return Plan{}, false
	}
	return scene{s}.plan(rulesOf(s.Waiters[at].Terms, s.Waiters[at].Patient), s.Waiters[:at], s.Waiters[at+1:], id, nil),
		true
}

// plan foresees a request with a place between two waiters. id is "" before it
// is made.
func (s scene) plan(r priority.Request, ahead, behind []lock.Contender, id string, limit *time.Duration) Plan {
	p := Plan{Scope: s.Scope, At: s.At, Position: len(ahead) + 1}
	p.Ahead, p.Behind = append(p.Ahead, ahead...), append(p.Behind, behind...)
	f := priority.Facts{Request: r, First: len(ahead) == 0}
	if id == "" && r.Mode == priority.Shared { // a newcomer may come in beside readers, past readers that wait
		f.First = !slices.ContainsFunc(ahead, func(c lock.Contender) bool { return c.Mode != priority.Shared })
	}
	f.Request.Try = limit != nil && *limit == 0
	for _, h := range s.Holders {
		if r.Mode.Admits(h.Mode) {
			p.Beside = append(p.Beside, h)
			continue
		}
		held := s.held(h, id)
		f.Holders = append(f.Holders, held)
		p.Obstacles = append(p.Obstacles, Obstacle{Holder: h, Bar: priority.BarOf(r, held)})
	}
	forecast := priority.Foresee(f)
	p.After = forecast.After
	delay := s.Delay(r.Mode)
	switch forecast.End {
	case priority.Grant:
		p.Outcome, p.Position = OutcomeGranted, 0
		if delay > 0 && f.Request.Try {
			p.Outcome = OutcomeRefused
		} else if delay > p.After {
			p.After, p.Position = delay, len(ahead)+1
		}
	case priority.Refuse:
		p.Outcome, p.Position = OutcomeRefused, 0
	case priority.TakeOver:
		p.Outcome = OutcomeTakesOver
		p.After = max(p.After+lockDelay(p.Obstacles), delay)
	case priority.GiveUp:
		p.Outcome = OutcomeGivesUp
	default:
		p.Outcome = OutcomeInLine
	}
	if limit != nil && *limit > 0 && *limit < p.After {
		p.Outcome, p.After = OutcomeTimesOut, *limit
	}
	for _, ask := range forecast.Asks {
		if ask.After <= p.After {
			o := &p.Obstacles[ask.Holder]
			o.Asks = append(o.Asks, PlannedAsk{Reason: ask.Reason, After: ask.After, Grace: ask.Grace})
		}
	}
	return p
}

// lockDelay is how long the eviction of all these delays the lock.
func lockDelay(evicted []Obstacle) time.Duration {
	var delay time.Duration
	for _, o := range evicted {
		delay = max(delay, o.Holder.LockDelay)
	}
	return delay
}

// held hands the rulebook a holder, as the waiter with this id sees it.
func (s scene) held(h lock.Contender, id string) priority.Holder {
	held := priority.Holder{
		Level: h.Priority, Mode: h.Mode, CleanupTimeout: h.CleanupTimeout,
		Remaining: h.Remaining,
	}
	for _, n := range h.PreemptedBy {
		if n.ID == id {
			held.Asked = append(held.Asked, priority.Asked{Reason: n.Reason, Ago: s.At.Sub(n.At)})
		}
	}
	return held
}

// rulesOf is what the rulebook needs to know of a request. A patient one goes on waiting when its waiting
// timeout is over, unless an operator decides otherwise.
func rulesOf(t priority.Terms, patient bool) priority.Request {
	if patient && !t.Forceful {
		t.WaitingTimeout = nil
	}
	return priority.Request{
		Level: t.Priority, Mode: t.Mode, WaitingTimeout: t.WaitingTimeout, Forceful: t.Forceful,
		PreemptDelta: t.PreemptDelta, NeverPreempts: t.NeverPreempts,
	}
}
