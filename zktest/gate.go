package zktest

import (
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A gate stands in one connection, between the client's stream of frames and the
// server's, and lets each frame pass, in order, as rules and partitions allow.
// It has no goroutine: the caller that brings a frame, or removes what one waits for,
// lets pass what can. It never waits itself.
//
// Its lock is not held while it calls deliver, send, cut or a rule's Where.
type gate struct {
	faults  *faults
	names   []string
	from    string // names, for the trace
	number  int    // in the order of opening
	deliver func(body []byte)
	send    func(frame []byte)
	cut     func()

	mu       sync.Mutex
	in, out  stream
	began    bool // the connect request was delivered
	greeted  bool // the first frame for the client has come
	arrived  bool // the first frame of the client has come
	hungUp   bool // the client has
	ended    bool // the server has
	severed  bool // a rule has
	closed   bool
	session  int64
	zxid     int64     // the last that was sent
	inFlight []inquiry // not answered, in order
}

// inbound takes a frame of the client, without its length. The bytes belong to
// the gate from now on.
func (g *gate) inbound(body []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.severed || g.ended || g.hungUp {
		return
	}
	f := frame{bytes: body, at: time.Now()}
	if g.arrived {
		f.op = opOf(body)
	} else {
		g.arrived = true
		f.op = zkwire.OpConnect
		r, _ := zkwire.ParseConnect(body)
		g.session, g.zxid = r.Session, r.LastZxid
	}
	g.trace(&f, false, nil)
	g.in.push(f)
	g.drainIn()
}

// outbound takes a frame for the client, with its length. The bytes belong to
// the gate from now on, and to all other gates that are given them.
func (g *gate) outbound(bytes []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.severed || g.ended {
		return
	}
	f := frame{bytes: bytes, at: time.Now()}
	g.answers(&f)
	g.trace(&f, true, nil)
	g.out.push(f)
	g.failNext()
	g.drainOut()
}

// hangUp tells that the client has hung up. deliver is called with nil when the
// frames before have passed. A client that hangs up before it was connected
// was never there: what it sent is forgotten.
func (g *gate) hangUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.hungUp {
		return
	}
	g.hungUp = true
	if !g.began {
		g.quit()
	}
	g.in.push(frame{end: func() { g.deliver(nil) }})
	g.drainIn()
	if g.ended {
		g.out.dropFrames()
		g.drainOut()
	}
}

// end tells that the server has done with the connection. finish is called, as
// send is, when the frames before have passed; nothing more is delivered but a
// nil. A client that has hung up waits for nothing.
func (g *gate) end(finish func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.ended {
		return
	}
	g.ended = true
	g.in.dropFrames()
	if g.hungUp {
		g.out.dropFrames()
	}
	g.out.push(frame{end: finish})
	g.drainOut()
}

// crash tells that the server is gone, with all that was under way. cut is
// called when the client can notice: at once, but for partitions.
func (g *gate) crash(cut func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.ended = true
	g.in.dropFrames()
	g.out.clear()
	g.out.push(frame{end: cut})
	g.drainOut()
}

// close forgets everything; the gate calls no function any more, apart from calls
// that are under way.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	for _, s := range []*stream{&g.in, &g.out} {
		s.stop()
		if f := s.head(); f != nil && f.rule != nil {
			f.rule.leave(g)
		}
	}
	g.mu.Unlock()
	g.faults.forget(g)
}

// partitioned tells whether nothing passes now.
func (g *gate) partitioned() bool { return g.faults.stopped.Load() || g.faults.partitioned(g.names) }

// sever cuts the connection.
func (g *gate) sever() {
	g.mu.Lock()
	if g.closed || g.severed {
		g.mu.Unlock()
		return
	}
	g.quit()
	g.mu.Unlock()
	g.cut()
}

// quit makes that only ends pass.
func (g *gate) quit() {
	g.severed = true
	g.in.dropFrames()
	g.out.dropFrames()
}

// resume lets pass what waits no more.
func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drainIn()
	g.drainOut()
}

func (g *gate) belongsTo(session int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.session == session && g.greeted
}

// without calls f without the gate's lock.
func (g *gate) without(f func()) {
	g.mu.Unlock()
	defer g.mu.Lock()
	f()
}

