package followers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	scope   = "cluster/orders"
	timeout = 10 * time.Second // of the sessions
	settled = 25 * time.Second // when a scenario begins: all clients are connected, heartbeats are regular
	ms      = time.Millisecond
)

// A world is an ensemble, a holder and a waiter of the same priority, in a bubble
// of their own.
type world struct {
	t      testing.TB
	e      *zktest.Ensemble
	start  time.Time
	holder *program
	waiter *program

	history *harness.History

	mu    sync.Mutex
	holds []*hold
}

func newWorld(t testing.TB, opts ...zktest.Option) *world {
	w := &world{t: t, start: time.Now(), history: harness.NewHistory(t)}
	w.e = zktest.RunEnsembleT(t, append([]zktest.Option{
		zktest.Pipe(), zktest.SessionTimeouts(time.Second, time.Hour),
	}, opts...)...)
	return w
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// until lets time pass up to an instant, and all clients do what is due by
// then.
func (w *world) until(at time.Duration) {
	if wait := at - w.now(); wait > 0 {
		<-time.After(wait)
	}
	synctest.Wait()
}

// story is what has happened, for the output of a test that failed.
func (w *world) story() string {
	return "members:\n" + strings.Join(w.e.History(), "\n") + "\nprograms:\n" + w.history.String()
}

// A program is a process with a client. It reaches only some members.
type program struct {
	w      *world
	name   string
	client *lock.Client

	mu      sync.Mutex
	reaches map[string]bool // by address; nil: all
	syncs   chan struct{}   // closed when it sends a sync or a write
	last    string          // address
	second  time.Duration   // of the writes that are counted
	writes  int
	busiest int // the most in a second
	stop    context.CancelFunc
	done    chan struct{}
}

// program starts a program that reaches these members, all without one.
func (w *world) program(name string, members []*zktest.Member, change ...func(*lock.Config)) *program {
	p := &program{w: w, name: name, syncs: make(chan struct{})}
	p.reach(members...)
	cfg := lock.Config{Servers: w.e.Servers(), Dialer: p.dial, SessionTimeout: timeout}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	p.client, err = lock.NewClient(cfg)
	require.NoError(w.t, err)
	require.NoError(w.t, p.client.Ready(context.Background()), name)
	return p
}

// close repairs everything and ends the programs.
func (w *world) close() {
	for _, m := range w.e.Members() {
		m.Resume()
		m.SetDelay(0)
		require.NoError(w.t, m.Start())
	}
	w.e.Heal()
	w.e.SetDelay(0)
	for _, p := range []*program{w.holder, w.waiter} {
		p.reach()
		if p.stop != nil {
			p.stop()
		}
	}
	for _, p := range []*program{w.holder, w.waiter} {
		if p.done != nil {
			<-p.done
		}
		p.close()
	}
	<-time.After(time.Second) // what the client library was about to write
}

// close waits for a request that was given up in the instant in which it was granted: it is
// given back beside.
func (p *program) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var busy *lock.BusyError
	err := p.client.Close(ctx)
	for ; errors.As(err, &busy) && ctx.Err() == nil; err = p.client.Close(ctx) {
		<-time.After(ms)
	}
	require.NoError(p.w.t, err, p.name)
}

// reach says which members the program reaches from now on, with new
// connections; all without one.
func (p *program) reach(members ...*zktest.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaches = nil
	if len(members) > 0 {
		p.reaches = make(map[string]bool)
		for _, m := range members {
			p.reaches[m.Addr()] = true
		}
	}
}

// goOffline lets the program open no more connections. Existing connections
// stay.
func (p *program) goOffline() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaches = map[string]bool{}
}

func (p *program) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	reached := p.reaches == nil || p.reaches[address]
	p.mu.Unlock()
	if !reached {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EHOSTUNREACH}
	}
	nc, err := p.w.e.Dialer(p.name)(ctx, network, address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.last = address
	p.mu.Unlock()
	return &tapped{Conn: nc, p: p}, nil
}

// address is that of the member to which the program has connected last.
func (p *program) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// A tapped connection notices what the leader will answer.
type tapped struct {
	net.Conn
	p         *program
	connected bool // the first frame was written
}

// latency is how long a request takes to its server: without it, a client that
// tries again at once would do so for ever in one instant.
const latency = 250 * time.Microsecond

func (c *tapped) Write(b []byte) (int, error) {
	<-time.After(latency)
	n, err := c.Conn.Write(b)
	if len(b) >= 12 && c.connected {
		c.p.sent(int32(binary.BigEndian.Uint32(b[8:])))
	}
	c.connected = true
	return n, err
}

const (
	opCreate = 1
	opDelete = 2
	opSet    = 5
	opSync   = 9
	opMulti  = 14
)

