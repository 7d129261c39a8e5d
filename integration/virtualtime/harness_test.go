package virtualtime

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	scope = "cluster/orders"
	tick  = 2 * time.Second // of the server
	long  = time.Hour       // the longest session timeout: few pings in many hours
	day   = 24 * time.Hour
)

// A world is a server and the programs that use it, in a bubble of their own.
type world struct {
	t     *testing.T
	zk    *zktest.Server
	start time.Time // at a whole tick of the server, when all programs are connected

	mu    sync.Mutex
	lines []string // what happened, in case of failure
}

// story runs a test in a world of its own. It also fails when a goroutine
// outlives it.
func story(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, start: time.Now()}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("what happened:\n%s\nnodes:\n%s", strings.Join(w.lines, "\n"), w.zk.Dump())
			}
		})
		w.zk = zktest.RunT(t, zktest.Pipe(), zktest.TickTime(tick), zktest.SessionTimeouts(time.Second, long))
		f(t, w)
	})
}

// now is the time since the world began.
func (w *world) now() time.Duration { return time.Since(w.start) }

// until lets time pass up to an instant, and everybody do what is to be done
// by then.
func (w *world) until(at time.Duration) {
	w.t.Helper()
	require.GreaterOrEqual(w.t, at, w.now(), "that is over")
	<-time.After(at - w.now())
	synctest.Wait()
}

// contenders are the nodes of all requests.
func (w *world) contenders() []zktest.Node {
	return slices.DeleteFunc(w.zk.Tree("/lockkeeper/locks"), func(n zktest.Node) bool { return n.Stat.EphemeralOwner == 0 })
}

func (w *world) tell(who string, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%14s %-10s %s", w.now(), who, fmt.Sprintf(format, args...)))
}

// A program is a process that locks: a client, with a guard on it.
type program struct {
	w      *world
	name   string
	client *recipes.Client
	guard  *lockguard.Guard

	mu     sync.Mutex
	events []lockguard.Event
}

// program starts a program whose sessions have this timeout, before anything
// else happens. Its connections have its name.
func (w *world) program(name string, session time.Duration, change ...func(*recipes.Config)) *program {
	w.t.Helper()
	p := &program{w: w, name: name}
	cfg := recipes.Config{Dialer: w.zk.Dialer(name), SessionTimeout: session}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	p.client, err = recipes.NewClient(cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), day)
		defer cancel()
		require.NoError(w.t, p.client.Close(ctx), "close the client of %s", name)
	})
	p.guard, err = lockguard.New(p.client, lockguard.WithOwner(name), lockguard.WithObserver(p.observe))
	require.NoError(w.t, err)
	require.NoError(w.t, p.client.Ready(w.t.Context()))
	<-time.After(tick - time.Since(w.start)%tick) // to connect takes a moment
	w.start = time.Now()
	return p
}

func (p *program) observe(_ context.Context, event lockguard.Event) {
	p.w.tell(p.name, "%T %+v", event, event)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event)
}

// told is what the observers of a program were told and when, in order: without
// what every request begins with (Waiting, Queued), and without AtRisk and RiskOver, which
// depend on when the client looks at its watch.
func (p *program) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, event := range p.events {
		switch event.(type) {
		case lockguard.Waiting, lockguard.Queued, lockguard.AtRisk, lockguard.RiskOver:
		default:
			lines = append(lines, fmt.Sprintf("%s %s", event.About().At.Sub(p.w.start), reflect.TypeOf(event).Name()))
		}
	}
	return lines
}

// only returns the one event of a kind that a program was told.
func only[E lockguard.Event](p *program) E {
	p.w.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []E
	for _, event := range p.events {
		if e, ok := event.(E); ok {
			found = append(found, e)
		}
	}
	require.Len(p.w.t, found, 1, "%s was told %T", p.name, found)
	return found[0]
}

// session returns what the server knows of the program's session.
func (p *program) session() zktest.Session {
	p.w.t.Helper()
	for _, s := range p.w.zk.Sessions() {
		if id, _ := p.client.Session(); s.ID == id {
			return s
		}
	}
	require.FailNow(p.w.t, "the server knows no session of "+p.name)
	return zktest.Session{}
}

// A run is one call of Do.
type run struct {
	p    *program
	done chan struct{}

	// These are set when done is closed.
	err   error
	ended time.Duration

	mu      sync.Mutex
	begun   *lockguard.Hold
	begunAt time.Duration
}

