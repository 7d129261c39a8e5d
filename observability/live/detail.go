package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Ref names a request.
type Ref struct {
	ID       string         `json:"id"`
	Owner    string         `json:"owner"`
	Scope    string         `json:"scope"`
	State    string         `json:"state"` // holds or waits
	Priority priority.Level `json:"priority"`
	Token    lock.Token     `json:"token"`    // 0 while it waits
	Position int            `json:"position"` // 0 while it holds
}

// A LockDetail is a lock, and what is foreseen of it.
type LockDetail struct {
	Scope   string         `json:"scope"`
	State   string         `json:"state"` // held, free or delayed: free, and not to be had yet
	Mode    *priority.Mode `json:"mode"`  // null without a holder
	Holders []HolderDetail `json:"holders"`
	Waiters []WaiterDetail `json:"waiters"`
	Delays  []Delay        `json:"delays,omitempty"`
	Evicted []Eviction     `json:"evicted"` // lately
	Foreign []string       `json:"foreign"` // nodes that are no requests
}

// A HolderDetail is a holder, and what follows from its times.
type HolderDetail struct {
	Holder
	HeldFor      int64      `json:"held_for_ms"`
	LeaseUsed    int64      `json:"lease_used_percent"`
	LeaseEnds    *time.Time `json:"lease_ends"`      // null: it is over
	PeaceEnds    *time.Time `json:"protected_until"` // from being asked for a priority; null: it is not protected
	WorkWaitsFor []Ref      `json:"work_waits_for"`  // requests for other locks by the same work
}

// A WaiterDetail is a waiter, who is in its way, and what becomes of it.
type WaiterDetail struct {
	Waiter
	WaitingFor int64      `json:"waiting_for_ms"`
	Obstacles  []Obstacle `json:"obstacles"` // the holders in its way; asks are those that it is going to send
	Behind     []Ref      `json:"behind"`    // waiters that come before it; of many, those right before it
	Prospect   Prospect   `json:"prospect"`
}

// A Prospect is what becomes of a waiter without intervention.
type Prospect struct {
	Outcome string        `json:"outcome"` // granted, takes_over, gives_up, times_out or in_line: that does not follow
	After   int64         `json:"after_ms"`
	At      *time.Time    `json:"at"` // null with in_line
	Asks    []ProspectAsk `json:"asks"`
	Overdue int64         `json:"overdue_ms"` // its waiting timeout is over by this, and it waits for an approval
}

// A ProspectAsk is a preemption that is going to be sent.
type ProspectAsk struct {
	Holder string    `json:"holder"` // its ID
	Owner  string    `json:"owner"`
	At     time.Time `json:"at"`
	Ask
}

// An Eviction is a holder from which the lock was taken.
type Eviction struct {
	ID       string          `json:"id"`
	Owner    string          `json:"owner"`
	By       string          `json:"by"`
	Reason   priority.Reason `json:"reason"` // outranked or lease; "": the lock was broken
	Override *lock.Mark      `json:"override"`
	Why      string          `json:"why"` // it was broken
	At       *time.Time      `json:"at"`  // about; null: not known
}

// An Obstacle is a holder in the way.
type Obstacle struct {
	Holder Holder `json:"holder"`
	// what keeps the request from preempting it: level, preempt_delta, min_runtime or never_preempts
	Bar  string `json:"bar"`
	Asks []Ask  `json:"asks"` // the preemptions that it would be sent
}

// An Ask is a preemption of a holder.
type Ask struct {
	Reason priority.Reason `json:"reason"` // outranked or lease
	After  int64           `json:"after_ms"`
	Grace  int64           `json:"grace_ms"`
}

// ManyEdges is how many of those that a request waits for, or stands behind, are
// listed: with all of them the answer would grow with the square of the queue.
const ManyEdges = 100

// An Edge says that one request cannot go on before another one does.
type Edge struct {
	From Ref                `json:"from"`
	To   Ref                `json:"to"`
	Why  inspect.WaitReason `json:"why"` // held, ahead, or under: the work of a holder waits for another lock
}

// A Circle is a number of requests that wait for each other.
type Circle struct {
	Deadlock bool       `json:"deadlock"` // no priority ends it
	Edges    []Edge     `json:"edges"`
	Cut      Ref        `json:"cut"` // the holder to break
	Command  string     `json:"command"`
	End      *CircleEnd `json:"end"` // null: nothing ends it by itself
}

// A CircleEnd is what ends a circle without intervention.
type CircleEnd struct {
	Cause   inspect.EndCause `json:"cause"`
	At      time.Time        `json:"at"`
	After   int64            `json:"after_ms"`
	Waiter  Ref              `json:"waiter"`
	Holder  *Ref             `json:"holder"` // null: the waiter leaves
	Evicted bool             `json:"evicted"`
}

