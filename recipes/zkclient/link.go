package zkclient

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A link is one TCP connection of a session. It sits between go-zookeeper and
// the network because that library keeps to itself what a lock must know: the
// negotiated timeout, when each acknowledged request was sent, that a server
// accepts connections and then says nothing. It reads frame headers only.
//
// The link keeps the latest zxid, and the library never learns one: go-zookeeper
// 1.0.4 reads its own while it builds the request that sets its watches again, and
// a reply that arrives meanwhile writes it, which is a data race. Replies reach it
// with zxid 0, which it ignores; its connect request and the watches that it sets
// again get the right one on their way out.
//
// go-zookeeper's deadlines are ignored; the session's watchdog closes a link
// that is late.
type link struct {
	net.Conn
	s    *Session
	in   *bufio.Reader
	born Instant

	server   string        // its address as configured
	patience time.Duration // with a server that does not greet

	// out is full while a frame is written; taken before mu. Not a mutex: a goroutine
	// may wait for it in a testing/synctest bubble.
	out     chan struct{}
	scratch []byte // for the frame of a parcel

	mu         sync.Mutex
	xid        int64                 // of the last parcel
	theirs     int64                 // of the library's last request
	unanswered int                   // bytes of sent
	greeted    bool                  // connect request sent
	welcome    bool                  // and answered
	sent       map[int32]sentRequest // unanswered, by xid
	pings      []Instant             // unanswered pings, oldest first
	received   Instant               // last time that anything came in
	closed     bool
	mute       bool // given up without a greeting

	gone   chan struct{} // closed with the link
	resent chan struct{} // closed when the library has sent its watches again
	held   bool          // what comes in waits for that; used by Read alone
	frame  frameReader
}

// sentRequest is a request that was not answered yet.
type sentRequest struct {
	at     Instant
	op     zkwire.Op
	led    bool
	bytes  int
	parcel *Parcel // nil: the library's
}

// throughLeader reports whether an operation is answered through the leader: by a
// server that is in touch with it. A follower that is cut off from the leader goes
// on answering pings and reads for a while. See touches for what such an answer proves.
func throughLeader(op zkwire.Op) bool {
	switch op {
	case zkwire.OpCreate, zkwire.OpDelete, zkwire.OpSetData, zkwire.OpSync, zkwire.OpMulti:
		return true
	}
	return false
}

// saysLeader reports whether the leader gave this answer: success, or an error that is
// about data, from NoNode (-101) to NotEmpty (-111). Other errors may be the server's own,
// or say that the session is no more. So may NoAuth (-102): with enableEagerACLCheck (3.6 and
// later) a follower refuses a write without asking the leader.
func saysLeader(code zkwire.Code) bool {
	return code == zkwire.OK || code <= zkwire.NoNode && code >= zkwire.NotEmpty && code != zkwire.NoAuth
}

var errSecondSession = errors.New("lockkeeper: the session is over; a connection serves one session only")

func newLink(conn net.Conn, s *Session) *link {
	now := s.clock.now()
	l := &link{
		Conn: conn, s: s, born: now, received: now,
		in:     bufio.NewReaderSize(conn, 16<<10),
		sent:   make(map[int32]sentRequest),
		gone:   make(chan struct{}),
		resent: make(chan struct{}),
		out:    make(chan struct{}, 1),
	}
	l.frame.greeting = true
	return l
}

// SetDeadline and its kin do nothing: see link.
func (l *link) SetDeadline(time.Time) error      { return nil }
func (l *link) SetReadDeadline(time.Time) error  { return nil }
func (l *link) SetWriteDeadline(time.Time) error { return nil }

// Close may be called more than once. It does not wait for the connection: TLS
// says good-bye for up to five seconds to a peer that takes nothing, and the
// goroutine that closes may be the one that watches the deadline.
func (l *link) Close() error {
	l.mu.Lock()
	was := l.closed
	if !was {
		close(l.gone)
	}
	l.closed = true
	unanswered := slices.Collect(maps.Values(l.sent))
	clear(l.sent)
	l.mu.Unlock()
	if was {
		return nil
	}
	now := l.s.clock.now()
	l.s.c.ending.Go(func() {
		for _, request := range unanswered {
			l.s.c.tell(request.op, request.at, now, OperationLost)
		}
		_ = l.Conn.SetDeadline(time.Unix(1, 0)) // readers and writers leave first
		_ = l.Conn.Close()
	})
	// Before any sender learns that its request was lost: what it sends next has
	// to wait until the next connection has caught up. The library reports the end
	// only later.
	l.s.lost(l)
	for _, request := range unanswered {
		if request.parcel != nil {
			request.parcel.fail(zk.ErrConnectionClosed)
		}
	}
	return nil
}

