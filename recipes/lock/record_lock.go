package lock

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

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

// with returns r with one holder more, and what its lock-delay writes.
func (r lockRecord) with(guid string, own []delayNote) lockRecord {
	r.Holders = append(slices.Clone(r.Holders), guid)
	r.Delays = slices.Concat(r.Delays, own)
	return r
}

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

// evict returns the eviction notes of r with more of them. Who was evicted
// before may not have heard of it yet.
func (r lockRecord) evict(more ...evictionNote) []evictionNote {
	return slices.Concat(r.Evicted[max(0, len(r.Evicted)-maxEvictions):], more)
}

// news returns the eviction notes that a client may not have read yet, at a
// server time. A client that gets no answer for that long loses its session.
func (r lockRecord) news(now int64) []evictionNote {
	return slices.DeleteFunc(slices.Clone(r.Evicted), func(n evictionNote) bool {
		return now-n.At > newsFor.Milliseconds()
	})
}

// newsFor is how long a newcomer to an idle lock hands eviction notes on. For
// that it has to read them.
const newsFor = 2 * time.Minute

// maxEvictions is how many earlier evictions a takeover keeps in G.
const maxEvictions = 8

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
