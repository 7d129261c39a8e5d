package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Lock is a lock as JSON and YAML show it. The names of fields are a promise to
// scripts.
type Lock struct {
	Scope string `json:"scope"`
	// that it is on; not there where one is looked at alone, as in the console
	Ensemble string         `json:"ensemble,omitempty"`
	Mode     *priority.Mode `json:"mode"`  // null without a holder
	State    string         `json:"state"` // held, free or delayed: free, and not to be had yet
	Holders  []Holder       `json:"holders"`
	Waiters  []Waiter       `json:"waiters"` // in the order in which they would be granted
	Delays   []Delay        `json:"delays,omitempty"`
	// requests that overrides keep out of the queue, as far as somebody has looked
	Frozen []Request `json:"frozen,omitempty"`

	At         time.Time  `json:"at,omitzero"`           // the time of this state; absent without holders and waiters
	OldestWait *time.Time `json:"oldest_wait,omitempty"` // since when the one waits that has waited longest
	// who has to go first, so that this lock moves: at the end of all that its waiters wait for
	RootBlocker *Ref `json:"root_blocker,omitempty"`
	InCircle    bool `json:"in_circle,omitempty"` // there is no such one: they wait for each other

	Damage  string   `json:"damage,omitempty"`  // what is wrong with the lock's node
	Foreign []string `json:"foreign,omitempty"` // nodes that are no requests

	Unreadable []lock.Unreadable `json:"unreadable,omitempty"` // nodes of the lock that cannot be read
}

// A Contender is what holders and waiters have in common.
type Contender struct {
	ID       string         `json:"id"`
	Owner    string         `json:"owner"`
	Host     string         `json:"host"`
	PID      int            `json:"pid"`
	Priority priority.Level `json:"priority"`
	Mode     priority.Mode  `json:"mode"`
	Message  string         `json:"message"`
	Class    string         `json:"class,omitempty"` // what the lock is counted under
	Hold     string         `json:"hold,omitempty"`  // holders with the same one hold the lock together
	Trace    string         `json:"trace,omitempty"` // ID of the trace that it is part of, 32 hex digits

	CleanupTimeout int64 `json:"cleanup_timeout_ms"`
	MinRuntime     int64 `json:"min_runtime_ms"`          // how long the holder is not preempted for a priority
	LockDelay      int64 `json:"lock_delay_ms,omitempty"` // how long the lock stays free after its unclean end
	// for which it was made, or which has changed it; null: none
	Override *lock.Mark `json:"override"`
}

// A Holder is one who has the lock.
type Holder struct {
	Contender
	State        string      `json:"state"` // holding or cleaning up
	Token        lock.Token  `json:"token"`
	Since        time.Time   `json:"since"`
	LeaseTimeout int64       `json:"lease_timeout_ms"`
	LeaseLeft    int64       `json:"lease_left_ms"` // 0: it is over
	MinLeft      int64       `json:"min_runtime_left_ms"`
	PreemptedBy  []Preemptor `json:"preempted_by"`
	Behind       int         `json:"behind,omitempty"` // how many stood behind it in its own process when it was granted
}

// A Waiter is one who stands in the queue.
type Waiter struct {
	Contender
	State        string    `json:"state"` // waiting or delayed
	LeaseTimeout int64     `json:"lease_timeout_ms"`
	Position     int       `json:"position"` // 1 is next in line
	WaitingSince time.Time `json:"waiting_since"`

	Forceful       bool   `json:"forceful"`
	WaitingTimeout *int64 `json:"waiting_timeout_ms"` // null: for ever
	AcquireTimeout *int64 `json:"acquire_timeout_ms"` // null: for ever, or not known
	PreemptDelta   int    `json:"preempt_delta"`      // 0: any higher priority preempts
	NeverPreempts  bool   `json:"never_preempts"`

	Why      string   `json:"why,omitempty"`      // what it waits for and what is next, in words
	Blockers []string `json:"blockers,omitempty"` // IDs of those it waits for directly, holders first; of many, the first
}

// A Preemptor is a request that preempts a holder.
type Preemptor struct {
	ID       string          `json:"id"`
	Owner    string          `json:"owner"`
	Priority priority.Level  `json:"priority"`
	Reason   priority.Reason `json:"reason"` // outranked or lease
	Forceful bool            `json:"forceful"`
	Grace    int64           `json:"grace_ms"`
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"`    // end of the grace
	Override *lock.Mark      `json:"override"` // for which it asks; null: of its own accord
}

