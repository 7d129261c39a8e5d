package overrides

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	scope = "cluster/orders"
	hour  = time.Hour
	day   = 24 * hour
)

// A world is a server and the programs that use it, in a bubble of their own,
// and what operators have in force there.
type world struct {
	t     *testing.T
	zk    *zktest.Server
	board *board
	start time.Time

	mu    sync.Mutex
	lines []string // what happened, in case of failure
}

// story runs a test in a world of its own. It also fails when a goroutine
// outlives it.
func story(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, board: &board{changed: make(chan struct{})}, start: time.Now()}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("what happened:\n%s\nnodes:\n%s", strings.Join(w.lines, "\n"), w.zk.Dump())
			}
		})
		w.zk = zktest.RunT(t, zktest.Pipe(), zktest.TickTime(2*time.Second), zktest.SessionTimeouts(time.Second, hour))
		f(t, w)
	})
}

// now is the time since the programs are there. A holder hears of a request to
// go up to 10ms late; a tenth of a second is exact enough here.
func (w *world) now() time.Duration { return time.Since(w.start).Truncate(100 * time.Millisecond) }

// pass lets time pass, and everybody do what is to be done by then.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	<-time.After(d)
	synctest.Wait()
}

func (w *world) tell(who string, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%12s %-8s %s", w.now(), who, fmt.Sprintf(format, args...)))
}

// lock is what anybody sees of the lock.
func (w *world) lock(p *program) recipes.LockState {
	w.t.Helper()
	state, err := p.client.Lock(w.t.Context(), scope)
	require.NoError(w.t, err)
	return state
}

// A board is what is in force.
type board struct {
	mu      sync.Mutex
	set     override.Set
	posted  override.Set // for as long as the test lasts
	changed chan struct{}
}

func (b *board) InForce() (override.Set, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(b.set, b.posted), b.changed
}

// post brings one into force that put leaves alone.
func (b *board) post(o override.Override) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.posted = append(slices.Clone(b.posted), o)
}

// put brings these into force, in place of all others.
func (b *board) put(all ...override.Override) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set = all
	close(b.changed)
	b.changed = make(chan struct{})
}

// incident is an override that ends in an hour.
func incident(kind override.Kind, change ...func(*override.Override)) override.Override {
	o := override.Override{ID: "INC-7", Kind: kind, By: "ana", Reason: "failing disks", Until: time.Now().Add(hour)}
	for _, f := range change {
		f(&o)
	}
	return o
}

func boost(job string, to priority.Level) override.Override {
	return incident(override.Boost, func(o *override.Override) { o.Match.Job, o.Priority = job, &to })
}

// A trail is an audit trail in ZooKeeper, as a Guard wants it.
type trail struct {
	log *recipes.AuditLog

	mu  sync.Mutex
	err error // instead
}

func (a *trail) Audit(ctx context.Context, entry recipes.AuditEntry) error {
	a.mu.Lock()
	err := a.err
	a.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = a.log.Append(ctx, entry)
	return err
}

func (a *trail) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// An operator decides when a test says so.
type operator struct {
	asked  chan lockguard.Pending
	say    chan error
	gently bool // nothing that holders were promised is cut short
}

func (o operator) Approve(ctx context.Context, pending lockguard.Pending) (lockguard.Decision, error) {
	o.asked <- pending
	select {
	case err := <-o.say:
		return lockguard.Decision{ID: "a-0000000007", By: "ana", Reason: "month's end", AfterGrace: o.gently}, err
	case <-ctx.Done():
		return lockguard.Decision{}, context.Cause(ctx)
	}
}

// A program is a process that locks: a client, with a guard on it.
type program struct {
	w      *world
	name   string
	client *recipes.Client
	guard  *lockguard.Guard
	trail  *trail

	mu     sync.Mutex
	events []lockguard.Event
}

func (w *world) program(name string, options ...lockguard.Option) *program {
	w.t.Helper()
	p := &program{w: w, name: name}
	var err error
	p.client, err = recipes.NewClient(recipes.Config{Dialer: w.zk.Dialer(name), SessionTimeout: hour})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), day)
		defer cancel()
		require.NoError(w.t, p.client.Close(ctx), "close the client of %s", name)
	})
	log, err := p.client.AuditLog(0)
	require.NoError(w.t, err)
	p.trail = &trail{log: log}
	p.guard, err = lockguard.New(p.client, append([]lockguard.Option{
		lockguard.WithOwner(name), lockguard.WithObserver(p.observe),
		lockguard.WithOverrides(w.board), lockguard.WithAuditor(p.trail),
	}, options...)...)
	require.NoError(w.t, err)
	require.NoError(w.t, p.client.Ready(w.t.Context()))
	w.start = time.Now()
	return p
}

func (p *program) observe(_ context.Context, event lockguard.Event) {
	p.w.tell(p.name, "%T %+v", event, event)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event)
}

// told are the names of the events, in order.
func (p *program) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, event := range p.events {
		names = append(names, reflect.TypeOf(event).Name())
	}
	return names
}

// acts are what is on record of one action.
func (p *program) acts(action recipes.AuditAction) []recipes.AuditRecord {
	p.w.t.Helper()
	var found []recipes.AuditRecord
	all, _, err := p.trail.log.Read(p.w.t.Context(), recipes.AuditQuery{})
	require.NoError(p.w.t, err)
	for _, r := range all {
		if r.Action == action {
			found = append(found, r)
		}
	}
	return found
}

// A run is one call of Do, or of Override.
type run struct {
	p    *program
	done chan struct{}

	// These are set when done is closed.
	err   error
	ended time.Duration

	mu    sync.Mutex
	begun *lockguard.Hold
	at    time.Duration
}

// do calls Do in the background, with a lease of a day unless it says another,
// and lets it come as far as it does at once.
func (p *program) do(r lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook) *run {
	p.w.t.Helper()
	r.Scope = scope
	if r.LeaseTimeout == 0 {
		r.LeaseTimeout = day
	}
	return p.run(func(x *run) error {
		return p.guard.Do(p.w.t.Context(), r, func(ctx context.Context) error {
			x.begin(ctx)
			return work(ctx)
		}, hooks...)
	})
}

func (p *program) run(call func(*run) error) *run {
	p.w.t.Helper()
	x := &run{p: p, done: make(chan struct{})}
	p.w.t.Cleanup(func() { <-x.done })
	go func() {
		defer close(x.done)
		x.err = call(x)
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
	x.at = x.p.w.now()
}

// hold returns what the work has; nil before it begins.
func (x *run) hold() *lockguard.Hold {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.begun
}

func (x *run) began() time.Duration {
	x.p.w.t.Helper()
	require.NotNil(x.p.w.t, x.hold(), "the work of %s has not begun", x.p.name)
	return x.at
}

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