// Optional returns nil for no time.
func Optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// NewLockDetail is a lock in all detail. g is drawn of all locks that there are.
func NewLockDetail(g inspect.WaitGraph, s lock.State) LockDetail {
	v := LockDetail{
		Scope: s.Scope, State: StateWord(s), Holders: []HolderDetail{}, Waiters: []WaiterDetail{},
		Evicted: []Eviction{}, Foreign: append([]string{}, s.Foreign...),
	}
	for _, h := range s.Holders {
		v.Mode = &h.Mode
		v.Holders = append(v.Holders, NewHolderDetail(g, s, h))
	}
	for _, d := range s.Delays {
		v.Delays = append(v.Delays, newDelay(d))
	}
	for _, p := range inspect.Outlook(s) {
		v.Waiters = append(v.Waiters, NewWaiterDetail(s, p))
	}
	for _, e := range s.Evicted {
		v.Evicted = append(v.Evicted, Eviction{
			ID: e.ID, Owner: e.Owner, By: e.By, Reason: e.Reason, Override: e.Override, Why: e.Why, At: Optional(e.At),
		})
	}
	return v
}

// NewHolderDetail is a holder of a lock.
func NewHolderDetail(g inspect.WaitGraph, s lock.State, h lock.Contender) HolderDetail {
	v := HolderDetail{
		Holder: NewHolder(h), HeldFor: s.At.Sub(h.Since).Milliseconds(),
		LeaseUsed: usedPercent(h.LeaseTimeout-h.LeaseLeft, h.LeaseTimeout), WorkWaitsFor: []Ref{},
	}
	if h.LeaseLeft > 0 {
		v.LeaseEnds = Optional(s.At.Add(h.LeaseLeft))
	}
	if h.MinRuntimeLeft > 0 {
		v.PeaceEnds = Optional(s.At.Add(h.MinRuntimeLeft))
	}
	for _, e := range g.From(h.ID) {
		v.WorkWaitsFor = append(v.WorkWaitsFor, NewRef(e.To))
	}
	return v
}

// NewWaiterDetail is a waiter of a lock, of whom that is foreseen.
func NewWaiterDetail(s lock.State, p inspect.Prospect) WaiterDetail {
	v := WaiterDetail{
		Waiter: NewWaiter(s, p.Waiter), WaitingFor: s.At.Sub(p.Waiter.Joined).Milliseconds(),
		Obstacles: []Obstacle{}, Behind: []Ref{}, Prospect: newProspect(s, p),
	}
	at := p.Waiter.Position - 1 // in the state that it is of
	if plan, ok := inspect.PlanOf(near(s, at), p.Waiter.ID); ok {
		v.Obstacles = append(v.Obstacles, NewObstacles(plan)...)
		for _, a := range plan.Ahead {
			v.Behind = append(v.Behind, NewRef(inspect.WaitNode{Scope: s.Scope, Contender: a}))
		}
	}
	return v
}

// near is a lock without those who stand far from one of its waiters.
func near(s lock.State, at int) lock.State {
	if at < 0 || at >= len(s.Waiters) {
		return s
	}
	s.Waiters = s.Waiters[max(0, at-ManyEdges) : at+1]
	return s
}

func newProspect(s lock.State, p inspect.Prospect) Prospect {
	v := Prospect{
		Outcome: string(p.Outcome), After: p.After.Milliseconds(), Asks: []ProspectAsk{}, Overdue: p.Overdue.Milliseconds(),
	}
	if p.Outcome != inspect.OutcomeInLine {
		v.At = Optional(s.At.Add(p.After))
	}
	for _, a := range p.Asks {
		v.Asks = append(v.Asks, ProspectAsk{
			Holder: a.Holder.ID, Owner: a.Holder.Owner, At: s.At.Add(a.After).UTC(),
			Ask: Ask{Reason: a.Reason, After: a.After.Milliseconds(), Grace: a.Grace.Milliseconds()},
		})
	}
	return v
}

// NewRef names a request of a graph.
func NewRef(n inspect.WaitNode) Ref {
	state := "waits"
	if n.Holds {
		state = "holds"
	}
	return Ref{
		ID: n.ID, Owner: n.Owner, Scope: n.Scope, State: state, Priority: n.Priority, Token: n.Token, Position: n.Position,
	}
}

// NewObstacles are the holders in the way of a request.
func NewObstacles(plan inspect.Plan) []Obstacle {
	views := make([]Obstacle, len(plan.Obstacles))
	for i, o := range plan.Obstacles {
		views[i] = Obstacle{Holder: NewHolder(o.Holder), Bar: string(o.Bar), Asks: make([]Ask, 0, len(o.Asks))}
		for _, a := range o.Asks {
			views[i].Asks = append(views[i].Asks,
				Ask{Reason: a.Reason, After: a.After.Milliseconds(), Grace: a.Grace.Milliseconds()})
		}
	}
	return views
}

// NewEdge is an edge of a graph.
func NewEdge(e inspect.WaitEdge) Edge {
	return Edge{From: NewRef(e.From), To: NewRef(e.To), Why: e.Why}
}

// NewCircle is a circle of a graph.
func NewCircle(c inspect.Circle) Circle {
	v := Circle{Deadlock: c.Deadlock(), Cut: NewRef(c.Cut), Command: BreakCommand(c.Cut)}
	for _, e := range c.Edges {
		v.Edges = append(v.Edges, NewEdge(e))
	}
	if e := c.End; e != nil {
		v.End = &CircleEnd{
			Cause: e.Cause, At: e.At.UTC(), After: e.After.Milliseconds(), Waiter: NewRef(e.Waiter), Evicted: e.Evicted,
		}
		if e.Holder.ID != "" {
			v.End.Holder = new(NewRef(e.Holder))
		}
	}
	return v
}