func (p *program) sent(op int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch op {
	case opSync, opMulti:
		close(p.syncs)
		p.syncs = make(chan struct{})
	}
	switch op {
	case opCreate, opDelete, opSet, opMulti:
		if p.second != p.w.now()/time.Second {
			p.second, p.writes = p.w.now()/time.Second, 0
		}
		p.writes++
		p.busiest = max(p.busiest, p.writes)
	}
}

// heartbeat waits until the program has sent a heartbeat, and until that is
// answered if it is at once.
func (p *program) heartbeat() {
	p.mu.Lock()
	sent := p.syncs
	p.mu.Unlock()
	select {
	case <-sent:
	case <-time.After(timeout / 2):
	}
	synctest.Wait()
}

// acquire has the program ask for the lock, again and again if it loses it or
// gives it back. It holds for as long as holds says, from now on; for ever if
// that is 0.
func (p *program) acquire(holds func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.done = cancel, make(chan struct{})
	l, err := p.client.PriorityLock(scope)
	require.NoError(p.w.t, err)
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			h := &hold{who: p, over: make(chan struct{})}
			grant, err := l.Acquire(ctx, lock.Request{Terms: priority.Terms{LeaseTimeout: time.Hour}, Notify: h.notice})
			if err != nil {
				p.w.history.Add(p.name, "not granted: %v", err)
				sleep(ctx, time.Second)
				continue
			}
			h.begin()
			var enough <-chan time.Time
			if d := holds(); d > 0 {
				enough = time.After(d)
			}
			select {
			case <-h.over:
				continue
			case <-ctx.Done():
			case <-enough:
			}
			h.end("releases")
			_ = grant.Release(context.WithoutCancel(ctx)) // or lost meanwhile
		}
	}()
}

func forever() time.Duration { return 0 }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A hold lasts from its grant until its holder learns that it is lost, or
// releases it.
type hold struct {
	who  *program
	over chan struct{}

	// These belong to the world's lock.
	from, till time.Duration
	session    int64
	ended      bool
}

func (h *hold) begin() {
	w := h.who.w
	w.history.Add(h.who.name, "granted")
	w.mu.Lock()
	defer w.mu.Unlock()
	h.from = w.now()
	h.session, _ = h.who.client.Session()
	w.holds = append(w.holds, h)
}

func (h *hold) notice(n lock.Notice) {
	if lost, ok := n.(lock.Lost); ok {
		h.end(fmt.Sprintf("lost: %v", lost.Err))
	}
}

func (h *hold) end(why string) {
	w := h.who.w
	w.mu.Lock()
	was := h.ended
	if !was {
		h.ended, h.till = true, w.now()
		close(h.over)
	}
	w.mu.Unlock()
	if !was {
		w.history.Add(h.who.name, "%s", why)
	}
}

// held is how many holds there have been.
func (w *world) held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.holds)
}

// A change is the lock's way from one program to another.
type change struct {
	told    time.Duration // when the holder was told of its loss, or gave back; negative: it was not
	granted time.Duration // when the other one was granted

	expired bool // the leader had ended the holder's session by then

	promised time.Duration // how long before that the holder learns of it at least, where that is known
}

// late tells whether the other one was granted before the holder was told. In
// one and the same instant it was, unless the holder has made way: a holder
// that has lost its hold deletes its node if it can. A session that expires leaves the margin.
func (c change) late() bool { return c.gap() < 0 || c.expired && c.gap() <= c.promised }

// gap is how long the lock was free; negative: how long both held it.
func (c change) gap() time.Duration {
	if c.told < 0 {
		return -timeout
	}
	return c.granted - c.told
}

func (c change) String() string {
	if c.told < 0 {
		return fmt.Sprintf("granted %s, the holder was not told", c.granted)
	}
	return fmt.Sprintf("told %s, granted %s, gap %s", c.told, c.granted, c.gap())
}

// changes returns how the lock has changed hands, in the order of the grants.
// Each grant is compared with the hold before it of another program that ended
// last.
func (w *world) changes() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []change
	for i, next := range w.holds {
		last := change{granted: next.from}
		found := false
		for _, h := range w.holds[:i] {
			switch {
			case h.who == next.who:
			case !h.ended:
				last.told, last.expired, found = -1, w.expired(h, next.from), true
			case last.told >= 0 && h.till >= last.told:
				last.told, last.expired, found = h.till, w.expired(h, next.from), true
			}
		}
		if found {
			all = append(all, last)
		}
	}
	return all
}

// expired tells whether a leader had ended the session of a hold by an instant.
func (w *world) expired(h *hold, at time.Duration) bool {
	s, ok := w.e.Session(h.session)
	return ok && !s.Ended.IsZero() && s.Ended.Sub(w.start) <= at
}

// worst returns the change with the smallest gap, if the lock has changed hands.
func (w *world) worst() (change, bool) {
	var least change
	all := w.changes()
	for i, c := range all {
		if i == 0 || c.gap() < least.gap() || c.late() && !least.late() {
			least = c
		}
	}
	return least, len(all) > 0
}
