package lock

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// State is one lock as a single look at ZooKeeper shows it.
type State struct {
	Scope   string
	Holders []Contender
	Waiters []Contender // in the order in which they would be granted
	Foreign []string    // children of the lock node that are no contenders; ignored by the protocol
	Damage  string      // what is wrong with the lock node itself, for people; "": nothing

	// Unreadable are the nodes of this lock that cannot be read: its own, and those
	// of requests; by path. A request that is among them is there all the same, as
	// far as its name tells of it, or is Foreign.
	Unreadable []zkclient.Unreadable

	Delays  []Delay    // of holders that have gone uncleanly, as far as they are not over
	Evicted []Eviction // who was evicted lately, by the last takeover and a few before it
	At      time.Time  // of the look, by the server's clock; zero when no request is there
}

// delaysOf returns those that a request of this mode has to wait for.
func (s State) delaysOf(mode priority.Mode) []Delay {
	return slices.DeleteFunc(slices.Clone(s.Delays), func(d Delay) bool { return d.Mode.Admits(mode) })
}

// Delay returns how long a request of this mode will have to wait for unclean ends
// of others; 0: it does not.
func (s State) Delay(mode priority.Mode) time.Duration {
	var left time.Duration
	for _, d := range s.delaysOf(mode) {
		if d.Until.IsZero() {
			left = max(left, d.LockDelay)
		} else {
			left = max(left, d.Until.Sub(s.At))
		}
	}
	return left
}

// Held reports whether the lock has a holder.
func (s State) Held() bool { return len(s.Holders) > 0 }

// Contender is a request as it stands in ZooKeeper: a holder or a waiter.
type Contender struct {
	ID string // guid, new for every attempt

	priority.Identity // Owner: unreadable, in angle brackets, when this program cannot read its node
	priority.Terms    // AcquireTimeout nil: none that is known

	Patient  bool      // see Request
	Under    []string  // IDs of what the same work holds while it waits for this one
	Override *Mark     // for which it was made, or by which it is what it is; nil: none
	Session  int64     // ZooKeeper session that the contender lives in
	Joined   time.Time // server's clock

	// Holders only.
	Token              Token
	Since              time.Time // server's clock
	priority.Remaining           // not less than 0
	PreemptedBy        []Preemptor
	Behind             int // how many waited behind it in its process when it was granted, see Config.LocalQueue

	// Waiters only.
	Position int // 1 is next in line
}

// Preemptor is a standing request to a holder to go.
type Preemptor struct {
	ID       string
	Owner    string
	Priority priority.Level
	Reason   priority.Reason
	Forceful bool
	Grace    time.Duration
	At       time.Time // server's clock
	Override *Mark     // see Contender
}

// Eviction records that a holder was taken over, or that its lock was broken.
type Eviction struct {
	ID       string          // of the evicted
	Owner    string          // of the evicted
	By       string          // owner of the one that took the lock, or who broke it
	Reason   priority.Reason // outranked or lease; Superseded; "" when the lock was broken
	Override *Mark           // for which it was taken; nil: none
	Why      string          // the lock was broken for
	At       time.Time       // server's clock, about
}

// Party describes a contender for the audit trail.
func (c Contender) Party() opstore.AuditParty {
	return opstore.AuditParty{ID: c.ID, Owner: c.Owner, Host: c.Host, PID: c.PID, Priority: c.Priority, Token: c.Token}
}
