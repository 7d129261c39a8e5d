package zktest

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Request is what a client asked for, as Match.Where sees it. It is for
// reading only: Data and the slices belong to the frame.
type Request struct {
	Op      OpType
	Xid     int32    // the client's number of the request; 0 for a Connect
	Session int64    // of the client; for a Connect the one that it wants back, 0 for a new one
	From    []string // names of the connection: dialer, listener

	Path       string // as on the wire: with the chroot, and before a sequence number is added
	Data       []byte // Create, SetData
	Version    int32  // Delete, SetData, SetACL, Check: -1 for any
	Watch      bool   // a read that leaves a watch
	Ephemeral  bool   // Create
	Sequential bool   // Create

	Ops []Request // Multi, MultiRead: the operations, which have neither Xid, Session nor From

	watched []string // SetWatches
}

func newRequest(r *zkwire.Request) Request {
	q := Request{
		Op:      opType(r.Op),
		Xid:     r.Xid,
		Path:    r.Path,
		Data:    r.Data,
		Version: r.Version,
		Watch:   r.Watch,
	}
	if q.Op == Create {
		q.Ephemeral = r.Flags == zkwire.Ephemeral || r.Flags == zkwire.EphemeralSequential
		q.Sequential = zkwire.Sequential(r.Flags)
	}
	for i := range r.Ops {
		q.Ops = append(q.Ops, newRequest(&r.Ops[i]))
	}
	if w := r.Watches; w != nil {
		q.watched = slices.Concat(w.Data, w.Exist, w.Child, w.Persistent, w.Recursive)
	}
	return q
}

// paths returns every path that the request names.
func (q *Request) paths() []string {
	paths := slices.Clip(q.watched)
	if q.Path != "" {
		paths = append(paths, q.Path)
	}
	for i := range q.Ops {
		paths = append(paths, q.Ops[i].Path)
	}
	return paths
}