// do calls Do in the background and lets it come as far as it does at once.
// Scope and a lease of a day need not be said.
func (p *program) do(r lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook) *run {
	p.w.t.Helper()
	r.Scope = scope
	if r.LeaseTimeout == 0 {
		r.LeaseTimeout = day
	}
	x := &run{p: p, done: make(chan struct{})}
	p.w.t.Cleanup(func() { <-x.done }) // the end of the test's context shuts it down; the client is closed after that
	go func() {
		defer close(x.done)
		x.err = p.guard.Do(p.w.t.Context(), r, func(ctx context.Context) error {
			x.begin(ctx)
			return work(ctx)
		}, hooks...)
		x.ended = p.w.now()
		p.w.tell(p.name, "done: %v", x.err)
	}()
	synctest.Wait()
	return x
}

func (x *run) begin(ctx context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun, _ = lockguard.FromContext(ctx)
	x.begunAt = x.p.w.now()
}

// hold returns what the work has in its context; nil before it begins.
func (x *run) hold() *lockguard.Hold {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.begun
}

// began returns when the work began.
func (x *run) began() time.Duration {
	x.p.w.t.Helper()
	require.NotNil(x.p.w.t, x.hold(), "the work of %s has not begun", x.p.name)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.begunAt
}

// returned waits for the end of the call and returns its error.
func (x *run) returned() error {
	x.p.w.t.Helper()
	select {
	case <-x.done:
	case <-time.After(2 * day):
		require.FailNow(x.p.w.t, x.p.name+"'s call has not returned")
	}
	synctest.Wait()
	return x.err
}

// holds tells whether the work runs and nobody has told it to stop.
func (x *run) holds() bool {
	hold := x.hold()
	return hold != nil && hold.Context().Err() == nil && hold.Check() == nil
}

// untilCancelled is work that stops when it is told to.
func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// lasting is work, or a hook, that takes that long whatever it is told.
func lasting(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		<-time.After(d)
		return nil
	}
}

// A ledger is what the lock protects. It refuses a token smaller than one that
// it has seen.
type ledger struct {
	mu      sync.Mutex
	highest lockguard.Token
}

type staleError struct{ token, highest lockguard.Token }

func (e *staleError) Error() string {
	return fmt.Sprintf("token %s is refused: %s was here", e.token, e.highest)
}

func (l *ledger) write(token lockguard.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.highest {
		return &staleError{token, l.highest}
	}
	l.highest = token
	return nil
}

// lostBy returns why a lock was lost, as an error says.
func lostBy(t *testing.T, err error) *lockguard.LostError {
	t.Helper()
	var lost *lockguard.LostError
	require.ErrorAs(t, err, &lost)
	return lost
}

// A freezer stops a program as SIGSTOP would, as far as a bubble can: what its
// connections do, and whoever waits for that, stands still.
type freezer struct {
	network bool // freezes what is sent and received, and not the watchdog
	mu      sync.Mutex
	thawed  chan struct{} // closed unless frozen
}

func newFreezer() *freezer {
	f := &freezer{thawed: make(chan struct{})}
	close(f.thawed)
	return f
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed = make(chan struct{})
}

func (f *freezer) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.thawed)
}

func (f *freezer) pass() {
	f.mu.Lock()
	thawed := f.thawed
	f.mu.Unlock()
	<-thawed
}

// through makes a program's connections stand still with f.
func through(f *freezer) func(*recipes.Config) {
	return func(cfg *recipes.Config) {
		dial := cfg.Dialer
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			f.pass()
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &frozenConn{conn, f}, nil
		}
	}
}

type frozenConn struct {
	net.Conn
	freezer *freezer
}

func (c *frozenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.freezer.pass()
	return n, err
}

func (c *frozenConn) Write(b []byte) (int, error) {
	c.freezer.pass()
	return c.Conn.Write(b)
}

func (c *frozenConn) Close() error {
	c.freezer.pass()
	return c.Conn.Close()
}

// RemoteAddr is what the watchdog asks for when nothing has come for two fifths of the
// session: it does not see the deadline pass.
func (c *frozenConn) RemoteAddr() net.Addr {
	if !c.freezer.network {
		c.freezer.pass()
	}
	return c.Conn.RemoteAddr()
}