// Write sends one request: go-zookeeper writes whole frames.
func (l *link) Write(b []byte) (int, error) {
	if len(b) < 12 || int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		return 0, fmt.Errorf("lockkeeper: unexpected framing from the ZooKeeper client library (%d bytes)", len(b))
	}
	if zkwire.Op(binary.BigEndian.Uint32(b[8:])) == zkwire.OpSetWatches && l.isGreeted() {
		b = l.watchesAgain(b)
	}
	l.out <- struct{}{}
	defer func() { <-l.out }()
	now := l.s.clock.now()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return len(b), nil // see broken
	}
	first := !l.greeted
	l.greeted = true
	xid := int32(binary.BigEndian.Uint32(b[4:]))
	switch {
	case first:
	case xid == zkwire.XidPing:
		l.pings = append(l.pings, now)
	case xid > 0:
		op := zkwire.Op(binary.BigEndian.Uint32(b[8:]))
		l.sent[xid] = sentRequest{at: now, op: op, led: throughLeader(op), bytes: len(b)}
		l.theirs, l.unanswered = int64(xid), l.unanswered+len(b)
	}
	l.mu.Unlock()

	if !first {
		if _, err := l.Conn.Write(b); err != nil {
			l.broken(err)
		}
		return len(b), nil
	}
	// Connect request: protocol 4, last zxid 8, timeout 4, session id 8.
	if len(b) < 28 {
		return 0, errSecondSession
	}
	if id := int64(binary.BigEndian.Uint64(b[20:])); !l.s.mayGreet(id) {
		return 0, errSecondSession
	}
	out := slices.Clone(b)
	binary.BigEndian.PutUint64(out[8:], uint64(l.s.zxid.Load())) // no server may answer that knows less
	if auth := l.s.c.cfg.Auth; auth != nil {
		// With the greeting, and not through AddAuth: its resend can block the
		// library for ever.
		out = appendAuth(out, auth)
	}
	if _, err := l.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// broken makes the failure of a write show at the next Read, and only there. The
// library answers a request whose write has failed, answers it again together
// with all others that are open, and a third time if it is closed meanwhile: for
// that its channel has no room, and the library's loop would block for ever.
func (l *link) broken(err error) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if !closed { // else the reason is known
		l.s.note(err)
	}
	_ = l.Close()
}

// garbled ends the connection.
func (l *link) garbled(err error) error {
	err = fmt.Errorf("%s: %w", l.RemoteAddr(), err)
	l.broken(err)
	return err
}

func (l *link) isGreeted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.greeted
}

// watchesAgain returns the request that sets the library's watches again, with the
// zxid up to which their events have come. It must not be older than the answer to
// any read that set one of them: a waiter takes a change of its node for its grant,
// and the server tells of every change that is newer. Write calls it before another
// frame can keep the request from being written, and one goroutine at a time.
func (l *link) watchesAgain(b []byte) []byte {
	const at = 12 // behind length, xid and type
	if len(b) < at+8 {
		return b
	}
	b = slices.Clone(b)
	binary.BigEndian.PutUint64(b[at:], uint64(l.s.zxid.Load()))
	select {
	case <-l.resent: // the next of several
	default:
		close(l.resent)
	}
	return b
}

// awaitWatches keeps the first answer back until the library has sent its watches
// again, so that their zxid is that of the connection before. With a later one, as when
// the library takes longer, watches without a watcher miss a change and stay at the server.
func (l *link) awaitWatches() {
	l.held = false
	timer := time.NewTimer(min(l.s.TimeoutNow()/6, time.Second))
	defer timer.Stop()
	select {
	case <-l.resent:
	case <-timer.C:
	case <-l.gone:
	case <-l.s.over:
	}
}

func (l *link) isMute(now Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := !l.closed && now.Sub(l.born) > l.patience
	l.mute = l.mute || late
	return late
}

func (l *link) isSilent(now Instant, limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.received
	if len(l.pings) > 0 {
		oldest = min(oldest, l.pings[0])
	}
	for _, request := range l.sent {
		oldest = min(oldest, request.at)
	}
	return !l.closed && now.Sub(oldest) > limit
}

// wasMute reports, once, whether the server did not greet in time.
func (l *link) wasMute() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.mute
	l.mute = false
	return was
}

func appendAuth(b []byte, d *Digest) []byte {
	cred := d.User + ":" + d.Password
	start := len(b)
	b = zkwire.Int32(zkwire.BeginFrame(b), zkwire.XidAuth)
	b = zkwire.Int32(zkwire.Int32(b, int32(zkwire.OpAuth)), 0)
	b = zkwire.RawString(zkwire.RawString(b, "digest"), cred)
	return zkwire.EndFrame(b, start)
}
