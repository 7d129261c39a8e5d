package zkdiff

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// translator turns frames of one server into text that is the same for all servers that behave the same: sessions are
// numbered in the order of their beginning, and the time of a transaction is judged, not told.
type translator struct {
	sessions  map[int64]int
	passwords map[int64][]byte
	times     map[int64]int64 // the time of the transaction of a zxid
	zxid      int64           // the highest seen
}

func newTranslator() *translator {
	return &translator{sessions: map[int64]int{}, passwords: map[int64][]byte{}, times: map[int64]int64{}}
}

func (t *translator) session(id int64) string {
	if id == 0 {
		return "-"
	}
	if n, ok := t.sessions[id]; ok {
		return fmt.Sprintf("S%d", n)
	}
	return fmt.Sprintf("%#x", uint64(id))
}

// begin makes a session known.
func (t *translator) begin(s session) {
	if _, ok := t.sessions[s.id]; !ok {
		t.sessions[s.id] = len(t.sessions) + 1
		t.passwords[s.id] = s.password
	}
}

// welcome translates the answer to a greeting. The session's id is 0 when it was refused.
func (t *translator) welcome(frame []byte) (string, session) {
	d := decoder{buf: frame}
	version, timeout := d.int32(), d.int32()
	s := session{id: d.int64(), password: d.bytes()}
	readOnly := "absent"
	if len(d.buf) > 0 {
		readOnly = fmt.Sprint(d.bool())
	}
	kind := "new"
	if _, known := t.sessions[s.id]; known || s.id == 0 {
		kind = "another"
		if bytes.Equal(s.password, t.passwords[s.id]) {
			kind = "the session's"
		}
		if bytes.Equal(s.password, make([]byte, len(s.password))) {
			kind = "zeros"
		}
	} else if d.err == nil {
		t.begin(s)
	}
	return fmt.Sprintf("welcome version=%d timeout=%d session=%s password=%s(%d) readonly=%s%s",
		version, timeout, t.session(s.id), kind, len(s.password), readOnly, d.rest()), s
}

// frame translates a reply to op, or an event.
func (t *translator) frame(op Op, frame []byte) string {
	d := decoder{buf: frame}
	h := d.header()
	if d.err == nil {
		t.zxid = max(t.zxid, h.zxid)
	}
	var text string
	switch h.xid {
	case eventXid:
		text = fmt.Sprintf("event zxid=%d err=%d type=%d state=%d path=%s", h.zxid, h.code, d.int32(), d.int32(), quote(d.string()))
	case pingXid:
		text = fmt.Sprintf("pong zxid=%d err=%d", h.zxid, h.code)
	default:
		text = fmt.Sprintf("reply %s xid=%d zxid=%d err=%d", op, h.xid, h.zxid, h.code)
		if len(d.buf) > 0 {
			text += t.body(op, &d)
		}
	}
	return text + d.rest()
}

// rest reports what is wrong with a frame, and unexpected bytes.
func (d *decoder) rest() string {
	text := ""
	if d.err != nil {
		text = fmt.Sprintf(" BROKEN: %v", d.err)
	}
	if len(d.buf) > 0 {
		text += fmt.Sprintf(" rest=%x", d.buf[:min(len(d.buf), 200)])
	}
	return text
}

func (t *translator) body(op Op, d *decoder) string {
	switch op {
	case Create, Sync:
		return " path=" + quote(d.string())
	case Create2, CreateContainer, CreateTTL:
		return " path=" + quote(d.string()) + t.stat(d.stat())
	case Exists, SetData, SetACL, Check:
		return t.stat(d.stat())
	case GetData:
		return t.data(d.bytes()) + t.stat(d.stat())
	case GetACL:
		return " acl=" + aclString(sortedUsers(d.acl())) + t.stat(d.stat())
	case GetChildren, GetEphemerals:
		return t.names(d.strings())
	case GetChildren2:
		return t.names(d.strings()) + t.stat(d.stat())
	case GetAllChildrenNumber, AddWatch:
		return fmt.Sprintf(" number=%d", d.int32())
	case WhoAmI:
		var clients []string
		for n := d.int32(); n > 0 && d.err == nil; n-- {
			clients = append(clients, quote(d.string())+":"+quote(d.string()))
		}
		return t.names(clients)
	case Multi, MultiRead:
		return t.results(d)
	default:
		return ""
	}
}

func (t *translator) results(d *decoder) string {
	var text strings.Builder
	for d.err == nil {
		kind, done, code := Op(d.int32()), d.bool(), d.int32()
		fmt.Fprintf(&text, "\n    %s done=%t err=%d", kind, done, code)
		switch {
		case done:
			return text.String()
		case kind == -1:
			fmt.Fprintf(&text, " code=%d", d.int32())
		case kind == Delete || kind == Check:
		default:
			text.WriteString(t.body(kind, d))
		}
	}
	return text.String()
}

func (t *translator) data(data []byte) string {
	switch {
	case data == nil:
		return " data=null"
	case len(data) > 100:
		return fmt.Sprintf(" data=%q… (%d bytes)", data[:100], len(data))
	default:
		return fmt.Sprintf(" data=%q", data)
	}
}

// names are sorted: Java's hash sets have their own order.
func (t *translator) names(names []string) string {
	if names == nil {
		return " names=null"
	}
	slices.Sort(names)
	return fmt.Sprintf(" names=%q", names)
}

// sortedUsers sorts neighbours that may come from one entry for "auth": it stands for all users that the client is, in the
// order of a hash set.
func sortedUsers(acl []ACL) []ACL {
	for from := 0; from < len(acl); {
		to := from + 1
		for to < len(acl) && acl[to].Perms == acl[from].Perms && acl[to].Scheme == acl[from].Scheme {
			to++
		}
		slices.SortFunc(acl[from:to], func(a, b ACL) int { return strings.Compare(a.ID, b.ID) })
		from = to
	}
	return acl
}

func (t *translator) stat(s stat) string {
	return fmt.Sprintf(" c=%d@%s m=%d@%s p=%d version=%d cversion=%d aversion=%d owner=%s length=%d children=%d",
		s.czxid, t.time(s.czxid, s.ctime), s.mzxid, t.time(s.mzxid, s.mtime), s.pzxid,
		s.version, s.cversion, s.aversion, t.session(s.owner), s.length, s.children)
}

// time judges a time: that of the zxid, which is the same wherever it is seen, near that of its neighbour.
func (t *translator) time(zxid, ms int64) string {
	if zxid <= 0 || ms <= 0 {
		return fmt.Sprint(ms)
	}
	known, ok := t.times[zxid]
	if !ok {
		t.times[zxid] = ms
		if before, ok := t.times[zxid-1]; ok && ms < before {
			return fmt.Sprintf("BEFORE(%d)", zxid-1)
		}
		return "ok"
	}
	if known != ms {
		return "CHANGED"
	}
	return "ok"
}
