package zkwire

import "fmt"

// A ConnectRequest is a client's first frame.
type ConnectRequest struct {
	LastZxid int64
	Timeout  int32 // milliseconds
	Session  int64 // 0 for a new one
	Password []byte
	ReadOnly bool
	Old      bool // the client does not know of ReadOnly, nor wants it answered
}

// Append appends the request as a frame.
func (r ConnectRequest) Append(b []byte) []byte {
	start := len(b)
	b = Int32(BeginFrame(b), 0)
	b = Int64(Int32(Int64(b, r.LastZxid), r.Timeout), r.Session)
	b = Buffer(b, r.Password)
	if !r.Old {
		b = Bool(b, r.ReadOnly)
	}
	return EndFrame(b, start)
}

// ParseConnect reads a client's first frame.
func ParseConnect(body []byte) (ConnectRequest, error) {
	d := NewDecoder(body)
	d.Int32() // version of the protocol
	r := ConnectRequest{LastZxid: d.Int64(), Timeout: d.Int32(), Session: d.Int64(), Password: d.Buffer()}
	if d.err != nil {
		return r, d.err
	}
	r.Old = d.Rest() == 0
	if !r.Old {
		r.ReadOnly = d.Bool()
	}
	return r, nil
}

// A Request is any other frame of a client, or an operation of a transaction.
// Which fields count depends on Op.
type Request struct {
	Xid int32
	Op  Op

	Path     string
	NullPath bool
	Data     []byte
	ACL      []ACL
	Flags    int32 // creates
	TTL      int64 // createTTL: milliseconds
	Version  int32 // delete, setData, setACL, check
	Watch    bool  // exists, getData, getChildren, getChildren2
	Mode     int32 // addWatch, removeWatches, checkWatches

	Ops     []Request   // multi, multiRead
	Watches *Watches    // setWatches, setWatches2
	Auth    *Credential // auth
}

// Watches are what a client brings with it to a new connection.
type Watches struct {
	RelativeZxid int64 // what it has seen

	// A list that is nil was null, which the server trips over.
	Data, Exist, Child, Persistent, Recursive []string
}

// A Credential is what a client shows to be somebody.
type Credential struct {
	Scheme string
	Secret []byte
}

// ParseHeader reads xid and operation of a request, and returns the rest.
func ParseHeader(body []byte) (Request, []byte, error) {
	d := NewDecoder(body)
	r := Request{Xid: d.Int32(), Op: Op(d.Int32())}
	if d.err != nil {
		return r, nil, d.err
	}
	return r, body[d.off:], nil
}

// ParseRequest reads a request whole. With an error, Xid and Op are right if
// they could be read.
func ParseRequest(body []byte) (Request, error) {
	r, rest, err := ParseHeader(body)
	if err != nil {
		return r, err
	}
	d := NewDecoder(rest)
	r.parse(d)
	return r, d.err
}

func (r *Request) path(d *Decoder) { r.Path, r.NullPath = d.NullString() }

func (r *Request) parse(d *Decoder) {
	switch r.Op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		r.path(d)
		r.Data = d.Buffer()
		r.ACL = d.ACLs()
		r.Flags = d.Int32()
		r.TTL = -1
		if r.Op == OpCreateTTL {
			r.TTL = d.Int64()
		}
	case OpDelete, OpCheck:
		r.path(d)
		r.Version = d.Int32()
	case OpSetData:
		r.path(d)
		r.Data = d.Buffer()
		r.Version = d.Int32()
	case OpSetACL:
		r.path(d)
		r.ACL = d.ACLs()
		r.Version = d.Int32()
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		r.path(d)
		r.Watch = d.Bool()
	case OpGetACL, OpSync, OpGetEphemerals, OpAllChildrenNumber, OpDeleteContainer:
		r.path(d)
	case OpAddWatch, OpRemoveWatches, OpCheckWatches:
		r.path(d)
		r.Mode = d.Int32()
	case OpMulti, OpMultiRead:
		r.parseOps(d)
	case OpSetWatches, OpSetWatches2:
		w := &Watches{RelativeZxid: d.Int64(), Data: d.Strings(), Exist: d.Strings(), Child: d.Strings()}
		w.Persistent, w.Recursive = []string{}, []string{}
		if r.Op == OpSetWatches2 {
			w.Persistent, w.Recursive = d.Strings(), d.Strings()
		}
		r.Watches = w
	case OpAuth:
		d.Int32() // unused
		r.Auth = &Credential{Scheme: d.String(), Secret: d.Buffer()}
	}
}

func (r *Request) parseOps(d *Decoder) {
	for {
		op, done := Op(d.Int32()), d.Bool()
		d.Int32() // error
		if d.err != nil || done {
			return
		}
		reads := op == OpGetData || op == OpGetChildren
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck, OpGetData, OpGetChildren:
		default:
			d.fail(fmt.Sprintf("%s in a %s", op, r.Op))
			return
		}
		if len(r.Ops) > 0 && reads != r.Ops[0].Reads() {
			d.fail("reads and writes together")
			return
		}
		sub := Request{Op: op}
		if reads {
			sub.path(d)
			sub.Watch = d.Bool()
		} else {
			sub.parse(d)
		}
		r.Ops = append(r.Ops, sub)
	}
}

// Reads tells whether a part of a multi is a read.
func (r *Request) Reads() bool { return r.Op == OpGetData || r.Op == OpGetChildren }

// Paths returns every path that the request names, in order.
func (r *Request) Paths() []string {
	if len(r.Ops) == 0 {
		if r.Path == "" {
			return nil
		}
		return []string{r.Path}
	}
	paths := make([]string, 0, len(r.Ops))
	for i := range r.Ops {
		paths = append(paths, r.Ops[i].Path)
	}
	return paths
}
