package zkclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
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

	zxid atomic.Int64 // the latest that a reply to a parcel told of

	watches  watchTable
	attached attachments

	over    chan struct{}
	overErr error
	living  context.Context // ends with the session
	die     context.CancelFunc
}

// A Tenant is something that is held by virtue of a session, and has to end
// before the session can. Its methods are called without locks, from any
// goroutine, and must not block.
type Tenant interface {
	// Holding names what is held, for people.
	Holding() string
	// Overdue reports whether it may be taken away without learning of it, were
	// the session cut off at that time.
	Overdue(now Instant) bool
	// AtRisk tells that ZooKeeper has been silent for long, and what is left.
	AtRisk(left time.Duration)
	// SessionLost ends it: the session has ended, or may have.
	SessionLost(cause error)
}

// A Reassured tenant is also notified when ZooKeeper answers again after
// AtRisk.
type Reassured interface{ Safe() }

// An Evictable tenant can be taken away while the session lives. It learns of
// that from its own node.
type Evictable interface {
	Tenant
	// Blink notes that its node may change unheard of until it is looked at again.
	Blink()
	// Blind reports whether that should have been done by now.
	Blind(now Instant) bool
}

// A Verifiable tenant looks now and then whether ZooKeeper still says that it holds.
type Verifiable interface {
	Tenant
	// VerifyDue reports whether it is time to look.
	VerifyDue(now Instant) bool
	// Verify looks. It ends the tenant that does not hold.
	Verify(ctx context.Context)
}

// ErrSessionOver wraps every error of a request whose session has ended.
var ErrSessionOver = errors.New("the ZooKeeper session has ended")

// ErrAmbiguous wraps the error of a request whose reply never came: it may or
// may not have been executed.
var ErrAmbiguous = errors.New("connection to ZooKeeper lost before the reply")

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

// --- what the connection tells -------------------------------------------

// dial connects to the next server. It waits between failed tries: the library
// itself would not, or would wait a whole second without jitter.
func (s *Session) dial(network, address string, _ time.Duration) (net.Conn, error) {
	s.mu.Lock()
	tries := s.tries
	s.tries++
	if s.link != nil && s.link.wasMute() {
		s.mutes++
	}
	// A server that has just started may accept a connection and forget it: the
	// first tries are short, the later ones patient with a busy ensemble.
	limit := min(max(s.timeout/3, 100*time.Millisecond), time.Second<<min(s.mutes, 6))
	s.mu.Unlock()
	// A server that greets and hangs up is left in peace like one that cannot be reached.
	if tries += int(s.c.greetings.Load()); tries > 0 {
		pause := min(10*time.Millisecond<<min(tries, 10), time.Second, limit)
		pause = pause/2 + rand.N(pause/2+1)
		select {
		case <-time.After(pause):
		case <-s.over:
		}
	}
	if s.IsOver() {
		return nil, errSecondSession
	}
	// Not the client's: what is cleaned up while it closes needs connections, too.
	ctx, cancel := context.WithTimeout(s.living, limit)
	defer cancel()
	conn, err := s.c.cfg.Dialer(ctx, network, address)
	if err != nil {
		s.note(err)
		return nil, err
	}
	l := newLink(conn, s)
	l.patience = limit
	s.mu.Lock()
	previous := s.link
	s.link = l
	s.mu.Unlock()
	if previous != nil {
		_ = previous.Close() // the library leaks the old one after some errors
	}
	return l, nil
}

// mayGreet reports whether a connect request with this session id may go out.
func (s *Session) mayGreet(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overErr == nil && id == s.id
}

// greeted takes each connect response. The goroutine that reads calls it.
func (s *Session) greeted(asked Instant, id int64, timeout time.Duration, password []byte) {
	if id == 0 {
		s.end(fmt.Errorf("%w: it expired at the server", ErrSessionOver))
		return
	}
	s.c.greetings.Add(1)
	s.mu.Lock()
	first := s.id == 0
	if !first {
		// A new leader goes by the timeout that the session began with.
		timeout = min(timeout, s.timeout)
	}
	s.id, s.timeout, s.password = id, timeout, password
	s.lastAck = max(s.lastAck, asked)
	s.touches.greeted(asked, first, timeout)
	s.tries, s.mutes, s.rebuffs = 0, 0, 0
	s.mu.Unlock()
	if first && timeout != s.c.cfg.SessionTimeout {
		s.c.log.Warn("ZooKeeper granted another session timeout than asked for",
			"asked", s.c.cfg.SessionTimeout, "granted", timeout)
	}
}

// acked notes an answer that came through the leader over the link.
func (s *Session) acked(l *link, a leaderReply, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAck = max(s.lastAck, a.sent)
	if write {
		s.touches.wrote(a.sent)
	}
	if s.link == l && s.touches.tellsMore(a.sent, s.timeout) { // else the next connection's answers have begun
		a.answered = s.clock.awake()
		s.touches.answered(a, s.timeout)
	}
}

func (s *Session) refused(err error) {
	s.note(err)
	s.c.log.Error("cannot use ZooKeeper", "error", err)
}

