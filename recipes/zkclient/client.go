package zkclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/sony/gobreaker/v2"
)

// A Client is one process's way to ZooKeeper: one connection and one session,
// shared by everything that the process locks. It reconnects by itself, and
// starts a new session when one has ended. All methods may be called from any
// goroutine.
type Client struct {
	cfg     Config
	log     *slog.Logger // never blocks
	logged  *logQueue    // what is on its way to cfg.Logger
	root    string       // chroot included
	host    string
	pid     int
	closing context.Context // ends with Close
	stop    context.CancelFunc

	// Who the client is, see identify.
	identity  string
	self      aclID
	given     *standing                // by its configuration
	stands    atomic.Pointer[standing] // by that, or by ZooKeeper
	roomsMade atomic.Bool              // by this client, or they were there

	// Whether it knows that it may make nodes below the root, see Introduce.
	introduced  atomic.Bool
	introducing chan struct{} // has room for who finds out
	rootless    atomic.Int64  // the instant at which there was no root

	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	attached attachments

	mu      sync.Mutex
	current *Session
	changed chan struct{}  // closed when current is replaced
	ending  Backlog        // sessions that are not finished, connections that are not closed
	backlog Backlog        // nodes to delete, releases to finish, calls whose callers have left
	waiting map[string]int // requests in the queue, by scope
	server  serverClock
	// What Health and OnOperation tell.
	expirations atomic.Uint64
	connections atomic.Uint64
	greetings   atomic.Int32 // of servers since a connection was last of use
	operations  atomic.Pointer[func(Operation)]

	time clusterTime
}

// NewClient validates cfg and starts to connect in the background; it never
// waits for a server. It returns *RequestError values, joined, for a bad cfg.
func NewClient(cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	c := &Client{
		cfg: cfg, root: cfg.Chroot + cfg.Root, host: host, pid: os.Getpid(),
		changed: make(chan struct{}), waiting: make(map[string]int), time: newClusterTime(),
		introducing: make(chan struct{}, 1),
	}
	c.log, c.logged = newClientLog(cfg.Logger)
	c.identify()
	c.closing, c.stop = context.WithCancel(context.Background())
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "zookeeper",
		Timeout:     time.Second,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= 3 },
		// A caller in a hurry says nothing about ZooKeeper.
		IsSuccessful: func(err error) bool { return err == nil || errors.Is(err, errHurry) },
	})
	s, err := newSession(c)
	if err != nil {
		c.stop()
		return nil, &RequestError{Field: "servers", Reason: err.Error()}
	}
	c.current = s
	return c, nil
}

// Ready waits until the client has a session and can serve requests, as far as it is
// allowed to: see CheckIdentities. When ctx
// ends first, the error wraps its cause and an *UnavailableError that says what
// is known; after Close it is ErrClosed.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.UsableFor(ctx, false)
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", err, c.Unavailable())
}

// Session returns the id and the password of the present ZooKeeper session; 0
// when there is none. A client that has both can end the session.
func (c *Client) Session() (id int64, password []byte) {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, slices.Clone(s.password)
}

// SessionTimeout returns the negotiated session timeout: how long after the
// last sign of life the server frees what this client holds.
func (c *Client) SessionTimeout() time.Duration {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	return s.TimeoutNow()
}