// A Delay is a holder that ended without releasing the lock, which for that
// reason is not granted yet.
type Delay struct {
	ID        string        `json:"id"`
	Owner     string        `json:"owner"`
	Mode      priority.Mode `json:"mode"` // shared: it bars exclusive requests alone
	LockDelay int64         `json:"lock_delay_ms"`
	Until     *time.Time    `json:"until"` // null: it begins when somebody asks for the lock
}

// NewLock is a lock as it was seen. What depends on other locks is not there.
func NewLock(state lock.State) Lock {
	v := Lock{
		Scope: state.Scope, State: StateWord(state),
		Holders: make([]Holder, 0, len(state.Holders)),
		Waiters: make([]Waiter, 0, len(state.Waiters)),
		Damage:  state.Damage, Foreign: state.Foreign, Unreadable: state.Unreadable,
	}
	for _, h := range state.Holders {
		v.Mode = &h.Mode
		v.Holders = append(v.Holders, NewHolder(h))
	}
	for _, d := range state.Delays {
		v.Delays = append(v.Delays, newDelay(d))
	}
	for _, w := range state.Waiters {
		v.Waiters = append(v.Waiters, NewWaiter(state, w))
	}
	return v
}

func newDelay(d lock.Delay) Delay {
	v := Delay{ID: d.ID, Owner: d.Owner, Mode: d.Mode, LockDelay: d.LockDelay.Milliseconds()}
	if !d.Until.IsZero() {
		v.Until = new(d.Until.UTC())
	}
	return v
}

func newContender(c lock.Contender) Contender {
	return Contender{
		ID: c.ID, Owner: c.Owner, Host: c.Host, PID: c.PID,
		Priority: c.Priority, Mode: c.Mode, Message: c.Message, Class: c.Class, Hold: c.Hold, Trace: TraceID(c.Trace),
		CleanupTimeout: c.CleanupTimeout.Milliseconds(), MinRuntime: c.MinRuntime.Milliseconds(),
		LockDelay: c.LockDelay.Milliseconds(), Override: c.Override,
	}
}

// NewWaiter is a waiter of a lock as it was seen.
func NewWaiter(s lock.State, w lock.Contender) Waiter {
	return Waiter{
		Contender:    newContender(w),
		State:        WaiterState(s, w),
		LeaseTimeout: w.LeaseTimeout.Milliseconds(),
		Position:     w.Position,
		WaitingSince: w.Joined.UTC(),
		Forceful:     w.Forceful, WaitingTimeout: someMillis(w.WaitingTimeout), AcquireTimeout: someMillis(w.AcquireTimeout),
		PreemptDelta: w.PreemptDelta, NeverPreempts: w.NeverPreempts,
	}
}

func someMillis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

// NewHolder is a holder as it was seen.
func NewHolder(h lock.Contender) Holder {
	v := Holder{
		Contender:    newContender(h),
		State:        HolderState(h),
		Token:        h.Token,
		Since:        h.Since.UTC(),
		LeaseTimeout: h.LeaseTimeout.Milliseconds(),
		LeaseLeft:    h.LeaseLeft.Milliseconds(),
		MinLeft:      h.MinRuntimeLeft.Milliseconds(),
		PreemptedBy:  make([]Preemptor, 0, len(h.PreemptedBy)),
		Behind:       h.Behind,
	}
	for _, by := range h.PreemptedBy {
		v.PreemptedBy = append(v.PreemptedBy, Preemptor{
			ID: by.ID, Owner: by.Owner, Priority: by.Priority, Reason: by.Reason, Forceful: by.Forceful,
			Grace: by.Grace.Milliseconds(), Since: by.At.UTC(), Until: by.At.Add(by.Grace).UTC(), Override: by.Override,
		})
	}
	return v
}

// StateWord is the state of a lock: held, delayed (free, and not to be had yet) or
// free.
func StateWord(s lock.State) string {
	switch {
	case s.Held():
		return "held"
	case len(s.Delays) > 0:
		return "delayed"
	}
	return "free"
}
