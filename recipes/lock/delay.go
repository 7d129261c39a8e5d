package lock

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Delay keeps a lock from being granted: a holder that had a LockDelay has
// gone without releasing it.
type Delay struct {
	ID        string // of the holder that is gone
	Owner     string // of that holder; the beginning of a long one
	Mode      priority.Mode
	LockDelay time.Duration

	// Since is when the end of the hold was noticed, Until when the delay is over:
	// by the server's clock. Both are zero until a request asks for the lock after
	// that: the delay begins then.
	Since, Until time.Time
}

// delayNote is what G says of a holder with a lock-delay, from its grant to its
// release: a note whose holder's node is gone tells of an unclean end. It goes when the
// delay is over.
type delayNote struct {
	ID     string   `json:"id"`
	Owner  string   `json:"owner,omitempty"`
	Delay  int64    `json:"delay_ms"`
	Shared bool     `json:"shared,omitempty"`
	Hold   bool     `json:"hold,omitempty"`  // the holder had a hold id: it may be resumed while the delay lasts
	Ended  *endMark `json:"ended,omitempty"` // nil: no client has noticed that
}

// endMark is when an unclean end was noticed: by the clock of the leader of an
// epoch, with which that of another one must not be compared.
type endMark struct {
	At    int64 `json:"at,omitempty"` // 0: when the lock node was last written, and then
	Epoch int64 `json:"epoch,omitempty"`
}

// maxDelayOwner is how much of an owner a note keeps: of many shared holders all
// have to fit into one node.
const maxDelayOwner = 64

func delayMillis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() } // rather longer

// delayNotes is what G says of a holder with this request; nil: it has no
// lock-delay.
func (r *contenderRecord) delayNotes(guid string) []delayNote {
	if r.LockDelay <= 0 {
		return nil
	}
	return []delayNote{{
		ID: guid, Owner: beginning(r.Owner, maxDelayOwner), Delay: r.LockDelay, Shared: r.Mode == priority.Shared,
		Hold: r.Hold != "",
	}}
}

func (n delayNote) delay() time.Duration { return znode.Milliseconds(n.Delay) }

// bars reports whether a request of this mode has to wait for the delay: what a
// shared holder may still do harms no other shared one.
func (n delayNote) bars(mode priority.Mode) bool { return !n.mode().Admits(mode) }

func (n delayNote) mode() priority.Mode {
	if n.Shared {
		return priority.Shared
	}
	return priority.Exclusive
}

// frozen returns the note as it says the same after another write of the node.
func (n delayNote) frozen(stat *zkclient.Stat) delayNote {
	if n.Ended != nil && n.Ended.At == 0 {
		n.Ended = &endMark{At: stat.Mtime, Epoch: leaderEpoch(stat.Mzxid)}
	}
	return n
}

// over reports whether the delay was over when the lock node was last written: by
// the clock that also told when it began. It is never early, however old stat is.
func (n delayNote) over(stat *zkclient.Stat) bool {
	return n.comparable(stat) && stat.Mtime-n.Ended.At > n.Delay
}

// comparable reports whether the note was marked by the clock that wrote the node
// last, and that clock has not been set back since.
func (n delayNote) comparable(stat *zkclient.Stat) bool {
	return n.Ended != nil && n.Ended.Epoch == leaderEpoch(stat.Mzxid) && n.Ended.At >= 0 && n.Ended.At <= stat.Mtime
}

// leaderEpoch is the part of a zxid that every new leader raises.
func leaderEpoch(zxid int64) int64 { return zxid >> 32 }

// carry returns what the notes of G become with another write of it, under the
// version of stat: present holders keep their notes; an end that no client has
// noticed, or whose mark can no longer be compared, is noticed by that write;
// notes of delays that are over are removed. present were listed after G was
// read.
func (r lockRecord) carry(stat *zkclient.Stat, present []child) []delayNote {
	var kept []delayNote
	for _, n := range r.Delays {
		switch n = n.frozen(stat); {
		case isPresent(present, n.ID):
			n.Ended = nil
		case n.Delay <= 0, n.over(stat):
			continue
		case !n.comparable(stat):
			n.Ended = &endMark{}
		}
		kept = append(kept, n)
	}
	return kept
}

// barring returns those notes of holders that are gone for which a request has to
// wait.
func barring(notes []delayNote, mode priority.Mode, present []child) []delayNote {
	return slices.DeleteFunc(slices.Clone(notes), func(n delayNote) bool {
		return !n.bars(mode) || isPresent(present, n.ID)
	})
}

// without is G after a clean end of one of several shared holders, written under the
// version of stat.
func (r lockRecord) without(guid string, stat *zkclient.Stat, present []child) lockRecord {
	rest := lockRecord{Evicted: r.Evicted, Walked: r.Walked}
	rest.Holders = slices.DeleteFunc(slices.Clone(r.Holders), func(id string) bool { return id == guid })
	r.Delays = slices.DeleteFunc(slices.Clone(r.Delays), func(n delayNote) bool { return n.ID == guid })
	rest.Delays = r.carry(stat, present)
	return rest
}

// delaysAfter reports whether the eviction of one of these holders delays the lock.
func (r lockRecord) delaysAfter(holders []child) bool {
	return slices.ContainsFunc(r.Delays, func(n delayNote) bool { return isPresent(holders, n.ID) })
}

// occupied reports whether the lock has a holder, or a delay that may bar a request: also
// readers that may have walked in, and are not named.
func (r lockRecord) occupied() bool { return len(r.Holders)+len(r.Delays) > 0 || r.Open || r.Walked }

func isPresent(present []child, guid string) bool {
	return slices.ContainsFunc(present, func(c child) bool { return c.guid == guid })
}

// again returns the data of a lock node for a write that is to change nothing,
// read with stat: marks tell the time of the write before it.
func again(data []byte, stat *zkclient.Stat) []byte {
	if len(data) <= soleHolderLength {
		return data
	}
	g, err := decodeLock(data)
	if err != nil || len(g.Delays) == 0 {
		return data
	}
	g.freeze(stat)
	return g.encode()
}

// freeze makes the marks say the same after another write of the node.
func (r *lockRecord) freeze(stat *zkclient.Stat) {
	r.Delays = slices.Clone(r.Delays)
	for i, n := range r.Delays {
		r.Delays[i] = n.frozen(stat)
	}
}

// describe tells people of a note that was frozen.
func (n delayNote) describe() Delay {
	d := Delay{ID: n.ID, Owner: n.Owner, Mode: n.mode(), LockDelay: n.delay()}
	if n.Ended != nil && n.Ended.At != 0 {
		d.Since = znode.RecordTime(n.Ended.At)
		d.Until = d.Since.Add(d.LockDelay)
	}
	return d
}

func describeNotes(notes []delayNote) []Delay {
	delays := make([]Delay, 0, len(notes))
	for _, n := range notes {
		delays = append(delays, n.describe())
	}
	return delays
}
