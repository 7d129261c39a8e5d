package lock

import (
	"encoding/json"
	"math"
	"slices"
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
	LeaseOnly      bool           `json:"lease_only,omitempty"` // the minimum runtime is the lease, however long that becomes
	PreemptDelta   int            `json:"preempt_delta,omitempty"`
	NeverPreempts  bool           `json:"never_preempts,omitempty"`
	LockDelay      int64          `json:"lock_delay_ms,omitempty"` // then the format is delayFormat
	Hold           string         `json:"hold,omitempty"`          // the id of the hold that it is a member of, or asks for
	Class          string         `json:"class,omitempty"`
	Message        string         `json:"message,omitempty"`
	Trace          string         `json:"traceparent,omitempty"`
	Under          []string       `json:"under,omitempty"`
	Override       *Mark          `json:"override,omitempty"`

	Granted   bool         `json:"granted,omitempty"`
	Token     Token        `json:"token,omitempty"`      // 0: the zxid of the node's last write
	GrantedAt int64        `json:"granted_at,omitempty"` // 0: the time of the node's last write
	LeaseFrom int64        `json:"lease_from,omitempty"` // 0: the time of the node's last write
	RunsFrom  int64        `json:"runs_from,omitempty"`  // of the minimum runtime; 0: granted_at, -1: the time of the node's last write
	Preempt   []askingNote `json:"preempt_by,omitempty"` // the mailbox
	Behind    int          `json:"behind,omitempty"`     // how many stood behind it in its local queue when it was granted

	unknown map[string]json.RawMessage // members that a newer program has written; kept
}

// askingNote is a request to the holder to go, in its mailbox.
type askingNote struct {
	ID       string          `json:"id"`
	Owner    string          `json:"owner"`
	Priority priority.Level  `json:"priority"`
	Reason   priority.Reason `json:"reason"`
	Forceful bool            `json:"forceful,omitempty"`
	Grace    int64           `json:"grace_ms"`
	At       int64           `json:"at,omitempty"` // 0: the time of the node's last write
	Trace    string          `json:"traceparent,omitempty"`
	Override *Mark           `json:"override,omitempty"`

	unknown map[string]json.RawMessage // see contenderRecord
}

// UnmarshalJSON keeps what it does not know.
func (n *askingNote) UnmarshalJSON(data []byte) error {
	type plain askingNote
	err := json.Unmarshal(data, (*plain)(n))
	n.unknown = unknownIn(data, askingFields)
	return err
}

// MarshalJSON writes that again.
func (n askingNote) MarshalJSON() ([]byte, error) {
	type plain askingNote
	data, err := json.Marshal(plain(n))
	return withUnknown(data, n.unknown), err
}

// lockRecord is the data of a lock node: the grant record G.
type lockRecord struct {
	Format  int            `json:"format"`
	Holders []string       `json:"holders"` // guids
	Evicted []evictionNote `json:"evicted,omitempty"`
	Delays  []delayNote    `json:"delays,omitempty"` // then the format is delayFormat
	Open    bool           `json:"open,omitempty"`   // readers may walk in; then the format is openFormat

	// Some readers that have walked in may be there; then the format is
	// openFormat, too. Its name makes G longer than that of one holder, also if it
	// names no holder, or programs that do not know of it would not read it.
	Walked bool `json:"readers_may_have_walked_in,omitempty"`
}

// evictionNote says who was evicted, by a takeover or by an operator's break,
// so that the evicted can be told. A break has no reason, but says why.
type evictionNote struct {
	ID       string          `json:"id"`
	Owner    string          `json:"owner"`
	By       string          `json:"by"`
	Reason   priority.Reason `json:"reason,omitempty"`
	Override *Mark           `json:"override,omitempty"`
	Why      string          `json:"why,omitempty"`
	At       int64           `json:"at,omitempty"` // about when
}

// same reports whether both say the same.
func (n evictionNote) same(o evictionNote) bool {
	mark, other := n.Override, o.Override
	n.Override, o.Override = nil, nil
	return n == o && sameMark(mark, other)
}

func sameMark(a, b *Mark) bool { return a == b || a != nil && b != nil && *a == *b }

// evict returns the eviction notes of r with more of them. Who was evicted
// before may not have heard of it yet.
func (r lockRecord) evict(more ...evictionNote) []evictionNote {
	return slices.Concat(r.Evicted[max(0, len(r.Evicted)-maxEvictions):], more)
}

// news returns the eviction notes that a client may not have read yet, at a
// server time. A client that gets no answer for that long loses its session.
func (r lockRecord) news(now int64) []evictionNote {
	return slices.DeleteFunc(slices.Clone(r.Evicted), func(n evictionNote) bool { return now-n.At > newsFor.Milliseconds() })
}

// newsFor is how long a newcomer to an idle lock hands eviction notes on. For
// that it has to read them.
const newsFor = 2 * time.Minute

