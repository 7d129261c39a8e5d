package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Snapshot is the state of all locks at one moment, as far as they were read.
// It is immutable: it may be read from any goroutine, and kept.
type Snapshot struct {
	At       time.Time `json:"at"`       // by the servers' clock
	Version  uint64    `json:"version"`  // grows with each snapshot of a Board
	Entries  uint64    `json:"entries"`  // the number of the newest Entry
	Complete bool      `json:"complete"` // all locks that there are have been looked at in this Run of the Board
	Blind    *Blind    `json:"blind"`    // null: ZooKeeper answers, and somebody looks

	// Unreadable are the nodes in the place of locks, or of lists of locks, that
	// cannot be read.
	Unreadable []lock.Unreadable `json:"unreadable,omitempty"`

	Locks  []Lock `json:"locks"` // by scope
	Waits  Graph  `json:"waits"`
	Totals Totals `json:"totals"`
}

// Blind says that ZooKeeper does not answer, or that watching has stopped: the last
// known state is shown.
type Blind struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Totals are sums over all locks.
type Totals struct {
	Locks   int `json:"locks"`
	Held    int `json:"held"`
	Delayed int `json:"delayed"`
	Holders int `json:"holders"`
	Waiters int `json:"waiters"`
	Circles int `json:"circles"`

	OldestWait *time.Time `json:"oldest_wait"` // since when the oldest waiter waits; null: no waiter
	OldestHold *time.Time `json:"oldest_hold"` // null: no holder
}
