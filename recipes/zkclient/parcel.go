package zkclient

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Parcel is one request that goes past go-zookeeper: the sending goroutine
// writes it to the connection itself, and the goroutine that reads from that
// delivers the reply. Through the library it takes one goroutine more in each
// direction and several times the processor time, most of it to find out by
// reflection what a request consists of.
//
// Only what sets no watch goes as a parcel, so the library need not know of it: not of
// the reply either, which it never sees. Those come in order with all else: what the
// server sent before has been dealt with by then.
type Parcel struct {
	op   zkwire.Op
	ops  []any
	sent Instant       // by the clock of clusterTime
	then func(*Parcel) // see PostThen; nil: nothing

	done    chan struct{} // what follows is there
	err     error
	results []zk.MultiResponse
	data    []byte   // of a node that was read
	names   []string // of the children that were listed

	// What results are made of.
	few   [4]zk.MultiResponse
	stats [2]zk.Stat
	used  int
}

// inlineWindow is how many bytes may be on their way without an answer when a
// sender sends that must not block: they fit into the buffers of any
// connection, so that writing does not block.
const inlineWindow = 16 << 10

// replyHeader is how many bytes a reply has at least: xid, zxid and error.
const replyHeader = 16

// maxReply is how many bytes a reply may have. ZooKeeper's own limit
// (jute.maxbuffer) is 1 MiB by default.
const maxReply = 64 << 20

// Post sends a request as a parcel. It returns nil when the library has to send
// it: there is no connection, or not for sure.
func (s *Session) Post(op zkwire.Op, ops []any, inline bool) *Parcel {
	return s.PostThen(op, ops, inline, nil)
}

// PostThen does something with the reply before any other goroutine learns of
// it, on the goroutine that reads: it must not wait for anything.
func (s *Session) PostThen(op zkwire.Op, ops []any, inline bool, then func(*Parcel)) *Parcel {
	s.mu.Lock()
	l, fit := s.link, s.isReady && s.overErr == nil
	s.mu.Unlock()
	if !fit {
		return nil
	}
	p := &Parcel{op: op, ops: ops, sent: s.c.time.clock.now(), then: then, done: make(chan struct{})}
	if !l.post(p, inline) {
		return nil
	}
	return p
}

// Arrives waits for the reply; false: ctx has ended before.
func (p *Parcel) Arrives(ctx context.Context, s *Session) bool {
	select {
	case <-p.done:
	case <-s.over:
	case <-ctx.Done():
		return false
	}
	return true
}

// Succeeded reports whether the reply is there, and is a good one.
func (p *Parcel) Succeeded() bool {
	return p.isDone() && p.err == nil
}

// Done is closed when the reply is there, or cannot come any more.
func (p *Parcel) Done() <-chan struct{} { return p.done }

// Names are the children of a node that was listed.
func (p *Parcel) Names() []string { return p.names }

// Stat is that of the first node of a good reply.
func (p *Parcel) Stat() *zk.Stat { return p.results[0].Stat }

func (p *Parcel) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Outcome waits for the reply to a transaction, and returns what Multi would.
func (s *Session) Outcome(p *Parcel) ([]zk.MultiResponse, int, error) {
	r, err := p.reply(s)
	if err != nil {
		err = s.classify(err)
	}
	return s.concluded(p.ops, p.sent, r, err)
}

// Answered is what Outcome will return, for a callback that gets the reply
// first: see PostThen. false: the request has failed.
func (s *Session) Answered(p *Parcel) ([]zk.MultiResponse, bool) {
	if p.err != nil {
		return nil, false
	}
	r, _, _ := s.concluded(p.ops, p.sent, p.results, nil)
	return r, true
}

// reply waits for the reply, and returns what the library would have returned.
func (p *Parcel) reply(s *Session) ([]zk.MultiResponse, error) {
	select {
	case <-p.done:
	case <-s.over:
		if !p.isDone() { // else it tells what became of the request, and the session's end does not
			return nil, zk.ErrClosing
		}
	}
	return p.results, p.err
}

// fail ends the wait for a reply that cannot come any more.
func (p *Parcel) fail(err error) {
	p.err, p.results = err, nil
	p.arrived()
}

func (p *Parcel) arrived() {
	if p.then != nil {
		p.then(p)
	}
	close(p.done)
}

// deliver reads the reply, header included. With an error it is no reply to
// this request: then the sender is not notified.
func (p *Parcel) deliver(reply []byte) error {
	p.err = wireError(zkwire.Code(binary.BigEndian.Uint32(reply[12:])))
	if p.err == nil && !p.read(zkwire.NewDecoder(reply[replyHeader:])) {
		return fmt.Errorf("the reply to a request (%s) cannot be read: %w", operationName(p.op), errGarbled)
	}
	p.arrived()
	return nil
}

