package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Session is one ZooKeeper session from its first connection to its end, on
// a zk.Conn of its own. go-zookeeper would go on with a new session after an
// expiry and send there what was queued for the old one; here a zk.Conn never
// gets a second session, so a request belongs to the session it was made for.
//
// A session is ready when it is connected and has caught up (sync) since the
// last connect. It is over when the server says so, or when the client gives
// it up. Between those it may be cut off: what is held ends at the deadline,
// what waits keeps its place in case the session survives.
type Session struct {
	c     *Client
	conn  *zk.Conn
	clock *clock

	mu       sync.Mutex
	id       int64
	password []byte
	timeout  time.Duration // negotiated; before that, asked for
	lastAck  Instant       // when the last request was sent that was answered through the leader
	touches  touches       // what of that the leader knows
	link     *link
	epoch    int           // counts connects and disconnects
	ready    chan struct{} // closed while requests may be sent
	cut      chan struct{} // closed while they may not
	isReady  bool
	beating  bool // a heartbeat is under way
	beat     Instant
	pace     time.Duration // from the last heartbeat to the next
	tries    int           // failed dials since the last connect
	mutes    int           // servers that did not greet since then
	rebuffs  int           // servers that hung up in place of a greeting since then
	rebuffed Instant
	lastErr  error // what went wrong last
	downFrom Instant
	down     bool
	tenants  map[Tenant]struct{}
	risk     bool // holders were told that they are at risk

	verifying bool // tenants are about to look whether they hold still

	zxid atomic.Int64 // the latest that a reply told of

	watches  watchTable
	attached attachments

	over    chan struct{}
	overErr error
	closed  atomic.Bool     // the server has answered the request that closes it
	living  context.Context // ends with the session
	die     context.CancelFunc
}

func newSession(c *Client) (*Session, error) {
	s := &Session{
		c: c, clock: newClock(), timeout: c.cfg.SessionTimeout,
		ready: make(chan struct{}), cut: make(chan struct{}), over: make(chan struct{}),
		tenants: make(map[Tenant]struct{}), watches: newWatchTable(), down: true,
	}
	s.living, s.die = context.WithCancel(context.Background())
	s.lastAck = s.clock.now()
	s.touches.begin(s.lastAck)
	s.downFrom = s.lastAck
	close(s.cut)
	s.mu.Lock() // the library's callbacks wait until conn is set
	defer s.mu.Unlock()
	conn, _, err := zk.Connect(c.cfg.Servers, c.cfg.SessionTimeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(&hosts{s: s}), zk.WithEventCallback(s.event),
		zk.WithLogger(libraryLog{c.log}), zk.WithLogInfo(false), zk.WithMaxBufferSize(maxReply))
	if err != nil {
		return nil, err
	}
	s.conn = conn
	c.ending.Go(func() { <-s.over; s.finish() })
	go s.watchdog()
	go s.tellOutage(s.ready)
	return s, nil
}

// --- end ---------------------------------------------------------------------

// IsOver reports whether the session has ended.
func (s *Session) IsOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// end makes the session over: holders lose, waiters queue again.
func (s *Session) end(err error) {
	s.mu.Lock()
	if s.overErr != nil {
		s.mu.Unlock()
		return
	}
	s.overErr = err
	id := s.id
	close(s.over)
	s.die()
	s.mu.Unlock()
	if !s.c.IsClosing() {
		if id != 0 {
			s.c.expirations.Add(1)
		}
		s.c.log.Warn("ZooKeeper session ended", "session", sessionName(id), "error", err)
	}
}

// finish cleans up after the end.
func (s *Session) finish() {
	s.lose(s.overErr) // planted-bug grant-of-another-session:
	go s.c.replace(s)
	s.conn.Close()
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	if errors.Is(s.overErr, ErrClosed) && !s.closed.Load() {
		s.closeAnew()
	}
}

// Owns reports whether an ephemeral node is this session's. One that was
// deleted and made again by another client does not go when the session does.
func (s *Session) Owns(stat *zk.Stat) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stat.EphemeralOwner == s.id
}

// Usable reports whether requests may be sent right now.
func (s *Session) Usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isReady && s.overErr == nil
}

// CutOff is closed when requests may not be sent any more.
func (s *Session) CutOff() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

// Await blocks until requests may be sent.
func (s *Session) Await(ctx context.Context) error {
	for {
		s.mu.Lock()
		ready, isReady, over := s.ready, s.isReady, s.overErr
		s.mu.Unlock()
		switch {
		case over != nil:
			return over
		case isReady:
			return nil
		}
		select {
		case <-ready:
		case <-s.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// call sends one request in this session and waits for its outcome. It does
// not return early when ctx ends after the request was sent: the outcome has
// to be known. That takes no longer than the watchdog needs to find the
// connection dead; callers that must leave sooner use Promptly.
func call[T any](ctx context.Context, s *Session, op func(*zk.Conn) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if err := s.Await(ctx); err != nil {
		return none, err
	}
	v, err := op(s.conn)
	if err != nil {
		return v, s.classify(err)
	}
	return v, nil
}

// Promptly runs f, which sends requests, and returns when f does or when ctx
// ends. Then f goes on in the background, and its outcome goes to late.
func Promptly[T any](ctx context.Context, c *Client, f func() (T, error), late func(T, error)) (T, error) {
	v, _, err := InBackground(ctx, c, 0, f, late)
	return v, err
}

func sessionName(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// Client is the one whose session it is.
func (s *Session) Client() *Client { return s.c }

// Now is the present on the clock of the session. Right after a suspend it may be early, see clock.
func (s *Session) Now() Instant { return s.clock.now() }

// Awake is Now, and notices a suspend.
func (s *Session) Awake() Instant { return s.clock.awake() }

// Over is closed at the end of the session, and then Err says why.
func (s *Session) Over() <-chan struct{} { return s.over }

// Err is why the session has ended. It may be called after that only.
func (s *Session) Err() error { return s.overErr }

// SessionID is its number at the servers; 0 before the first connection.
func (s *Session) SessionID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
