package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Snapshot is all locks at one moment, as far as they were looked at. Nobody
// changes it: it may be read from anywhere, and kept.
type Snapshot struct {
	At       time.Time `json:"at"`       // by the servers' clock
	Version  uint64    `json:"version"`  // grows with each snapshot of a Board
	Entries  uint64    `json:"entries"`  // the number of the newest Entry
	Complete bool      `json:"complete"` // all locks that there are have been looked at in this Run of the Board
	Blind    *Blind    `json:"blind"`    // null: ZooKeeper answers, and somebody looks

	// Unreadable are the nodes in the place of locks, or of lists of locks, that
	// cannot be read.
	Unreadable []recipes.Unreadable `json:"unreadable,omitempty"`

	Locks  []Lock `json:"locks"` // by scope
	Waits  Graph  `json:"waits"`
	Totals Totals `json:"totals"`
}

// Blind says that ZooKeeper does not answer, or that nobody looks: what is shown is
// what was seen last.
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

	OldestWait *time.Time `json:"oldest_wait"` // since when the one waits that has waited longest; null: nobody waits
	OldestHold *time.Time `json:"oldest_hold"` // null: nobody holds
}