// maxEvictions is how many earlier evictions a takeover keeps in G.
const maxEvictions = 8

// with returns r with one holder more, and what its lock-delay writes.
func (r lockRecord) with(guid string, own []delayNote) lockRecord {
	r.Holders = append(slices.Clone(r.Holders), guid)
	r.Delays = slices.Concat(r.Delays, own)
	return r
}

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
	i := priority.Identity{Owner: r.Owner, Host: r.Host, PID: r.PID, Message: r.Message, Hold: r.Hold, Class: r.Class, Trace: r.Trace}
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

func (r lockRecord) encode() []byte {
	r.Format = znode.RecordFormat
	if len(r.Delays) > 0 {
		r.Format = delayFormat
	}
	if r.Open || r.Walked {
		r.Format = openFormat
	}
	if r.Holders == nil {
		r.Holders = []string{}
	}
	return znode.Encode(r)
}

// soleHolder is the encoded lockRecord of one holder: written by each grant.
func soleHolder(guid string) []byte {
	return []byte(`{"format":1,"holders":["` + guid + `"]}`)
}

// soleHolderLength is how long that is: a longer lock node says more.
const soleHolderLength = len(`{"format":1,"holders":[""]}`) + znode.GUIDLength

func decodeContender(data []byte) (r contenderRecord, err error) {
	err = znode.DecodeUpTo(delayFormat, data, &r, &r.Format)
	if err == nil {
		r.unknown = unknownIn(data, contenderFields)
	}
	return r, err
}

// decodeLock reads G. An empty node is a lock that was never granted.
func decodeLock(data []byte) (r lockRecord, err error) {
	if len(data) == 0 {
		return lockRecord{Format: znode.RecordFormat}, nil
	}
	err = znode.DecodeUpTo(openFormat, data, &r, &r.Format)
	for i, n := range r.Delays { // whichever client has written it
		r.Delays[i].Delay = min(n.Delay, priority.MaxLockDelay.Milliseconds())
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

// ask puts a note into the mailbox, in place of one with the same id and reason.
func (r *contenderRecord) ask(n askingNote) {
	r.Preempt = slices.DeleteFunc(r.Preempt, func(o askingNote) bool { return o.ID == n.ID && o.Reason == n.Reason })
	r.Preempt = append(r.Preempt, n)
}

// void drops the notes of those who are gone: they are not preempting any more.
func (r *contenderRecord) void(present []child) {
	r.Preempt = slices.DeleteFunc(r.Preempt, func(n askingNote) bool {
		return !slices.ContainsFunc(present, func(c child) bool { return c.guid == n.ID })
	})
}

// withdraw takes all notes of id out of the mailbox, and reports if there was one.
func (r *contenderRecord) withdraw(id string) bool {
	before := len(r.Preempt)
	r.Preempt = slices.DeleteFunc(r.Preempt, func(o askingNote) bool { return o.ID == id })
	return len(r.Preempt) != before
}

// asks is the notice that the holder gets of a note, by about the server's
// time.
func (n *askingNote) asks(stat *zkclient.Stat, now time.Time) PreemptRequested {
	grace := znode.Milliseconds(n.Grace)
	left := max(0, min(grace, grace-now.Sub(time.UnixMilli(n.at(stat)))))
	return PreemptRequested{
		By: n.author(), Reason: n.Reason, Grace: grace, Deadline: time.Now().Add(left),
		Forceful: n.Forceful, Trace: n.Trace, Override: n.Override,
	}
}

// author describes who asks, as far as the note tells.
func (n *askingNote) author() Contender {
	return Contender{ID: n.ID, Identity: priority.Identity{Owner: n.Owner, Trace: n.Trace}, Terms: priority.Terms{Priority: n.Priority, Forceful: n.Forceful}, Override: n.Override}
}

func (n evictionNote) eviction() Eviction {
	e := Eviction{ID: n.ID, Owner: n.Owner, By: n.By, Reason: n.Reason, Override: n.Override, Why: n.Why}
	if n.At != 0 {
		e.At = znode.RecordTime(n.At)
	}
	return e
}

// loss is the error that the evicted holder gets.
func (n evictionNote) loss(scope string) *LostError {
	loss := &LostError{Scope: scope, Reason: LossTaken, By: n.By, For: n.Reason, Override: n.Override, Why: n.Why}
	switch {
	case n.Reason == Superseded:
		return &LostError{Scope: scope, Reason: LossSuperseded}
	case n.Reason == "":
		loss.Reason = LossBroken
	case n.Override != nil:
		loss.Reason = LossOverridden
	}
	return loss
}

// at returns when a note was written, in server time.
func (n *askingNote) at(stat *zkclient.Stat) int64 {
	if n.At != 0 {
		return n.At
	}
	return stat.Mtime
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
