package lock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// ErrReleased is returned when a Grant is used after its Release.
var ErrReleased = errors.New("lockkeeper: lock is already released")

// NotAcquiredError is returned when the acquire timeout of a request ends
// before the lock could be granted. The request is withdrawn.
type NotAcquiredError struct {
	Scope   string
	Waited  time.Duration // 0 for a try
	Holders []Contender   // who has the lock, as last seen
	Delays  []Delay       // what kept a free lock from being granted, as last seen
	Ahead   int           // how many waiters stood in front
	Err     error         // *UnavailableError when ZooKeeper did not answer
}

func (e *NotAcquiredError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %q not acquired", e.Scope)
	if e.Waited > 0 {
		fmt.Fprintf(&b, " within %s", e.Waited.Round(time.Millisecond))
	}
	b.WriteString(describeHolders(e.Holders))
	if len(e.Holders) == 0 {
		b.WriteString(describeDelays(e.Delays))
	}
	if e.Ahead > 0 {
		fmt.Fprintf(&b, "; %d waiting in front", e.Ahead)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Info returns the kind of the cause.
func (e *NotAcquiredError) Info() priority.CauseInfo {
	return priority.CauseInfo{Kind: priority.KindTimeout, Scope: e.Scope}
}

// Unwrap returns why there was no answer, if that was it.
func (e *NotAcquiredError) Unwrap() error { return e.Err }

// CleanupPendingError is returned to a polite preemptor whose waiting timeout
// ended before the holder released. The request is withdrawn; the holder keeps
// the lock until it has cleaned up.
type CleanupPendingError struct {
	Scope   string
	Waited  time.Duration // since the holder was asked to release
	Holders []Contender
}

func (e *CleanupPendingError) Error() string {
	return fmt.Sprintf("lock %q not acquired: cleanup of the holder has not finished within the waiting timeout %s%s; "+
		"try again later or forcefully", e.Scope, e.Waited.Round(time.Millisecond), describeHolders(e.Holders))
}

// Info returns the kind of the cause.
func (e *CleanupPendingError) Info() priority.CauseInfo {
	return priority.CauseInfo{Kind: priority.KindCleanupPending, Scope: e.Scope}
}

// PreemptPendingError is returned by Grant.Extend, and by PriorityLock.Join,
// while a request preempts the holder.
type PreemptPendingError struct {
	Scope string
	By    PreemptRequested
	Hold  string // that was not joined; "": the holder is the caller
}

func (e *PreemptPendingError) Error() string {
	if e.Hold != "" {
		return fmt.Sprintf(
			"hold %q of lock %q not joined: %q (priority %d) has asked for it; begin nothing new, or join to clean up",
			e.Hold, e.Scope, e.By.By.Owner, e.By.By.Priority)
	}
	return fmt.Sprintf("lock %q not extended: %q (priority %d) has asked for it; finish or clean up",
		e.Scope, e.By.By.Owner, e.By.By.Priority)
}

// NotThereError is returned by PriorityLock.Join and PriorityLock.Adopt when there
// is nothing by that Reference any more: its hold has ended, or was taken up by
// another one, or its request has left the queue.
type NotThereError struct {
	Reference Reference

	// Held: members of the hold are there, though not the one that is named. Adopt
	// takes over only the one that it names; Join would join the others.
	Held bool
}

func (e *NotThereError) Error() string {
	if e.Held {
		return fmt.Sprintf(
			"hold %q of lock %q not adopted: its member %s has gone, others hold it yet; join them, or ask for the lock anew",
			e.Reference.Hold, e.Reference.Scope, e.Reference.ID)
	}
	return fmt.Sprintf("hold %q of lock %q is not there (any more); ask for the lock anew",
		e.Reference.Hold, e.Reference.Scope)
}

// EvictedError is returned to a waiter whose place in the queue was deleted: by
// an administrator; or by a forceful request that took the lock over right
// after the waiter was granted, with so many writes since that the lock node no
// longer says so.
type EvictedError struct{ Scope string }

func (e *EvictedError) Error() string {
	return fmt.Sprintf("lock %q not acquired: the request was removed from the queue by an administrator", e.Scope)
}

// Info returns the kind of the cause.
func (e *EvictedError) Info() priority.CauseInfo {
	return priority.CauseInfo{Kind: priority.KindEvicted, Scope: e.Scope}
}

// LossReason says how a lock was lost.
type LossReason string

// The reasons for a loss.
const (
	LossSession LossReason = "session" // the ZooKeeper session ended, or may have
	LossTaken   LossReason = "taken"   // taken over after the grace
	// the holder's node was deleted by an administrator, or another program has overwritten it or the
	// grant record: see Err
	LossDeleted    LossReason = "deleted"
	LossSuperseded LossReason = "superseded" // a newer attempt of the same work runs
	LossOverridden LossReason = "overridden" // taken over for an operator's override
	LossBroken     LossReason = "broken"     // an operator broke the lock
)

// LostError says that a lock is no longer held: the cause of the context of a
// hold that was lost.
type LostError struct {
	Scope  string
	Token  Token // 0 when it was lost before it was known
	Reason LossReason
	// owner of the one that took it, or who broke it; only for LossTaken, LossOverridden and LossBroken
	By  string
	For priority.Reason // why it was taken; only for LossTaken and LossOverridden

	// Override is for which it was taken; only for LossOverridden.
	Override *Mark

	Why string // the lock was broken; only for LossBroken
	Err error  // what was noticed, if anything
}

func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %q lost: ", e.Scope)
	switch e.Reason {
	case LossTaken, LossOverridden:
		b.WriteString("taken")
		if e.By != "" {
			fmt.Fprintf(&b, " by %q", e.By)
		}
		if o := e.Override; o != nil {
			fmt.Fprintf(&b, " for the override %q of %q (%s)", o.ID, o.By, zkclient.Legible(o.Reason))
		}
		if e.For == priority.LeaseExpired {
			b.WriteString(" after the lease and the grace had ended")
		} else {
			b.WriteString(" after the grace had ended")
		}
	case LossBroken:
		fmt.Fprintf(&b, "broken by %q: %s", e.By, zkclient.Legible(e.Why))
	case LossDeleted:
		if e.Err != nil {
			b.WriteString(e.Err.Error())
			return b.String()
		}
		b.WriteString("the holder's node was deleted by an administrator")
	case LossSuperseded:
		b.WriteString("a newer attempt of the same work runs")
	default:
		b.WriteString("ZooKeeper has not answered in time to keep the session")
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Info returns the kind of the cause.
func (e *LostError) Info() priority.CauseInfo {
	return priority.CauseInfo{Kind: priority.KindLost, Scope: e.Scope}
}

// Unwrap returns what was noticed.
func (e *LostError) Unwrap() error { return e.Err }

func describeDelays(delays []Delay) string {
	if len(delays) == 0 {
		return ""
	}
	last := slices.MaxFunc(delays, func(a, b Delay) int { return a.Until.Compare(b.Until) })
	s := fmt.Sprintf(": delayed by %s", last.LockDelay)
	if !last.Until.IsZero() {
		s = fmt.Sprintf(": delayed until about %s", last.Until.UTC().Format("15:04:05Z"))
	}
	return s + fmt.Sprintf(", after the unclean end of %q (lock_delay %s)", zkclient.Legible(last.Owner), last.LockDelay)
}

func describeHolders(holders []Contender) string {
	if len(holders) == 0 {
		return ""
	}
	h := holders[0]
	s := fmt.Sprintf(": held by %q", h.Owner)
	if h.Host != "" || h.Token != 0 || h.Priority != 0 { // else it is one of a classic recipe
		s += fmt.Sprintf(" (priority %d", h.Priority)
		if h.Host != "" {
			s += fmt.Sprintf(", host %s, pid %d", zkclient.Legible(h.Host), h.PID)
		}
		if h.Token != 0 {
			s += fmt.Sprintf(", token %s", h.Token)
		}
		s += ")"
	}
	if n := len(holders) - 1; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