func (s *Session) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr != nil && errors.Is(err, zk.ErrConnectionClosed) {
		return // that follows from what is known
	}
	s.lastErr = err
}

// event is the library's callback. It must not block, nor call the library.
func (s *Session) event(e zk.Event) {
	switch {
	case e.Type != zk.EventSession:
		s.watches.fire(e)
	case e.State == zk.StateHasSession:
		s.mu.Lock()
		s.epoch++
		epoch := s.epoch
		s.mu.Unlock()
		go s.settle(epoch)
	case e.State == zk.StateDisconnected:
		s.disconnected()
	}
}

// settle makes a fresh connection usable: no read may come from before what
// this session has already seen, or from before its own lost replies.
func (s *Session) settle(epoch int) {
	s.mu.Lock()
	conn, l := s.conn, s.link
	s.mu.Unlock()
	if _, err := conn.Sync("/"); err != nil {
		_ = l.Close() // most likely it is closed already; the next connection settles
		return
	}
	s.mu.Lock()
	if s.epoch != epoch || s.overErr != nil || s.isReady {
		s.mu.Unlock()
		return
	}
	s.isReady = true
	close(s.ready)
	s.cut = make(chan struct{})
	wasDown := s.clock.now().Sub(s.downFrom)
	s.down, s.lastErr = false, nil
	id, timeout := s.id, s.timeout
	s.mu.Unlock()
	s.c.connections.Add(1)
	s.c.greetings.Store(0)
	s.heartbeat(s.clock.now())
	s.c.time.reconnected()
	s.watches.reconnected()
	s.c.log.Info("connected to ZooKeeper", "session", sessionName(id), "timeout", timeout, "after", wasDown.Round(time.Millisecond))
}

// lost takes the end of each connection. The call may be late: by then the next
// one may be ready.
func (s *Session) lost(l *link) {
	s.disconnectedIf(func() bool { return s.link == l && s.isReady })
}

func (s *Session) disconnected() { s.disconnectedIf(func() bool { return true }) }

// disconnectedIf asks with s.mu held.
func (s *Session) disconnectedIf(concerned func() bool) {
	s.mu.Lock()
	if !concerned() {
		s.mu.Unlock()
		return
	}
	s.epoch++ // what still settles, settles a connection that is gone
	if s.isReady {
		s.isReady = false
		s.ready = make(chan struct{})
		close(s.cut)
	}
	fresh := !s.down
	if fresh {
		s.down, s.downFrom = true, s.clock.now()
	}
	id, cause, ready := s.id, s.lastErr, s.ready
	s.mu.Unlock()
	s.watches.disconnected()
	for _, t := range s.holding() {
		if t, ok := t.(Evictable); ok {
			t.Blink()
		}
	}
	if s.Usable() { // the next connection is settled already: what its watchers have read since may be older than this
		s.watches.reconnected()
	}
	if fresh && !s.IsOver() {
		attrs := []any{"session", sessionName(id)}
		if cause != nil { // the server may have hung up without a word
			attrs = append(attrs, "cause", cause)
		}
		go s.tellOutage(ready)
		s.c.log.Warn("connection to ZooKeeper lost; holding on until the session's deadline", attrs...)
	}
	go s.LoseExposed()
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

// classify tells errors that say something about the data from those that say
// something about the connection.
func (s *Session) classify(err error) error {
	switch {
	case err == nil:
		return nil
	case s.IsOver():
		return s.overErr
	case errors.Is(err, zk.ErrNoAuth):
		return s.c.forbidden(err)
	case errors.Is(err, zk.ErrInvalidACL):
		return s.c.unknownIdentity(err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrAuthFailed),
		errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrNoChildrenForEphemerals),
		errors.Is(err, zk.ErrBadArguments):
		return err
	}
	var network net.Error
	switch {
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrNoServer),
		errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved), errors.Is(err, zk.ErrAPIError), errors.Is(err, zk.ErrShortBuffer), isUnknownSession(err),
		errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.As(err, &network):
		if !errors.Is(err, zk.ErrAPIError) && !errors.Is(err, zk.ErrShortBuffer) { // an answer, which the library cannot read
			s.note(err)
		}
		return fmt.Errorf("%w: %w", ErrAmbiguous, err)
	}
	return fmt.Errorf("ZooKeeper refused a request: %w", err)
}

// isUnknownSession reports whether the server has just ended the session: its
// code -12 (KeeperException.UnknownSessionException), which a request gets that
// was on its way meanwhile and for which the library has no error.
func isUnknownSession(err error) bool { return strings.HasSuffix(err.Error(), "unknown error: -12") }

func sessionName(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// hosts hands server names to the library in a shuffled circle. Names are
// resolved anew at each dial.
type hosts struct {
	s       *Session
	mu      sync.Mutex
	servers []string
	next    int
}

func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next never asks the library to pause, dial does that, until the session is
// over: only then does the library look whether it was closed.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	return server, h.s.IsOver()
}

func (h *hosts) Connected() {}

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
