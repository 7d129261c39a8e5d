package main

import (
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// whyView is the answer of locks why in JSON and YAML. The names of fields are a
// promise to scripts.
type whyView struct {
	About     string              `json:"about"`
	Kind      string              `json:"kind"` // lock or job
	At        *time.Time          `json:"at"`   // server's clock; null: nobody was asked
	Lock      *whyLockView        `json:"lock"` // null for a job
	Requests  []whyRequestView    `json:"requests"`
	Circles   []circleView        `json:"circles"`
	Overrides []override.Override `json:"overrides"` // that are in force and concern it
	Approvals []openApprovalView  `json:"approvals"`
	Job       *jobView            `json:"job"`    // of one without requests; null: not known, or not needed
	Unread    []string            `json:"unread"` // what could not be looked at, and why
}

// whyLockView is a lock, and what is foreseen of it.
type whyLockView struct {
	Scope   string          `json:"scope"`
	State   string          `json:"state"` // held or free
	Mode    *priority.Mode  `json:"mode"`  // null while nobody holds the lock
	Holders []whyHolderView `json:"holders"`
	Waiters []whyWaiterView `json:"waiters"`
	Evicted []evictionView  `json:"evicted"` // lately
	Foreign []string        `json:"foreign"` // nodes that are no requests
}

type whyHolderView struct {
	holderView
	HeldFor      int64      `json:"held_for_ms"`
	LeaseUsed    int64      `json:"lease_used_percent"`
	LeaseEnds    *time.Time `json:"lease_ends"`      // null: it is over
	PeaceEnds    *time.Time `json:"protected_until"` // from being asked for a priority; null: it is not protected
	WorkWaitsFor []refView  `json:"work_waits_for"`  // requests for other locks by the same work
}

type whyWaiterView struct {
	waiterView
	WaitingFor int64          `json:"waiting_for_ms"`
	Obstacles  []obstacleView `json:"obstacles"` // the holders in its way; asks are those that it is going to send
	Behind     []refView      `json:"behind"`    // waiters that come before it; of many, those right before it
	Prospect   prospectView   `json:"prospect"`
}

// refView names a request.
type refView struct {
	ID       string         `json:"id"`
	Owner    string         `json:"owner"`
	Scope    string         `json:"scope"`
	State    string         `json:"state"` // holds or waits
	Priority priority.Level `json:"priority"`
	Token    recipes.Token  `json:"token"`    // 0 while it waits
	Position int            `json:"position"` // 0 while it holds
}

// prospectView is what becomes of a waiter if nobody does anything.
type prospectView struct {
	Outcome string            `json:"outcome"` // granted, takes_over, gives_up, times_out or in_line: that does not follow
	After   int64             `json:"after_ms"`
	At      *time.Time        `json:"at"` // null with in_line
	Asks    []prospectAskView `json:"asks"`
	Overdue int64             `json:"overdue_ms"` // its waiting timeout is over by this, and somebody is to decide
}

type prospectAskView struct {
	Holder string    `json:"holder"` // its ID
	Owner  string    `json:"owner"`
	At     time.Time `json:"at"`
	askView
}

type evictionView struct {
	ID       string          `json:"id"`
	Owner    string          `json:"owner"`
	By       string          `json:"by"`
	Reason   priority.Reason `json:"reason"` // outranked or lease; "": the lock was broken
	Override *recipes.Mark   `json:"override"`
	Why      string          `json:"why"` // it was broken
	At       *time.Time      `json:"at"`  // about; null: not known
}

// whyRequestView is a request of a job, and the way to who is in its way.
type whyRequestView struct {
	refView
	Waiter   *whyWaiterView `json:"waiter"`    // null when it holds
	Holder   *whyHolderView `json:"holder"`    // null when it waits
	WaitsFor []edgeView     `json:"waits_for"` // of many, the first
}

// manyEdges is how many of those that a request waits for, or stands behind, are
// listed: with all of them the answer would grow with the square of the queue.
const manyEdges = 100

type edgeView struct {
	From refView            `json:"from"`
	To   refView            `json:"to"`
	Why  recipes.WaitReason `json:"why"` // held, ahead, or under: the work of a holder waits for another lock
}

type circleView struct {
	Deadlock bool           `json:"deadlock"` // no priority ends it
	Edges    []edgeView     `json:"edges"`
	Cut      refView        `json:"cut"` // the holder to break
	Command  string         `json:"command"`
	End      *circleEndView `json:"end"` // null: nothing ends it by itself
}

type circleEndView struct {
	Cause   recipes.EndCause `json:"cause"`
	At      time.Time        `json:"at"`
	After   int64            `json:"after_ms"`
	Waiter  refView          `json:"waiter"`
	Holder  *refView         `json:"holder"` // null: the waiter leaves
	Evicted bool             `json:"evicted"`
}

type openApprovalView struct {
	ID        string     `json:"id"`
	Scope     string     `json:"scope"`
	Requestor string     `json:"requestor"`
	Request   string     `json:"request"`
	Opened    time.Time  `json:"opened"`
	Until     *time.Time `json:"until"` // how long it waits for the decision
}

func newWhyView(f *whyFacts) whyView {
	v := whyView{
		About: f.about, Kind: "lock", At: someTime(f.now), Requests: []whyRequestView{}, Circles: []circleView{},
		Overrides: append([]override.Override{}, f.inForce()...), Approvals: []openApprovalView{}, Unread: append([]string{}, f.unread...),
	}
	if f.isJob() {
		v.Kind = "job"
		for _, n := range f.requests() {
			v.Requests = append(v.Requests, newWhyRequestView(f, n))
		}
		if f.ticks != nil {
			v.Job = new(newJobView(nil, *f.ticks, f.now))
		}
	} else {
		v.Lock = new(newWhyLockView(f, f.state(f.about)))
	}
	for _, c := range f.circles() {
		v.Circles = append(v.Circles, newCircleView(c))
	}
	for _, a := range f.open() {
		v.Approvals = append(v.Approvals, openApprovalView{
			ID: a.ID, Scope: a.Scope, Requestor: a.Requestor.Owner, Request: a.Requestor.ID, Opened: a.Opened.UTC(), Until: someTime(a.Until),
		})
	}
	return v
}

// someTime returns nil for no time.
func someTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func newWhyLockView(f *whyFacts, s recipes.LockState) whyLockView {
	v := whyLockView{
		Scope: s.Scope, State: "free", Holders: []whyHolderView{}, Waiters: []whyWaiterView{},
		Evicted: []evictionView{}, Foreign: append([]string{}, s.Foreign...),
	}
	for _, h := range s.Holders {
		v.State, v.Mode = "held", &h.Mode
		v.Holders = append(v.Holders, newWhyHolderView(f, s, h))
	}
	for _, p := range s.Outlook() {
		v.Waiters = append(v.Waiters, newWhyWaiterView(s, p))
	}
	for _, e := range s.Evicted {
		v.Evicted = append(v.Evicted, evictionView{ID: e.ID, Owner: e.Owner, By: e.By, Reason: e.Reason, Override: e.Override, Why: e.Why, At: someTime(e.At)})
	}
	return v
}

func newWhyHolderView(f *whyFacts, s recipes.LockState, h recipes.Contender) whyHolderView {
	v := whyHolderView{
		holderView: newHolderView(h), HeldFor: s.At.Sub(h.Since).Milliseconds(),
		LeaseUsed: usedPercent(h.LeaseTimeout-h.LeaseLeft, h.LeaseTimeout), WorkWaitsFor: []refView{},
	}
	if h.LeaseLeft > 0 {
		v.LeaseEnds = someTime(s.At.Add(h.LeaseLeft))
	}
	if h.MinRuntimeLeft > 0 {
		v.PeaceEnds = someTime(s.At.Add(h.MinRuntimeLeft))
	}
	for _, e := range f.graph.From(h.ID) {
		v.WorkWaitsFor = append(v.WorkWaitsFor, newRefView(e.To))
	}
	return v
}

func newWhyWaiterView(s recipes.LockState, p recipes.Prospect) whyWaiterView {
	v := whyWaiterView{
		waiterView: newWaiterView(p.Waiter), WaitingFor: s.At.Sub(p.Waiter.Joined).Milliseconds(),
		Obstacles: []obstacleView{}, Behind: []refView{}, Prospect: newProspectView(s, p),
	}
	at := p.Waiter.Position - 1 // in the state that it is of
	if plan, ok := near(s, at).PlanOf(p.Waiter.ID); ok {
		v.Obstacles = append(v.Obstacles, newObstacleViews(plan)...)
		for _, a := range plan.Ahead {
			v.Behind = append(v.Behind, newRefView(recipes.WaitNode{Scope: s.Scope, Contender: a}))
		}
	}
	return v
}

// near is a lock without those who stand far from one of its waiters.
func near(s recipes.LockState, at int) recipes.LockState {
	if at < 0 || at >= len(s.Waiters) {
		return s
	}
	s.Waiters = s.Waiters[max(0, at-manyEdges) : at+1]
	return s
}

func newProspectView(s recipes.LockState, p recipes.Prospect) prospectView {
	v := prospectView{Outcome: string(p.Outcome), After: p.After.Milliseconds(), Asks: []prospectAskView{}, Overdue: p.Overdue.Milliseconds()}
	if p.Outcome != recipes.OutcomeInLine {
		v.At = someTime(s.At.Add(p.After))
	}
	for _, a := range p.Asks {
		v.Asks = append(v.Asks, prospectAskView{
			Holder: a.Holder.ID, Owner: a.Holder.Owner, At: s.At.Add(a.After).UTC(),
			askView: askView{Reason: a.Reason, After: a.After.Milliseconds(), Grace: a.Grace.Milliseconds()},
		})
	}
	return v
}

func newRefView(n recipes.WaitNode) refView {
	state := "waits"
	if n.Holds {
		state = "holds"
	}
	return refView{ID: n.ID, Owner: n.Owner, Scope: n.Scope, State: state, Priority: n.Priority, Token: n.Token, Position: n.Position}
}

func newWhyRequestView(f *whyFacts, n recipes.WaitNode) whyRequestView {
	v := whyRequestView{refView: newRefView(n), WaitsFor: []edgeView{}}
	s := f.state(n.Scope)
	if n.Holds {
		v.Holder = new(newWhyHolderView(f, s, n.Contender))
	} else {
		v.Waiter = new(newWhyWaiterView(s, f.prospect(n)))
	}
	seen := map[string]bool{n.ID: true}
	for queue := []string{n.ID}; len(queue) > 0; queue = queue[1:] {
		for _, e := range f.graph.From(queue[0]) {
			if len(v.WaitsFor) == manyEdges {
				return v
			}
			v.WaitsFor = append(v.WaitsFor, newEdgeView(e))
			if !seen[e.To.ID] {
				seen[e.To.ID] = true
				queue = append(queue, e.To.ID)
			}
		}
	}
	return v
}

func newEdgeView(e recipes.WaitEdge) edgeView {
	return edgeView{From: newRefView(e.From), To: newRefView(e.To), Why: e.Why}
}

func newCircleView(c recipes.Circle) circleView {
	v := circleView{Deadlock: c.Deadlock(), Cut: newRefView(c.Cut), Command: breakCommand(c.Cut)}
	for _, e := range c.Edges {
		v.Edges = append(v.Edges, newEdgeView(e))
	}
	if e := c.End; e != nil {
		v.End = &circleEndView{Cause: e.Cause, At: e.At.UTC(), After: e.After.Milliseconds(), Waiter: newRefView(e.Waiter), Evicted: e.Evicted}
		if e.Holder.ID != "" {
			v.End.Holder = new(newRefView(e.Holder))
		}
	}
	return v
}
