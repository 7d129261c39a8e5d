package lockguard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// auditLimit is how long it may take to put on record what overrides do to a
// request. What they do is late by as much.
const auditLimit = 5 * time.Second

// maxActs is how many acts of one override are remembered. Beyond it they are
// put on record once more.
const maxActs = 10_000

// actOn says on what an override acts.
type actOn uint8

const (
	requestActs actOn = iota // on requests, new or waiting
	holdActs                 // on holders
)

// An act is what an override does to one job at one lock: on record once.
type act struct {
	on                actOn
	scope, job, owner string
}

// acts remembers which acts of the overrides in force are on record.
type acts struct {
	mu   sync.Mutex
	of   map[string]map[act]*recording // by the fingerprint of the override
	seen *override.Override            // the first of those in force, when forget looked last: a Set is never changed
}

// A recording is an act that is on record, or is being put there.
type recording struct {
	done      chan struct{}
	err       error
	abandoned bool // its writer has given up, not failed
}

// once writes an entry unless that was done before.
func (a *acts) once(ctx context.Context, by string, what act, write func(context.Context) error) error {
	for {
		r, mine := a.begin(by, what)
		if mine {
			r.err = write(ctx)
			r.abandoned = ctx.Err() != nil
			a.end(by, what, r)
			return r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !r.abandoned || r.err == nil {
			return r.err
		}
	}
}

func (a *acts) begin(by string, what act) (r *recording, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.of[by][what]; r != nil {
		return r, false
	}
	if a.of == nil {
		a.of = make(map[string]map[act]*recording)
	}
	if a.of[by] == nil || len(a.of[by]) >= maxActs {
		a.of[by] = make(map[act]*recording)
	}
	r = &recording{done: make(chan struct{})}
	a.of[by][what] = r
	return r, true
}

func (a *acts) end(by string, what act, r *recording) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.err != nil && a.of[by][what] == r {
		delete(a.of[by], what)
	}
	close(r.done)
}

// forget drops what is known of overrides that are gone.
func (a *acts) forget(inForce override.Set) {
	if len(inForce) == 0 {
		return // the next one that comes is soon enough
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == &inForce[0] {
		return // thousands of requests may look at one change
	}
	a.seen = &inForce[0]
	if len(a.of) == 0 {
		return
	}
	stays := make(map[string]bool, len(inForce))
	for _, o := range inForce {
		stays[fingerprint(o)] = true
		if o.Kind == override.Extend {
			stays[fingerprint(leaseAlone(o))] = true
		}
	}
	for by := range a.of {
		if !stays[by] {
			delete(a.of, by)
		}
	}
}

// fingerprint tells an override from another one, and from what it was before
// it was applied anew. Whom it concerns does not matter.
func fingerprint(o override.Override) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %d %q %q", o.ID, o.Kind, o.Until.UnixNano(), o.By, o.Reason)
	if o.Priority != nil {
		fmt.Fprintf(&b, " priority=%d", *o.Priority)
	}
	if o.Forceful != nil {
		fmt.Fprintf(&b, " forceful=%t", *o.Forceful)
	}
	for _, d := range []*time.Duration{o.WaitingTimeout, o.AcquireTimeout, o.LeaseTimeout, o.CleanupTimeout} {
		b.WriteString(" " + orUnset(d))
	}
	return b.String()
}

// audit calls the auditor.
func (g *Guard) audit(ctx context.Context, entry opstore.AuditEntry) error {
	return protect("auditor", func() error { return g.auditor.Audit(ctx, entry) })
}

// named names what overrides can change as the configuration does.
func named(t priority.Terms) map[string]string {
	return map[string]string{
		"priority":        strconv.FormatInt(int64(t.Priority), 10),
		"forceful":        strconv.FormatBool(t.Forceful),
		"waiting_timeout": orUnset(t.WaitingTimeout),
		"acquire_timeout": orUnset(t.AcquireTimeout),
		"lease_timeout":   t.LeaseTimeout.String(),
		"cleanup_timeout": t.CleanupTimeout.String(),
	}
}

// differences are the terms that have changed.
func differences(before, after priority.Terms) (was, is map[string]string) {
	was, is = named(before), named(after)
	for name, value := range was {
		if is[name] == value {
			delete(was, name)
			delete(is, name)
		}
	}
	return was, is
}

func orUnset(d *time.Duration) string {
	if d == nil {
		return "unset"
	}
	return d.String()
}
