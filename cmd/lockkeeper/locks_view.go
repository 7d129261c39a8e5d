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
	State   string         `json:"state"` // held, free or delayed: free, and not to be had yet
	Holders []holderView   `json:"holders"`
	Waiters []waiterView   `json:"waiters"`
	Delays  []delayView    `json:"delays,omitempty"`

	Damage  string   `json:"damage,omitempty"`  // what is wrong with the lock's node
	Foreign []string `json:"foreign,omitempty"` // nodes that are no requests
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
	Hold     string         `json:"hold,omitempty"` // holders with the same one hold the lock together

	CleanupTimeout int64         `json:"cleanup_timeout_ms"`
	MinRuntime     int64         `json:"min_runtime_ms"`          // how long the holder is not asked to go for a priority
	LockDelay      int64         `json:"lock_delay_ms,omitempty"` // how long the lock stays free after its unclean end
	Override       *recipes.Mark `json:"override"`                // for which it was made, or which has changed it; null: none
}

// delayView is a holder that has gone without releasing the lock, which for that
// reason is not granted yet.
type delayView struct {
	ID        string        `json:"id"`
	Owner     string        `json:"owner"`
	Mode      priority.Mode `json:"mode"` // shared: it bars exclusive requests alone
	LockDelay int64         `json:"lock_delay_ms"`
	Until     *time.Time    `json:"until"` // null: it begins when somebody asks for the lock
}

type holderView struct {
	contenderView
	Token        recipes.Token   `json:"token"`
	Since        time.Time       `json:"since"`
	LeaseTimeout int64           `json:"lease_timeout_ms"`
	LeaseLeft    int64           `json:"lease_left_ms"`
	MinLeft      int64           `json:"min_runtime_left_ms"`
	PreemptedBy  []preemptorView `json:"preempted_by"`
}

type waiterView struct {
	contenderView
	LeaseTimeout int64     `json:"lease_timeout_ms"`
	Position     int       `json:"position"`
	WaitingSince time.Time `json:"waiting_since"`

	Forceful       bool   `json:"forceful"`
	WaitingTimeout *int64 `json:"waiting_timeout_ms"` // null: for ever
	AcquireTimeout *int64 `json:"acquire_timeout_ms"` // null: for ever, or not known
	PreemptDelta   int    `json:"preempt_delta"`      // 0: any higher priority preempts
	NeverPreempts  bool   `json:"never_preempts"`
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
	Until    time.Time       `json:"until"`    // end of the grace
	Override *recipes.Mark   `json:"override"` // for which it asks; null: of its own accord
}

func newLockView(state recipes.LockState) lockView {
	v := lockView{
		Scope: state.Scope, State: stateWord(state),
		Holders: make([]holderView, 0, len(state.Holders)),
		Waiters: make([]waiterView, 0, len(state.Waiters)),
		Damage:  state.Damage, Foreign: state.Foreign,
	}
	for _, h := range state.Holders {
		v.Mode = &h.Mode
		v.Holders = append(v.Holders, newHolderView(h))
	}
	for _, d := range state.Delays {
		v.Delays = append(v.Delays, newDelayView(d))
	}
	for _, w := range state.Waiters {
		v.Waiters = append(v.Waiters, newWaiterView(w))
	}
	return v
}

func newDelayView(d recipes.Delay) delayView {
	v := delayView{ID: d.ID, Owner: d.Owner, Mode: d.Mode, LockDelay: d.LockDelay.Milliseconds()}
	if !d.Until.IsZero() {
		v.Until = new(d.Until.UTC())
	}
	return v
}

func newContenderView(c recipes.Contender) contenderView {
	return contenderView{
		ID: c.ID, Owner: c.Owner, Host: c.Host, PID: c.PID,
		Priority: c.Priority, Mode: c.Mode, Message: c.Message, Hold: c.Hold,
		CleanupTimeout: c.CleanupTimeout.Milliseconds(), MinRuntime: c.MinRuntime.Milliseconds(), LockDelay: c.LockDelay.Milliseconds(), Override: c.Override,
	}
}

func newWaiterView(w recipes.Contender) waiterView {
	return waiterView{
		contenderView: newContenderView(w),
		LeaseTimeout:  w.LeaseTimeout.Milliseconds(),
		Position:      w.Position,
		WaitingSince:  w.Joined.UTC(),
		Forceful:      w.Forceful, WaitingTimeout: someMillis(w.WaitingTimeout), AcquireTimeout: someMillis(w.AcquireTimeout),
		PreemptDelta: w.PreemptDelta, NeverPreempts: w.NeverPreempts,
	}
}

func someMillis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

func newHolderView(h recipes.Contender) holderView {
	v := holderView{
		contenderView: newContenderView(h),
		Token:         h.Token,
		Since:         h.Since.UTC(),
		LeaseTimeout:  h.LeaseTimeout.Milliseconds(),
		LeaseLeft:     h.LeaseLeft.Milliseconds(),
		MinLeft:       h.MinRuntimeLeft.Milliseconds(),
		PreemptedBy:   make([]preemptorView, 0, len(h.PreemptedBy)),
	}
	for _, by := range h.PreemptedBy {
		v.PreemptedBy = append(v.PreemptedBy, preemptorView{
			ID: by.ID, Owner: by.Owner, Priority: by.Priority, Reason: by.Reason, Forceful: by.Forceful,
			Grace: by.Grace.Milliseconds(), Since: by.At.UTC(), Until: by.At.Add(by.Grace).UTC(), Override: by.Override,
		})
	}
	return v
}
