package lock

import (
	"encoding/json"
	"math"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// delayFormat is the version of a lock record and of a contender's record in
// which there is a lock-delay. A program that does not know it must not grant such
// a lock, nor hand it over, so it has to refuse the record.
const delayFormat = 2

// openFormat is the version of a lock record that lets readers walk in (T18),
// or has: a program that does not know of that must not grant the lock.
const openFormat = 3

// contenderRecord is the data of a contender's node: its request, then its
// mailbox. Times are server times in milliseconds.
//
// The stat of the write that granted says what the grant means: its zxid is the
// token, its time is when the hold and the lease begin. A client that writes
// the node later therefore puts all three into the data, under the version that
// it read.
type contenderRecord struct {
	Format         int            `json:"format"`
	Owner          string         `json:"owner"`
	Host           string         `json:"host"`
	PID            int            `json:"pid"`
	Priority       priority.Level `json:"priority"`
	Mode           priority.Mode  `json:"mode"`
	LeaseTimeout   int64          `json:"lease_timeout_ms"`
	CleanupTimeout int64          `json:"cleanup_timeout_ms"`
	WaitingTimeout *int64         `json:"waiting_timeout_ms,omitempty"`
	AcquireTimeout *int64         `json:"acquire_timeout_ms,omitempty"`
	Forceful       bool           `json:"forceful,omitempty"`
	Patient        bool           `json:"patient,omitempty"`
	MinRuntime     int64          `json:"min_runtime_ms,omitempty"`
	// the minimum runtime is the lease, however long that becomes
	LeaseOnly     bool     `json:"lease_only,omitempty"`
	PreemptDelta  int      `json:"preempt_delta,omitempty"`
	NeverPreempts bool     `json:"never_preempts,omitempty"`
	LockDelay     int64    `json:"lock_delay_ms,omitempty"` // then the format is delayFormat
	Hold          string   `json:"hold,omitempty"`          // the id of the hold that it is a member of, or asks for
	Class         string   `json:"class,omitempty"`
	Message       string   `json:"message,omitempty"`
	Trace         string   `json:"traceparent,omitempty"`
	Under         []string `json:"under,omitempty"`
	Override      *Mark    `json:"override,omitempty"`

	Granted   bool  `json:"granted,omitempty"`
	Token     Token `json:"token,omitempty"`      // 0: the zxid of the node's last write
	GrantedAt int64 `json:"granted_at,omitempty"` // 0: the time of the node's last write
	LeaseFrom int64 `json:"lease_from,omitempty"` // 0: the time of the node's last write
	// of the minimum runtime; 0: granted_at, -1: the time of the node's last write
	RunsFrom int64        `json:"runs_from,omitempty"`
	Preempt  []askingNote `json:"preempt_by,omitempty"` // the mailbox
	Behind   int          `json:"behind,omitempty"`     // how many stood behind it in its local queue when it was granted

	unknown map[string]json.RawMessage // members that a newer program has written; kept
}

func sameMark(a, b *Mark) bool { return a == b || a != nil && b != nil && *a == *b }

func newRecord(c *Client, r Request) contenderRecord {
	rec := contenderRecord{Format: znode.RecordFormat, Patient: r.Patient, Under: r.Under, Override: r.Override}
	rec.setIdentity(c, r.Identity)
	rec.setTerms(r.Terms)
	return rec
}

// setIdentity writes the identity of a request of this client down.
func (r *contenderRecord) setIdentity(c *Client, i priority.Identity) {
	r.Owner, r.Host, r.PID, r.Message = i.Owner, c.Host(), c.PID(), i.Message
	r.Hold, r.Class, r.Trace = i.Hold, i.Class, i.Trace
}

// identity is the one that was written down. A Class that cannot be one, whatever client has written it, is left out.
func (r *contenderRecord) identity() priority.Identity {
	i := priority.Identity{
		Owner: r.Owner, Host: r.Host, PID: r.PID, Message: r.Message, Hold: r.Hold, Class: r.Class, Trace: r.Trace,
	}
	if priority.CheckClass(i.Class) != nil {
		i.Class = ""
	}
	return i
}

// setTerms writes terms down: in milliseconds, of which what protects the holder has rather one more.
func (r *contenderRecord) setTerms(t priority.Terms) {
	r.Priority, r.Mode, r.Forceful = t.Priority, t.Mode, t.Forceful
	r.LeaseTimeout, r.CleanupTimeout = t.LeaseTimeout.Milliseconds(), t.CleanupTimeout.Milliseconds()
	r.WaitingTimeout, r.AcquireTimeout = znode.Millis(t.WaitingTimeout), znode.Millis(t.AcquireTimeout)
	r.PreemptDelta, r.NeverPreempts = t.PreemptDelta, t.NeverPreempts
	r.protect(t.MinRuntime)
	if t.LockDelay > 0 {
		r.Format, r.LockDelay = delayFormat, delayMillis(t.LockDelay)
	}
}

// terms are those that were written down.
func (r *contenderRecord) terms() priority.Terms {
	return priority.Terms{
		Priority: r.Priority, Mode: r.Mode, Forceful: r.Forceful,
		LeaseTimeout: znode.Milliseconds(r.LeaseTimeout), CleanupTimeout: znode.Milliseconds(r.CleanupTimeout),
		WaitingTimeout: znode.SomeMilliseconds(r.WaitingTimeout), AcquireTimeout: znode.SomeMilliseconds(r.AcquireTimeout),
		PreemptDelta: r.PreemptDelta, NeverPreempts: r.NeverPreempts,
		MinRuntime: znode.Milliseconds(r.MinRuntime), LockDelay: znode.Milliseconds(r.LockDelay),
	}
}

// protect sets the minimum runtime.
func (r *contenderRecord) protect(least time.Duration) {
	r.MinRuntime = (least + time.Millisecond - 1).Milliseconds() // rather longer than shorter
	r.LeaseOnly = r.MinRuntime >= r.LeaseTimeout
}

func (r contenderRecord) encode() []byte { return withUnknown(encodeContender(&r), r.unknown) }

func decodeContender(data []byte) (r contenderRecord, err error) {
	err = znode.DecodeUpTo(delayFormat, data, &r, &r.Format)
	if err == nil {
		r.unknown = unknownIn(data, contenderFields)
	}
	return r, err
}

// token returns the token of the grant.
func (r *contenderRecord) token(stat *zkclient.Stat) Token {
	if r.Token != 0 {
		return r.Token
	}
	return Token(stat.Mzxid) // planted-bug token-of-the-place: return Token(stat.Czxid)
}

// grantedAt returns when the lock was granted, in server time.
func (r *contenderRecord) grantedAt(stat *zkclient.Stat) int64 {
	if r.GrantedAt != 0 {
		return r.GrantedAt
	}
	return stat.Mtime
}

// leaseFrom returns when the lease began, in server time.
func (r *contenderRecord) leaseFrom(stat *zkclient.Stat) int64 {
	if r.LeaseFrom != 0 {
		return r.LeaseFrom
	}
	return stat.Mtime
}

// leaseLeft returns what is left of the lease at a server time. Two servers'
// clocks may meet in it: it is kept between nothing and the whole lease.
func (r *contenderRecord) leaseLeft(stat *zkclient.Stat, now int64) time.Duration {
	return timeLeft(r.leaseFrom(stat), r.LeaseTimeout, now)
}

// timeLeft returns what is left of a time that began at from, between nothing
// and all of it. A foreign client may have written the numbers, however large.
func timeLeft(from, length, now int64) time.Duration {
	gone := now - from
	switch {
	case now >= from && gone < 0: // too large to tell
		gone = math.MaxInt64
	case now < from:
		gone = 0
	}
	return znode.Milliseconds(max(0, length)) - min(znode.Milliseconds(max(0, length)), znode.Milliseconds(gone))
}

// runsFrom returns when the minimum runtime began, in server time.
func (r *contenderRecord) runsFrom(stat *zkclient.Stat) int64 {
	switch r.RunsFrom {
	case 0:
		return r.grantedAt(stat)
	case runsFromLastWrite:
		return stat.Mtime
	}
	return r.RunsFrom
}

// runsFromLastWrite, as RunsFrom, is the time of the node's last write.
const runsFromLastWrite = -1

// remaining returns what is left at a server time of the lease, and within the same bounds of the minimum runtime.
func (r *contenderRecord) remaining(stat *zkclient.Stat, now int64) priority.Remaining {
	left := priority.Remaining{LeaseLeft: r.leaseLeft(stat, now)}
	left.MinRuntimeLeft = left.LeaseLeft
	if !r.LeaseOnly {
		left.MinRuntimeLeft = min(left.LeaseLeft, timeLeft(r.runsFrom(stat), r.MinRuntime, now))
	}
	return left
}

// freeze writes down what the last write meant, before another write.
func (r *contenderRecord) freeze(stat *zkclient.Stat) {
	if r.Granted {
		r.Token, r.GrantedAt, r.LeaseFrom = r.token(stat), r.grantedAt(stat), r.leaseFrom(stat)
		if r.RunsFrom == runsFromLastWrite {
			r.RunsFrom = stat.Mtime
		}
	}
	for i := range r.Preempt {
		if r.Preempt[i].At == 0 {
			r.Preempt[i].At = stat.Mtime
		}
	}
}

// contender describes the node for people and for the rulebook.
func (r *contenderRecord) contender(c child, stat *zkclient.Stat) Contender {
	out := Contender{
		ID: c.guid, Identity: r.identity(), Terms: r.terms(), Patient: r.Patient, Under: r.Under, Override: r.Override,
		Session: stat.EphemeralOwner, Joined: time.UnixMilli(stat.Ctime),
	}
	out.Priority = c.level()
	if r.Granted {
		out.Token = r.token(stat)
		out.Since = znode.RecordTime(r.grantedAt(stat))
		out.Behind = max(0, r.Behind)
	}
	for _, n := range r.Preempt {
		out.PreemptedBy = append(out.PreemptedBy, Preemptor{
			ID: n.ID, Owner: n.Owner, Priority: n.Priority, Reason: n.Reason, Forceful: n.Forceful,
			Grace: znode.Milliseconds(n.Grace), At: znode.RecordTime(n.at(stat)), Override: n.Override,
		})
	}
	return out
}
