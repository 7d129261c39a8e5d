package priority

import (
	"fmt"
	"time"
)

// A Verdict is what a waiter does now, and when it judges again.
type Verdict struct {
	Action Action

	// Asks are the holders to preempt. Only with Preempt.
	Asks []Ask

	// After is when to judge again, even if nothing happens until then: before,
	// only an event can change the verdict. It is set with Wait and with
	// Preempt, where it counts from the sending of the asks and takes them as
	// sent, so that there is no need to look right after. Never: only an event
	// can change the verdict. 0 with every other Action.
	After time.Duration
}

// Never, as Verdict.After, says that time alone does not change the verdict.
const Never time.Duration = -1

// An Ask is a preemption to send to a holder.
type Ask struct {
	Holder int           // index in Facts.Holders
	Reason Reason        // the right to preempt
	Grace  time.Duration // how long the holder may clean up
}

// An Action is what a waiter does. The zero Action is none.
type Action uint8

const (
	// Grant: the lock is the waiter's, beside the holders that there are.
	Grant Action = iota + 1

	// Preempt: send Verdict.Asks, then wait.
	Preempt

	// Wait: do nothing until an event, or until Verdict.After.
	Wait

	// TakeOver: evict every holder that the waiter conflicts with, all at
	// once, and take the lock.
	TakeOver

	// GiveUp: withdraw. The waiting timeout of a polite request is over, and
	// the cleanup of a holder is not.
	GiveUp

	// Refuse: a try that cannot be granted at once.
	Refuse
)

// String returns the action in lower case, such as "take over".
func (a Action) String() string {
	switch a {
	case Grant:
		return "grant"
	case Preempt:
		return "preempt"
	case Wait:
		return "wait"
	case TakeOver:
		return "take over"
	case GiveUp:
		return "give up"
	case Refuse:
		return "refuse"
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}
