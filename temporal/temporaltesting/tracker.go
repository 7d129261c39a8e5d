package temporaltesting

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// patience is how long something that is to happen may take, in real time.
const patience = 30 * time.Second

type phase string

const (
	asking phase = "asking" // whether it is granted is not known yet
	queued phase = "waiting"
	held   phase = "holding"
)

// A request is one that lives, as the guards tell of it.
type request struct {
	about lockguard.Subject
	phase phase
	asked bool // to release
	rival bool
}

func (r *request) String() string {
	text := fmt.Sprintf("%q %s", r.about.Owner, r.phase)
	if r.asked {
		text += ", preempted"
	}
	return text
}

// A tracker knows who waits for which lock and who has it, by the events of all
// guards of a test.
type tracker struct {
	patience time.Duration

	mu       sync.Mutex
	events   []lockguard.Event
	requests map[string]*request // by their ids
	keepers  map[string]*keeper  // of workflows, by their names
	changed  chan struct{}

	protected map[string]bool // scopes in which rivals do not go at once
}

func newTracker() *tracker {
	return &tracker{
		patience: patience, requests: make(map[string]*request), keepers: make(map[string]*keeper),
		changed: make(chan struct{}), protected: make(map[string]bool),
	}
}

func (t *tracker) changedLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// observer is for the guard of the worker, or for that of the rivals.
func (t *tracker) observer(rival bool) lockguard.Observer {
	return func(_ context.Context, event lockguard.Event) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.events = append(t.events, event)
		about := event.Subject
		if about.ID != "" {
			t.noteLocked(event, about, rival)
		}
		t.changedLocked()
	}
}

func (t *tracker) noteLocked(event lockguard.Event, about lockguard.Subject, rival bool) {
	r := t.requests[about.ID]
	if r == nil {
		r = &request{phase: asking, rival: rival}
	}
	r.about = about
	switch event.Notice.(type) {
	case lockguard.Waiting, lock.Requeued, lockguard.Thawed:
		r.phase = asking
		t.requests[about.ID] = r
	case lock.Queued, lock.Delayed, lockguard.Frozen:
		r.phase = queued
	case lockguard.Acquired:
		r.phase = held
	case lock.PreemptRequested:
		r.asked = true
	case lockguard.NotAcquired, lockguard.Released, lockguard.Lost, lockguard.Bypassed:
		delete(t.requests, about.ID)
	}
}

// await returns when condition is true, which is called with the mutex held. The
// error says what is the case instead.
func (t *tracker) await(ctx context.Context, condition func() bool) error {
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	for {
		t.mu.Lock()
		ok, changed := condition(), t.changed
		t.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("waited %s in vain", t.patience)
		}
	}
}

// of returns the requests for a scope that are in a phase.
func (t *tracker) ofLocked(scope string, p phase) []*request {
	var found []*request
	for _, r := range t.requests {
		if r.about.Scope == scope && r.phase == p {
			found = append(found, r)
		}
	}
	return found
}

// now says who has the lock of a scope and who waits for it.
func (t *tracker) now(scope string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, p := range []phase{held, queued, asking} {
		for _, r := range t.ofLocked(scope, p) {
			all = append(all, r.String())
		}
	}
	for _, k := range t.keepers {
		if k.scope == scope && !k.over {
			all = append(all, fmt.Sprintf("a workflow was told %q", k.told))
		}
	}
	if len(all) == 0 {
		return "no holder, no waiter"
	}
	return strings.Join(all, "; ")
}

// isSettledLocked reports whether nothing is on its way: every request that can
// have the lock has it, and workflows know what they have.
func (t *tracker) isSettledLocked(scope string) bool {
	if len(t.ofLocked(scope, asking)) > 0 ||
		len(t.ofLocked(scope, queued)) > 0 && len(t.ofLocked(scope, held)) == 0 && !t.isDelayedLocked(scope) {
		return false
	}
	for _, k := range t.keepers {
		if k.scope == scope && !k.over && (!t.knowsLocked(k) || t.preemptsLocked(k)) {
			return false
		}
	}
	return true
}

// preemptsLocked reports whether a workflow waits for rivals only, who go at once
// when it asks them to.
func (t *tracker) preemptsLocked(k *keeper) bool {
	holders := t.ofLocked(k.scope, held)
	for _, r := range t.ofLocked(k.scope, queued) {
		if !k.isOf(r.about) || k.polite || t.protected[k.scope] {
			continue
		}
		return !slices.ContainsFunc(holders, func(h *request) bool {
			return !h.rival || h.about.Priority+k.delta > r.about.Priority
		})
	}
	return false
}

// isDelayedLocked reports whether a free lock is not given away for a while.
func (t *tracker) isDelayedLocked(scope string) bool {
	for _, event := range slices.Backward(t.events) {
		if event.Scope != scope {
			continue
		}
		switch event.Notice.(type) {
		case lock.Delayed, lockguard.Frozen:
			return true
		case lockguard.Acquired, lockguard.Released:
			return false
		}
	}
	return false
}

// knowsLocked reports whether a workflow has been told what has become of its
// hold: of the very one that there is, which after a loss is another one.
func (t *tracker) knowsLocked(k *keeper) bool {
	there, holds, asked, another := false, false, false, false
	for _, r := range t.requests {
		if k.isOf(r.about) {
			there, asked = true, asked || r.asked
			if r.phase == held {
				holds, another = true, another || r.about.Token != k.token
			}
		}
	}
	switch k.told {
	case toldPreempting:
		return there && !another
	case toldGranted, toldRegranted:
		return holds && !asked && !another
	}
	return there && !holds // it waits
}
