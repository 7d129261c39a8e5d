package zktest

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// house is a fake server with gates in front of its connections. As the real
// one does, it takes its lock to execute, and answers with the lock held.
type house struct {
	*faults
	mu sync.Mutex
}

func newHouse() *house { return &house{faults: newFaults()} }

func (h *house) On(m Match) *Fault         { return h.on(m) }
func (h *house) Partition(names ...string) { h.partition(names...) }

// wireTap is one connection to a house.
type wireTap struct {
	t     *testing.T
	house *house
	gate  *gate
	xid   int32
	mute  bool // the server does not answer by itself

	mu       sync.Mutex
	executed []string // by the server; "hang up" at the end
	received []string // by the client
	cuts     int
}

// dial connects, as session 7.
func (h *house) dial(t *testing.T, names ...string) *wireTap {
	w := h.attach(t, names...)
	w.connect()
	return w
}

func (h *house) attach(t *testing.T, names ...string) *wireTap {
	w := &wireTap{t: t, house: h}
	w.gate = h.open(names, w.execute, w.receive, w.cut)
	t.Cleanup(w.gate.close)
	return w
}

func (w *wireTap) connect() {
	w.gate.inbound(connectBody(0))
}

func connectBody(session int64) []byte {
	hello := zkwire.ConnectRequest{Timeout: 10_000, Session: session, Password: make([]byte, 16)}
	return hello.Append(nil)[lengthSize:]
}

func (w *wireTap) execute(body []byte) {
	w.house.mu.Lock()
	defer w.house.mu.Unlock()
	w.mu.Lock()
	mute := w.mute
	if body == nil {
		w.executed = append(w.executed, "hang up")
		w.mu.Unlock()
		return
	}
	connect := len(w.executed) == 0
	if connect {
		w.executed = append(w.executed, "connect")
	} else {
		w.executed = append(w.executed, describeRequest(body))
	}
	w.mu.Unlock()
	switch {
	case mute:
	case connect:
		w.gate.outbound(zkwire.ConnectResponse{Timeout: 10_000, Session: 7, Password: make([]byte, 16)}.Append(nil))
	default:
		r, _, err := zkwire.ParseHeader(body)
		require.NoError(w.t, err)
		w.gate.outbound(replyFrame(r.Xid, int64(len(w.executed)), zkwire.OK))
	}
}

func replyFrame(xid int32, zxid int64, code zkwire.Code) []byte {
	return zkwire.EndFrame(zkwire.ReplyHeader{Xid: xid, Zxid: zxid, Code: code}.Append(zkwire.BeginFrame(nil)), 0)
}

// answer answers a request late.
func (w *wireTap) answer(xid int32) {
	w.house.mu.Lock()
	defer w.house.mu.Unlock()
	w.gate.outbound(replyFrame(xid, 1, zkwire.OK))
}

func (w *wireTap) tell(kind zkwire.EventType, path string) {
	w.house.mu.Lock()
	defer w.house.mu.Unlock()
	w.gate.outbound(zkwire.AppendNotification(nil, kind, path))
}

// receive is called with the house's lock held, or not: it may not take it.
func (w *wireTap) receive(frame []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.received) == 0 {
		w.received = append(w.received, "connected")
		return
	}
	h, rest, err := zkwire.ParseReplyHeader(frame[lengthSize:])
	require.NoError(w.t, err)
	if h.Xid == zkwire.XidNotification {
		kind, path, err := zkwire.ParseNotification(rest)
		require.NoError(w.t, err)
		w.received = append(w.received, kind.String()+" "+path)
		return
	}
	w.received = append(w.received, "#"+strconv.Itoa(int(h.Xid))+" "+h.Code.String())
}

func (w *wireTap) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts++
}

func (w *wireTap) saw() []string { return w.without(&w.executed, "connect") }
func (w *wireTap) got() []string { return w.without(&w.received, "connected") }

func (w *wireTap) without(list *[]string, first string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*list) > 0 && (*list)[0] == first {
		return slices.Clone((*list)[1:])
	}
	return slices.Clone(*list)
}

func (w *wireTap) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts > 0
}

// A body makes what follows the header of a request.
type body struct {
	op   zkwire.Op
	rest []byte
}

func (w *wireTap) ask(bodies ...body) {
	for _, b := range bodies {
		w.xid++
		w.gate.inbound(requestBody(w.xid, b))
	}
}

func requestBody(xid int32, b body) []byte {
	return append(zkwire.Int32(zkwire.Int32(nil, xid), int32(b.op)), b.rest...)
}

func create(path string) body {
	b := zkwire.Buffer(zkwire.String(nil, path), nil)
	return body{zkwire.OpCreate, zkwire.Int32(zkwire.ACLs(b, nil), zkwire.Persistent)}
}

func remove(path string) body {
	return body{zkwire.OpDelete, zkwire.Int32(zkwire.String(nil, path), -1)}
}

func exists(path string) body {
	return body{zkwire.OpExists, zkwire.Bool(zkwire.String(nil, path), true)}
}

func multi(ops ...body) body {
	var b []byte
	for _, op := range ops {
		b = append(zkwire.MultiHeader(b, op.op, false, -1), op.rest...)
	}
	return body{zkwire.OpMulti, zkwire.MultiHeader(b, -1, true, -1)}
}

func reached(r *Rule) bool {
	select {
	case <-r.Reached():
		return true
	default:
		return false
	}
}