// stuck tells whether the head of a stream cannot pass now.
func (g *gate) stuck(s *stream) bool {
	f := s.head()
	if g.closed || f == nil {
		return true
	}
	if f.end != nil && (g.severed || g.ended && g.hungUp) {
		return false
	}
	return g.partitioned()
}

// drainIn lets requests pass. Others who come meanwhile leave theirs to it.
func (g *gate) drainIn() {
	if g.in.draining {
		return
	}
	g.in.draining = true
	defer func() { g.in.draining = false }()
	for !g.stuck(&g.in) {
		f := g.in.head()
		switch {
		case f.end != nil:
			g.without(g.in.pop().end)
		case !f.judged:
			g.judgeRequest(*f)
		case g.waits(&g.in, f):
			return
		case f.rule == nil:
			passed := g.in.pop()
			g.began = true
			g.inFlight = append(g.inFlight, inquiry{xid: xidOf(&passed), op: passed.op, rule: passed.onReply})
			g.without(func() { g.deliver(passed.bytes) })
		case f.rule.verb == failing:
			failed := g.in.pop()
			g.inFlight = append(g.inFlight, inquiry{xid: xidOf(&failed), op: failed.op, code: failed.rule.code})
			g.failNext()
			g.drainOut()
		default:
			g.quit()
			g.without(g.cut)
		}
	}
}

// drainOut lets replies and events pass, likewise.
func (g *gate) drainOut() {
	if g.out.draining {
		return
	}
	g.out.draining = true
	defer func() { g.out.draining = false }()
	for !g.stuck(&g.out) {
		f := g.out.head()
		switch {
		case f.end != nil:
			g.without(g.out.pop().end)
		case !f.judged:
			g.judgeEvent(f)
		case g.waits(&g.out, f):
			return
		case f.rule == nil:
			passed := g.out.pop()
			g.without(func() { g.send(passed.bytes) })
		default:
			g.quit()
			g.without(g.cut)
		}
	}
}

// judgeRequest looks for the rule that acts on the request at the head. It is
// not done when the request comes: rules that are set while it waits for its
// turn count.
func (g *gate) judgeRequest(f frame) {
	var rule *Rule
	if !g.faults.idle() {
		session := g.session
		g.without(func() {
			q := requestOf(&f)
			q.Session, q.From = session, g.names
			rule = g.faults.judge(func(r *Rule) bool { return r.takes(&q) })
		})
	}
	head := g.in.head()
	if head == nil || head.end != nil {
		return // the connection has ended meanwhile
	}
	head.judged = true
	if rule != nil && rule.onReply {
		head.onReply = rule
	} else {
		head.rule = rule
	}
}

func (g *gate) judgeEvent(f *frame) {
	f.judged = true
	if g.faults.idle() {
		return
	}
	_, rest, _ := zkwire.ParseReplyHeader(f.bytes[lengthSize:])
	kind, path, _ := zkwire.ParseNotification(rest)
	f.rule = g.faults.judge(func(r *Rule) bool {
		return r.match.matchesEvent(kind.String(), path, g.session, g.names)
	})
}

// waits lets the rule of a frame act, if there is one, and tells whether the
// frame has to stay. If it has not, its rule is nil, unless it drops or fails
// the frame.
func (g *gate) waits(s *stream, f *frame) bool {
	if f.rule == nil {
		return false
	}
	if !f.acts {
		if !f.rule.fire(g) {
			f.rule = nil
			return false
		}
		f.acts = true
		g.trace(f, s == &g.out, f.rule)
	}
	if f.rule.verb == dropping || f.rule.verb == failing {
		return false
	}
	left, keep := f.rule.keeps(g, f.at)
	switch {
	case !keep:
		f.rule = nil
	case left > 0:
		s.wake(left, g.resume)
	}
	return keep
}

// trace keeps a frame that has come, or what a rule does with it.
func (g *gate) trace(f *frame, toClient bool, rule *Rule) {
	e := Exchange{From: g.from, Session: g.session, ToClient: toClient, Rule: rule, op: f.op, body: f.bytes}
	at := f.at
	if rule != nil {
		at = time.Now()
	}
	if toClient {
		e.body = e.body[lengthSize:]
	}
	g.faults.trace.add(at, e)
}

// lengthSize is that of the length before each frame.
const lengthSize = 4
