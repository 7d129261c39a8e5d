package lock

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

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
	return Contender{ID: n.ID, Identity: priority.Identity{
		Owner: n.Owner, Trace: n.Trace,
	}, Terms: priority.Terms{Priority: n.Priority, Forceful: n.Forceful}, Override: n.Override}
}

// at returns when a note was written, in server time.
func (n *askingNote) at(stat *zkclient.Stat) int64 {
	if n.At != 0 {
		return n.At
	}
	return stat.Mtime
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