// Close ends the session. While locks are held or requested it refuses with a
// *BusyError and changes nothing. It waits for what is still being cleaned up
// at the server until ctx ends, and no longer than the session timeout: what is
// left ends with the session. When no server answers for a few seconds, the
// session ends at the servers by its timeout; that is logged.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closing.Err() != nil {
		c.mu.Unlock()
		return ErrClosed
	}
	s := c.current
	busy := &BusyError{}
	for _, t := range s.holding() {
		busy.Held = append(busy.Held, t.Holding())
	}
	for scope := range c.waiting {
		busy.Requested = append(busy.Requested, scope)
	}
	if len(busy.Held)+len(busy.Requested) > 0 {
		c.mu.Unlock()
		slices.Sort(busy.Held)
		slices.Sort(busy.Requested)
		return busy
	}
	c.stop()
	c.mu.Unlock()

	if s.Usable() {
		patience := time.NewTimer(s.TimeoutNow())
		defer patience.Stop()
		select {
		case <-c.backlog.Done():
		case <-s.over:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	s.end(fmt.Errorf("%w: %w", ErrSessionOver, ErrClosed))
	select {
	case <-c.ending.Done():
		c.logged.flush()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Root is the node below which everything of this client is, the chroot included.
func (c *Client) Root() string { return c.root }

// Config is the configuration, with its defaults.
func (c *Client) Config() Config { return c.cfg }

// Host is the name of this machine, and PID the number of this process: what others see of the client.
func (c *Client) Host() string { return c.host }

// PID is the number of this process.
func (c *Client) PID() int { return c.pid }

// Log is where to log. It never blocks.
func (c *Client) Log() *slog.Logger { return c.log }

// Closing ends when Close is called.
func (c *Client) Closing() context.Context { return c.closing }

// Background runs f, which Close waits for.
func (c *Client) Background(f func()) { c.backlog.Go(f) }

// Current is the session that new requests are made in, usable or not.
func (c *Client) Current() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Untroubled reports whether a request may be sent without a look at anything else: the client may make nodes, is not
// being closed, and the last request did not fail.
func (c *Client) Untroubled() bool {
	return !c.IsClosing() && c.introduced.Load() && c.breaker.State() == gobreaker.StateClosed &&
		c.breaker.Counts().ConsecutiveFailures == 0
}

// IsClosing reports whether Close was called.
func (c *Client) IsClosing() bool { return c.closing.Err() != nil }

// replace starts a new session after old has ended.
func (c *Client) replace(old *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != old || c.IsClosing() {
		return
	}
	s, err := newSession(c)
	if err != nil {
		c.log.Error("cannot start a new ZooKeeper session", "error", err)
		return
	}
	c.current = s
	c.attached.SessionBegins()
	c.server.reset()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Usable waits for a session that can carry requests. It returns why this client
// must make no nodes here, see Introduce.
func (c *Client) Usable(ctx context.Context) (*Session, error) { return c.UsableFor(ctx, true) }

// UsableFor is Usable; who makes no nodes is not kept from looking.
func (c *Client) UsableFor(ctx context.Context, makes bool) (*Session, error) {
	for {
		c.mu.Lock()
		s, changed := c.current, c.changed
		c.mu.Unlock()
		if c.IsClosing() {
			return nil, ErrClosed
		}
		err := s.Await(ctx)
		if err == nil {
			err = c.greet(ctx, s)
		}
		switch {
		case err == nil, !makes && IsRefusal(err):
			return s, nil
		case errors.Is(err, ErrAmbiguous):
			continue
		case !errors.Is(err, ErrSessionOver):
			return nil, err
		}
		select {
		case <-changed:
		case <-c.closing.Done():
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Admit lets a new request in: it fails at once while ZooKeeper is known not
// to answer, and otherwise waits for it no longer than the connect timeout.
// Only new requests pass here; what gives a lock back or keeps it never does.
func (c *Client) Admit(ctx context.Context) (*Session, error) { return c.admitFor(ctx, true) }

// admitFor is Admit; who makes no nodes is not kept from looking.
func (c *Client) admitFor(ctx context.Context, makes bool) (*Session, error) {
	if c.IsClosing() {
		return nil, ErrClosed
	}
	done, err := c.breaker.Allow()
	if err != nil {
		return nil, c.Unavailable()
	}
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s.Usable() && c.mayPass() { // the usual case, without a timer
		done(nil)
		return s, nil
	}
	wait, cancel := context.WithTimeoutCause(ctx, c.cfg.ConnectTimeout, ErrSlow)
	defer cancel()
	s, err = c.UsableFor(wait, makes)
	switch {
	case err == nil:
		done(nil)
		return s, nil
	case errors.Is(err, ErrSlow):
		err = c.Unavailable()
		done(err)
		return nil, err
	case errors.Is(err, ErrClosed), IsRefusal(err):
		done(nil)
		return nil, err
	default: // the caller gave up
		done(errHurry)
		return nil, fmt.Errorf("%w: %w", err, c.Unavailable())
	}
}

var (
	// ErrSlow is the cause of an *UnavailableError when no server has answered in time.
	ErrSlow  = errors.New("no answer within the connect timeout")
	errHurry = errors.New("the caller left before the connect timeout")
)

// Unavailable says what is known of a ZooKeeper that does not answer.
func (c *Client) Unavailable() *UnavailableError {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &UnavailableError{Servers: c.cfg.Servers, Err: s.lastErr}
	if s.down {
		e.Since = s.clock.now().Sub(s.downFrom)
	}
	return e
}

// margin is how long before the server's expiry a hold ends.
func (c *Client) margin(timeout time.Duration) time.Duration {
	return c.cfg.MarginOf(timeout)
}

// Requested counts n requests more, or fewer, for something that people call scope: while there are any,
// Close returns a *BusyError.
func (c *Client) Requested(scope string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[scope] += n; c.waiting[scope] == 0 {
		delete(c.waiting, scope)
	}
}

// libraryLog sends the library's chatter to debug.
type libraryLog struct{ log *slog.Logger }

func (l libraryLog) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("zookeeper client", "message", fmt.Sprintf(format, args...))
	}
}

var _ zk.Logger = libraryLog{}

// dialNetwork is the default dialer.
func dialNetwork(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
