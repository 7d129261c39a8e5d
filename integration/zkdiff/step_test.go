package zkdiff

import (
	"bytes"
	"fmt"
	"strings"
)

// ACL is one entry of an access control list.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

// Step is one thing that is done to both servers. It says everything that the generator has decided, so that a list of
// steps can be replayed; only session ids and zxids are looked up when it is done.
type Step struct {
	On      int // the session
	Do      Op
	Path    string
	Data    []byte // nil: null
	Size    int    // Data is that many bytes instead
	ACL     []ACL  // nil: null
	Flags   int32
	TTL     int64
	Version int32
	Watch   bool
	Mode    int32      // of AddWatch, CheckWatches, RemoveWatches
	Paths   [][]string // of SetWatches: data, exist, child, persistent, recursive
	Back    int64      // of SetWatches: how many zxids ago the client has last heard of the server; -1: before Drop
	Scheme  string     // of Auth
	Subs    []Step     // of Multi and MultiRead
	Raw     []byte     // of Greeting, Frame, Bytes
	Cut     int        // the frame is that many bytes shorter
	Tail    int        // the frame is that many bytes longer
}

// frame returns the request as it is sent, without the length.
func (s Step) frame(xid int32, zxid int64) []byte {
	if s.Do == Frame || s.Do == Greeting {
		return s.Raw
	}
	var e encoder
	e.int32(xid)
	e.int32(int32(s.Do))
	s.body(&e, zxid)
	if s.Cut > 0 {
		e.buf = e.buf[:max(0, len(e.buf)-s.Cut)]
	}
	return append(e.buf, make([]byte, s.Tail)...)
}

// answered is the operation that the server answers.
func (s Step) answered() Op {
	if s.Do != Frame || len(s.Raw) < 8 {
		return s.Do
	}
	d := decoder{buf: s.Raw[4:]}
	return Op(d.int32())
}

func (s Step) body(e *encoder, zxid int64) {
	switch s.Do {
	case Create, Create2, CreateContainer, CreateTTL:
		e.string(s.Path)
		e.bytes(s.data())
		e.acl(s.ACL)
		e.int32(s.Flags)
		if s.Do == CreateTTL {
			e.int64(s.TTL)
		}
	case Delete, Check:
		e.string(s.Path)
		e.int32(s.Version)
	case Exists, GetData, GetChildren, GetChildren2:
		e.string(s.Path)
		e.bool(s.Watch)
	case SetData:
		e.string(s.Path)
		e.bytes(s.data())
		e.int32(s.Version)
	case SetACL:
		e.string(s.Path)
		e.acl(s.ACL)
		e.int32(s.Version)
	case GetACL, Sync, GetEphemerals, GetAllChildrenNumber, DeleteContainer:
		e.string(s.Path)
	case AddWatch, CheckWatches, RemoveWatches:
		e.string(s.Path)
		e.int32(s.Mode)
	case Auth:
		e.int32(0)
		e.string(s.Scheme)
		e.bytes(s.data())
	case SetWatches, SetWatches2:
		e.int64(zxid)
		lists := 3
		if s.Do == SetWatches2 {
			lists = 5
		}
		for i := range lists {
			if i < len(s.Paths) {
				e.strings(s.Paths[i])
			} else {
				e.strings([]string{})
			}
		}
	case Multi, MultiRead:
		for _, sub := range s.Subs {
			e.int32(int32(sub.Do))
			e.bool(false)
			e.int32(-1)
			sub.body(e, zxid)
		}
		e.int32(-1)
		e.bool(true)
		e.int32(-1)
	default: // has no body
	}
}

func (s Step) data() []byte {
	if s.Size > 0 {
		return make([]byte, s.Size)
	}
	return s.Data
}

// String returns the step as an element of a literal of type []Step.
func (s Step) String() string {
	var fields []string
	field := func(set bool, format string, args ...any) {
		if set {
			fields = append(fields, fmt.Sprintf(format, args...))
		}
	}
	field(s.On != 0, "On: %d", s.On)
	field(true, "Do: %s", s.Do)
	field(s.Path != "", "Path: %s", quote(s.Path))
	field(s.Data != nil, "Data: []byte(%q)", s.Data)
	field(s.Size != 0, "Size: %d", s.Size)
	field(s.ACL != nil, "ACL: %s", aclString(s.ACL))
	field(s.Flags != 0, "Flags: %d", s.Flags)
	field(s.TTL != 0, "TTL: %d", s.TTL)
	field(s.Version != 0, "Version: %d", s.Version)
	field(s.Watch, "Watch: true")
	field(s.Mode != 0, "Mode: %d", s.Mode)
	field(s.Paths != nil, "Paths: %s", pathsString(s.Paths))
	field(s.Back != 0, "Back: %d", s.Back)
	field(s.Scheme != "", "Scheme: %s", quote(s.Scheme))
	field(s.Raw != nil, "Raw: []byte(%q)", s.Raw)
	field(s.Cut != 0, "Cut: %d", s.Cut)
	field(s.Tail != 0, "Tail: %d", s.Tail)
	if s.Subs != nil {
		subs := make([]string, len(s.Subs))
		for i, sub := range s.Subs {
			subs[i] = sub.String()
		}
		fields = append(fields, "Subs: []Step{"+strings.Join(subs, ", ")+"}")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func quote(s string) string {
	if s == null {
		return "null"
	}
	return fmt.Sprintf("%q", s)
}

var everybody = []ACL{{31, "world", "anyone"}}

func aclString(acl []ACL) string {
	if len(acl) == 1 && acl[0] == everybody[0] {
		return "everybody"
	}
	entries := make([]string, len(acl))
	for i, a := range acl {
		entries[i] = fmt.Sprintf("{%d, %s, %s}", a.Perms, quote(a.Scheme), quote(a.ID))
	}
	return "[]ACL{" + strings.Join(entries, ", ") + "}"
}

func pathsString(lists [][]string) string {
	rendered := make([]string, len(lists))
	for i, list := range lists {
		quoted := make([]string, len(list))
		for j, s := range list {
			quoted[j] = quote(s)
		}
		rendered[i] = "{" + strings.Join(quoted, ", ") + "}"
		if list == nil {
			rendered[i] = "nil"
		}
	}
	return "[][]string{" + strings.Join(rendered, ", ") + "}"
}

// Script is a list of steps.
type Script []Step

// String returns the script as the Go literal that replay takes.
func (s Script) String() string {
	var text bytes.Buffer
	text.WriteString("Script{\n")
	for _, step := range s {
		fmt.Fprintf(&text, "\t%s,\n", step)
	}
	text.WriteString("}")
	return text.String()
}
