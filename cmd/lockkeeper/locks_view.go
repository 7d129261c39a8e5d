package main

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// lockView is a lock in JSON and YAML. The names of fields are a promise to
// scripts.
type lockView struct {
	Scope   string         `json:"scope"`
	Mode    *priority.Mode `json:"mode"`  // null while nobody holds the lock
	State   string         `json:"state"` // held or free
	Holders []holderView   `json:"holders"`
	Waiters []waiterView   `json:"waiters"`
}

// contenderView is what holders and waiters have in common.
type contenderView struct {
	ID       string         `json:"id"`
	Owner    string         `json:"owner"`
	Host     string         `json:"host"`
	PID      int            `json:"pid"`
	Priority priority.Level `json:"priority"`
	Mode     priority.Mode  `json:"mode"`
	Message  string         `json:"message"`
}

type holderView struct {
	contenderView
	Token        recipes.Token   `json:"token"`
	Since        time.Time       `json:"since"`
	LeaseTimeout int64           `json:"lease_timeout_ms"`
	LeaseLeft    int64           `json:"lease_left_ms"`
	PreemptedBy  []preemptorView `json:"preempted_by"`
}

type waiterView struct {
	contenderView
	LeaseTimeout int64     `json:"lease_timeout_ms"`
	Position     int       `json:"position"`
	WaitingSince time.Time `json:"waiting_since"`
}

// preemptorView is one who asks a holder to go.
type preemptorView struct {
	ID       string          `json:"id"`
	Owner    string          `json:"owner"`
	Priority priority.Level  `json:"priority"`
	Reason   priority.Reason `json:"reason"` // outranked or lease
	Forceful bool            `json:"forceful"`
	Grace    int64           `json:"grace_ms"`
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"` // end of the grace
}

func newLockView(state recipes.LockState) lockView {
	v := lockView{
		Scope: state.Scope, State: "free",
		Holders: make([]holderView, 0, len(state.Holders)),
		Waiters: make([]waiterView, 0, len(state.Waiters)),
	}
	for _, h := range state.Holders {
		v.State, v.Mode = "held", &h.Mode
		v.Holders = append(v.Holders, newHolderView(h))
	}
	for _, w := range state.Waiters {
		v.Waiters = append(v.Waiters, waiterView{
			contenderView: newContenderView(w),
			LeaseTimeout:  w.LeaseTimeout.Milliseconds(),
			Position:      w.Position,
			WaitingSince:  w.Joined.UTC(),
		})
	}
	return v
}

func newContenderView(c recipes.Contender) contenderView {
	return contenderView{
		ID: c.ID, Owner: c.Owner, Host: c.Host, PID: c.PID,
		Priority: c.Priority, Mode: c.Mode, Message: c.Message,
	}
}

func newHolderView(h recipes.Contender) holderView {
	v := holderView{
		contenderView: newContenderView(h),
		Token:         h.Token,
		Since:         h.Since.UTC(),
		LeaseTimeout:  h.LeaseTimeout.Milliseconds(),
		LeaseLeft:     h.LeaseLeft.Milliseconds(),
		PreemptedBy:   make([]preemptorView, 0, len(h.PreemptedBy)),
	}
	for _, by := range h.PreemptedBy {
		v.PreemptedBy = append(v.PreemptedBy, preemptorView{
			ID: by.ID, Owner: by.Owner, Priority: by.Priority, Reason: by.Reason, Forceful: by.Forceful,
			Grace: by.Grace.Milliseconds(), Since: by.At.UTC(), Until: by.At.Add(by.Grace).UTC(),
		})
	}
	return v
}
