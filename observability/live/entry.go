package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An Entry is something that happened to a lock, in the stream of events.
type Entry struct {
	N     uint64     `json:"n"` // grows by one; a gap: those between are kept no more
	At    time.Time  `json:"at"`
	Kind  EntryKind  `json:"kind"`
	Scope string     `json:"scope"`
	ID    string     `json:"id,omitempty"` // of the request
	Owner string     `json:"owner,omitempty"`
	Token lock.Token `json:"token,omitempty"`
	// owner of the other one: who preempted it, who took the lock from it, to whom it handed it over
	By   string `json:"by,omitempty"`
	ByID string `json:"by_id,omitempty"`
	Text string `json:"text"` // in words
	Here bool   `json:"here"` // told by this process; else seen in ZooKeeper
}

// An EntryKind is what an Entry is about.
type EntryKind string

// What is seen in ZooKeeper.
const (
	EntryWaiting      EntryKind = "waiting"       // a request has joined the queue
	EntryLeft         EntryKind = "left"          // a waiter has gone
	EntryGranted      EntryKind = "granted"       // a request has the lock
	EntryReleased     EntryKind = "released"      // a holder has given it away
	EntryPreempted    EntryKind = "preempted"     // a holder is preempted
	EntryWithdrawn    EntryKind = "withdrawn"     // the preemption was withdrawn
	EntryLeaseExpired EntryKind = "lease_expired" // a holder is preempted because its lease is over
	EntryExtended     EntryKind = "extended"      // a holder has a new lease
	EntryDowngraded   EntryKind = "downgraded"    // a holder holds it in shared mode from now on
	EntryRevised      EntryKind = "revised"       // a waiter has changed its terms
	EntryTakeover     EntryKind = "takeover"      // a request has taken the lock from a holder
	EntryBreak        EntryKind = "break"         // an operator has taken the lock from a holder
	EntryLost         EntryKind = "lost"          // a hold ended without a release
	// a holder has gone: ZooKeeper does not tell whether it has released the lock
	EntryGone      EntryKind = "gone"
	EntryCollected EntryKind = "collected" // the lock was not used for long and is listed no more
	EntryDamaged   EntryKind = "damaged"   // the lock's node cannot be read
	EntryBlind     EntryKind = "blind"     // ZooKeeper does not answer
	EntrySighted   EntryKind = "sighted"   // it answers again
	EntryDeadlock  EntryKind = "deadlock"  // requests wait for each other
)

// What this process knows beside, by the notices of its own requests: several may
// be one kind of entry.
const (
	EntryRefused  EntryKind = "refused"  // a request failed: why
	EntryCleanup  EntryKind = "cleanup"  // an interrupted work's hooks begin, have returned, or take too long
	EntryAtRisk   EntryKind = "at_risk"  // ZooKeeper has been silent for long, a hold ends soon; or it answers again
	EntryOverride EntryKind = "override" // an override has frozen, thawed, changed or let pass a request
	EntryApproval EntryKind = "approval" // one is needed, or is decided
	EntrySkipped  EntryKind = "skipped"  // a job did not run
	EntryStuck    EntryKind = "stuck"    // a work does not return
)
