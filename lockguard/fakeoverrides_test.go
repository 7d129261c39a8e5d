package lockguard

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// incident is an override that ends in an hour, for a test with a clock of its
// own.
func incident(kind override.Kind, change ...func(*override.Override)) override.Override {
	o := override.Override{
		ID: "INC-7", Kind: kind, By: "ana", Reason: "failing disks",
		Until: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC),
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

// fakeOverrides are what a test says is in force.
type fakeOverrides struct {
	mu      sync.Mutex
	set     override.Set
	changed chan struct{}
	stalled chan struct{} // closed to let the next reader go on; nil: no stall
}

func (f *fakeOverrides) InForce() (override.Set, <-chan struct{}) {
	f.mu.Lock()
	stalled := f.stalled
	f.stalled = nil
	f.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.set, f.changed
}

// stall keeps the next reader waiting, as a busy machine would, until what it returns is called.
func (f *fakeOverrides) stall() (goOn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stalled := make(chan struct{})
	f.stalled = stalled
	return func() { close(stalled) }
}

// put brings these into force, in place of all others.
func (f *fakeOverrides) put(all ...override.Override) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = all
	if f.changed != nil {
		close(f.changed)
	}
	f.changed = make(chan struct{})
}

// fakeAuditor keeps the entries that it is given.
type fakeAuditor struct {
	mu      sync.Mutex
	entries []opstore.AuditEntry
	err     error
	write   func(ctx context.Context, entry opstore.AuditEntry) error
}

func (f *fakeAuditor) Audit(ctx context.Context, entry opstore.AuditEntry) error {
	f.mu.Lock()
	write := f.write
	f.mu.Unlock()
	if write != nil {
		if err := write(ctx, entry); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	f.entries = append(f.entries, entry)
	return nil
}

func (f *fakeAuditor) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeAuditor) list() []opstore.AuditEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]opstore.AuditEntry(nil), f.entries...)
}

// A queue makes a fake locker's requests wait as the real one does: they follow their terms, until they are withdrawn or
// granted by the test.
type queue struct {
	mu     sync.Mutex
	places []*queuePlace
}

type queuePlace struct {
	scope   string
	request lock.Request
	open    chan struct{} // closed to grant
	done    chan struct{} // closed when it has left the queue

	mu    sync.Mutex
	terms lock.Revision
}

// wait is for fakeLocker.before.
func (q *queue) wait(ctx context.Context, g *fakeGrant) error {
	p := &queuePlace{scope: g.scope, request: g.request, open: make(chan struct{}), done: make(chan struct{})}
	defer close(p.done)
	terms, changed := lock.Revision{Terms: priority.Terms{Priority: g.request.Priority}}, (<-chan struct{})(nil)
	if g.request.Revise != nil {
		terms, changed = g.request.Revise()
	}
	if terms.Withdraw != nil {
		return withdrawn(terms.Withdraw)
	}
	p.terms = terms
	q.mu.Lock()
	q.places = append(q.places, p)
	q.mu.Unlock()
	g.request.Notify(lock.Queued{Position: 1})
	var over <-chan time.Time
	if d := g.request.AcquireTimeout; d != nil {
		timer := time.NewTimer(*d)
		defer timer.Stop()
		over = timer.C
	}
	for {
		var why error
		select {
		case <-p.open:
			return nil
		case <-ctx.Done():
			why = context.Cause(ctx)
		case <-over:
			why = &lock.NotAcquiredError{Scope: g.scope, Waited: *g.request.AcquireTimeout}
		case <-changed:
			terms, changed = g.request.Revise()
			if terms.Withdraw != nil {
				why = withdrawn(terms.Withdraw)
			} else if p.revise(terms) {
				g.request.Notify(lock.Revised{Revision: terms})
			}
		}
		if why != nil && q.leave(p) {
			return why
		}
	}
}

// leave reports false for one that was granted before.
func (q *queue) leave(p *queuePlace) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if isClosed(p.open) {
		return false
	}
	q.places = slices.DeleteFunc(q.places, func(o *queuePlace) bool { return o == p })
	return true
}

type withdrawnError struct{ why error }

func withdrawn(why error) error         { return &withdrawnError{why} }
func (e *withdrawnError) Error() string { return "request withdrawn: " + e.why.Error() }
func (e *withdrawnError) Unwrap() error { return e.why }

// waiting are the requests that stand in the queue.
func (q *queue) waiting() []*queuePlace {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []*queuePlace
	for _, p := range q.places {
		if !isClosed(p.done) {
			all = append(all, p)
		}
	}
	return all
}

// only is the one request that waits.
func (q *queue) only() *queuePlace {
	all := q.waiting()
	if len(all) != 1 {
		panic("there is not exactly one request in the queue")
	}
	return all[0]
}

// revise reports false for one that was granted before, and for terms that it has.
func (p *queuePlace) revise(terms lock.Revision) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.open) || sameTerms(terms, p.terms) {
		return false
	}
	p.terms = terms
	return true
}

// asks returns the terms with which the request stands in the queue.
func (p *queuePlace) asks() lock.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.terms
}
