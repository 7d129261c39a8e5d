package main

import (
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
)

// whyView is the answer of locks why in JSON and YAML. The names of fields are a
// promise to scripts.
type whyView struct {
	About string `json:"about"`
	Kind  string `json:"kind"` // lock or job
	// that has the lock; "" for a job, and if there is one alone
	Ensemble string           `json:"ensemble,omitempty"`
	At       *time.Time       `json:"at"`   // server's clock; null: not read
	Lock     *live.LockDetail `json:"lock"` // null for a job
	Requests []whyRequestView `json:"requests"`
	// requests for the lock, or of the job, that overrides keep out of the queue
	Frozen    []live.Request      `json:"frozen"`
	Circles   []live.Circle       `json:"circles"`
	Overrides []override.Override `json:"overrides"` // that are in force and concern it
	Approvals []openApprovalView  `json:"approvals"`
	Job       *views.Job          `json:"job"`    // of one without requests; null: not known, or not needed
	Unread    []string            `json:"unread"` // what could not be looked at, and why
}

// whyRequestView is a request of a job, and the way to who is in its way.
type whyRequestView struct {
	live.Ref
	Ensemble string             `json:"ensemble,omitempty"` // "" if there is one alone
	Waiter   *live.WaiterDetail `json:"waiter"`             // null when it holds
	Holder   *live.HolderDetail `json:"holder"`             // null when it waits
	WaitsFor []live.Edge        `json:"waits_for"`          // of many, the first
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
		About: f.about, Kind: "lock", At: live.Optional(f.now), Requests: []whyRequestView{}, Frozen: []live.Request{},
		Circles: []live.Circle{}, Overrides: append([]override.Override{}, f.inForce()...), Approvals: []openApprovalView{},
		Unread: append([]string{}, f.unread...),
	}
	if f.isJob() {
		v.Kind = "job"
		for _, n := range f.requests() {
			v.Requests = append(v.Requests, newWhyRequestView(f, n))
		}
		if f.ticks != nil {
			v.Job = new(newJobView(nil, *f.ticks, f.jobRequests(), f.now))
		}
		v.Frozen = append(v.Frozen, f.frozenOf()...)
	} else {
		v.Ensemble = f.ensemble
		v.Lock = new(live.NewLockDetail(f.graph, f.state(f.about)))
		v.Frozen = append(v.Frozen, f.frozenFor()...)
	}
	for _, c := range f.circles() {
		v.Circles = append(v.Circles, live.NewCircle(c))
	}
	for _, a := range f.open() {
		v.Approvals = append(v.Approvals, openApprovalView{
			ID: a.ID, Scope: a.Scope, Requestor: a.Requestor.Owner, Request: a.Requestor.ID, Opened: a.Opened.UTC(),
			Until: live.Optional(a.Until),
		})
	}
	return v
}

func newWhyRequestView(f *whyFacts, n inspect.WaitNode) whyRequestView {
	v := whyRequestView{Ref: live.NewRef(n), Ensemble: f.where[n.ID], WaitsFor: []live.Edge{}}
	s := f.state(n.Scope)
	if n.Holds {
		v.Holder = new(live.NewHolderDetail(f.graph, s, n.Contender))
	} else {
		v.Waiter = new(live.NewWaiterDetail(s, f.prospect(n)))
	}
	seen := map[string]bool{n.ID: true}
	for queue := []string{n.ID}; len(queue) > 0; queue = queue[1:] {
		for _, e := range f.graph.From(queue[0]) {
			if len(v.WaitsFor) == live.ManyEdges {
				return v
			}
			v.WaitsFor = append(v.WaitsFor, live.NewEdge(e))
			if !seen[e.To.ID] {
				seen[e.To.ID] = true
				queue = append(queue, e.To.ID)
			}
		}
	}
	return v
}