// read reports whether the reply is one to the request.
func (p *Parcel) read(r *zkwire.Decoder) bool {
	p.results = p.few[:0]
	switch p.op {
	case zkwire.OpMulti:
	default:
		p.results = append(p.results, p.result(p.op, r))
		return r.Err() == nil
	}
	for done := 0; ; { // operations that are answered as such
		op, last := zkwire.Op(r.Int32()), r.Bool()
		_ = r.Int32() // the error again, or nothing
		at := len(p.results)
		switch {
		case r.Err() != nil:
			return false
		case last:
			return p.err != nil || done == len(p.ops)
		case at == len(p.ops):
			return false
		case op == zkwire.OpError:
		case op == opOf(p.ops[at]), op == zkwire.OpCreate2 && opOf(p.ops[at]) == zkwire.OpCreate:
			// so the creation of a container is answered
			done++
		default:
			return false
		}
		result := p.result(op, r)
		p.results = append(p.results, result)
		if p.err == nil {
			p.err = result.Error // the first one
		}
	}
}

// result reads what one operation has returned.
func (p *Parcel) result(op zkwire.Op, r *zkwire.Decoder) (result zk.MultiResponse) {
	switch op {
	case zkwire.OpError:
		result.Error = wireError(zkwire.Code(r.Int32()))
	case zkwire.OpCreate:
		result.String = r.RawString()
	case zkwire.OpCreate2:
		result.String = r.RawString()
		_ = r.Stat()
	case zkwire.OpSetData:
		if p.used < len(p.stats) {
			result.Stat = &p.stats[p.used]
			p.used++
		} else {
			result.Stat = new(zk.Stat)
		}
		*result.Stat = zk.Stat(r.Stat())
	case zkwire.OpGetData:
		p.data = slices.Clone(r.Buffer())
		result.Stat = new(zk.Stat) // which may be kept
		*result.Stat = zk.Stat(r.Stat())
	case zkwire.OpGetChildren2:
		p.names = r.RawStrings()
		result.Stat = new(zk.Stat)
		*result.Stat = zk.Stat(r.Stat())
	}
	return result
}

// --- on a link -----------------------------------------------------------------

// post sends a parcel; false: it was not sent. With inline it is sent only if that does
// not block.
func (l *link) post(p *Parcel, inline bool) bool {
	if inline {
		select {
		case l.out <- struct{}{}:
		default:
			return false
		}
	} else {
		l.out <- struct{}{}
	}
	defer func() { <-l.out }()
	frame := appendFrame(l.scratch[:0], p.op, p.ops)
	if cap(frame) <= inlineWindow {
		l.scratch = frame[:0]
	}
	now := l.s.clock.now()
	l.mu.Lock()
	if l.closed || !l.welcome || inline && l.unanswered+len(frame) > inlineWindow {
		l.mu.Unlock()
		return false
	}
	xid := l.nextXidLocked()
	l.sent[xid] = sentRequest{at: now, op: p.op, led: throughLeader(p.op), parcel: p, bytes: len(frame)}
	l.unanswered += len(frame)
	l.mu.Unlock()
	binary.BigEndian.PutUint32(frame[4:], uint32(xid))
	if _, err := l.Conn.Write(frame); err != nil {
		l.broken(err) // which fails it
	}
	return true
}

// nextXidLocked names a parcel. The library counts its own requests from 1, and
// begins anew after 2³¹ of them: parcels stay far away from where it is.
func (l *link) nextXidLocked() int32 {
	const round, far = 1 << 31, 1 << 28
	l.xid = (l.xid + 1) % round
	if ahead := (l.xid - l.theirs + round) % round; ahead < far || ahead > round-far || l.xid == 0 {
		l.xid = (l.theirs + round/2) % round
		l.xid = max(l.xid, 1)
	}
	return int32(l.xid)
}

// receive takes the replies to parcels out of what comes in, up to the next frame
// that is the library's. It is called by Read, between two frames. What is left at an
// error is no whole frame.
func (l *link) receive() error {
	for {
		head, err := l.in.Peek(4)
		if err != nil {
			return err
		}
		length := int(binary.BigEndian.Uint32(head))
		if err := l.frame.check(length); err != nil {
			return l.garbled(err)
		}
		if head, err = l.in.Peek(8); err != nil {
			return err
		}
		size := 4 + length
		xid := int32(binary.BigEndian.Uint32(head[4:]))
		l.mu.Lock()
		ours := l.sent[xid].parcel != nil
		l.mu.Unlock()
		if !ours || xid <= 0 {
			return nil
		}
		if err := l.receiveParcel(size); err != nil {
			return err
		}
	}
}

func (l *link) receiveParcel(size int) error {
	var frame []byte
	if size <= l.in.Size() {
		var err error
		if frame, err = l.in.Peek(size); err != nil {
			return err
		}
		defer func() { _, _ = l.in.Discard(size) }()
	} else {
		frame = make([]byte, size)
		if _, err := io.ReadFull(l.in, frame); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.received = l.s.clock.now()
	l.mu.Unlock()
	if p := l.header(frame[4:], false); p != nil {
		if err := p.deliver(frame[4:]); err != nil {
			defer p.fail(zk.ErrConnectionClosed) // not before the connection is closed, see Close
			return l.garbled(err)
		}
	}
	return nil
}
