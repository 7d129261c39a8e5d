package overrides

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

const (
	scope = virtual.Scope
	hour  = time.Hour

	// exact is how exact instants are here: a holder hears of a preemption up to 10ms late.
	exact = 100 * time.Millisecond
)

var (
	untilCancelled = virtual.UntilCancelled
	lasting        = virtual.Lasting
)

// A world has what operators have in force.
type world struct {
	*virtual.World

	board *board
}

func story(t *testing.T, f func(w *world)) {
	t.Helper()
	virtual.Run(t, func(w *virtual.World) { f(&world{w, &board{changed: make(chan struct{})}}) })
}

// A program obeys what is in force, and puts on record what it does.
type program struct {
	*virtual.Program

	board *board
	trail *trail
}

func (w *world) program(name string, options ...lockguard.Option) *program {
	w.Helper()
	client := w.Connect(name, virtual.Long)
	log, err := client.AuditLog(0)
	require.NoError(w, err)
	p := &program{board: w.board, trail: &trail{log: log}}
	own := []lockguard.Option{lockguard.WithOverrides(w.board), lockguard.WithAuditor(p.trail)}
	p.Program = w.Guard(name, client, append(own, options...)...)
	w.Begin()
	return p
}

// told are the names of the events, in order, without what every request begins with.
func (p *program) told() (names []string) {
	for _, line := range p.Told() {
		_, name, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return names
}

// acts are what is on record of one action.
func (p *program) acts(action opstore.AuditAction) (found []opstore.AuditRecord) {
	p.World.Helper()
	all, _, err := p.trail.log.Read(p.World.Context(), opstore.AuditQuery{})
	require.NoError(p.World, err)
	for _, r := range all {
		if r.Action == action {
			found = append(found, r)
		}
	}
	return found
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
	log *opstore.AuditLog

	mu  sync.Mutex
	err error // instead
}

func (a *trail) Audit(ctx context.Context, entry opstore.AuditEntry) error {
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
	ended  chan error // why a question ended without a decision; may be nil
	gently bool       // nothing that holders were promised is cut short
}

func (o operator) Approve(ctx context.Context, pending lockguard.Pending) (lockguard.Decision, error) {
	o.asked <- pending
	select {
	case err := <-o.say:
		return lockguard.Decision{ID: "a-0000000007", By: "ana", Reason: "month's end", AfterGrace: o.gently}, err
	case <-ctx.Done():
		if o.ended != nil {
			o.ended <- context.Cause(ctx)
		}
		return lockguard.Decision{}, context.Cause(ctx)
	}
}
