package timings

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// maxSeries bounds how many owners and scopes are measured. Those that come
// later are not.
const maxSeries = 20_000

// A Recorder measures what the events of a guard tell. The zero value is empty
// and ready. For one with a file see Open.
type Recorder struct {
	mu       sync.Mutex
	ledger   ledger
	requests map[string]*request // by id; those that were granted or preempt
	changed  bool                // since taken
	full     bool                // there were more than maxSeries
}

// A request is one whose end is yet to come.
type request struct {
	sent    time.Time // when it first preempted a holder
	since   time.Time // the grant
	grace   time.Time // when it began
	asked   bool      // to release
	overran bool
}

// Observe is a lockguard.Observer.
func (r *Recorder) Observe(_ context.Context, event lockguard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	about := event.Subject
	switch e := event.Notice.(type) {
	case lock.PreemptSent:
		if q := r.request(about); q.sent.IsZero() {
			q.sent = about.At
		}
	case lockguard.NotAcquired:
		r.finish(about, func(s *Series, _ *request) {
			s.Refused++
			if errors.As(e.Err, new(*lock.CleanupPendingError)) {
				s.Pending++
			}
		})
	case lockguard.Acquired:
		q := r.request(about)
		q.since = about.At
		r.count(about, func(s *Series) {
			s.Wait.Record(e.Waited)
			if !q.sent.IsZero() {
				s.GiveWay.Record(about.At.Sub(q.sent))
			}
		})
	case lock.PreemptRequested:
		r.ask(about, e.Reason)
	case lockguard.CleanupStarted:
		// After a loss, of this lock or of one held with it, there is no grace.
		if q := r.requests[about.ID]; q != nil && q.grace.IsZero() && !e.Deadline.IsZero() {
			q.grace = about.At
		}
	case lockguard.CleanupOverrun:
		if q := r.requests[about.ID]; q != nil {
			q.overran = true
		}
	case lockguard.Released:
		r.finish(about, func(s *Series, q *request) {
			if e.Cause == nil {
				s.Hold.Record(e.Held)
			}
			q.clean(s, about.At, true)
		})
	case lockguard.Lost:
		r.finish(about, func(s *Series, q *request) {
			s.Lost++
			q.clean(s, about.At, false)
		})
	}
}

// Stats returns what was measured in the last weeks.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.forget(time.Now())
	return r.ledger.stats()
}

// ask notes that a holder is preempted; repetitions are ignored.
func (r *Recorder) ask(about lockguard.Subject, reason priority.Reason) {
	q := r.request(about)
	if q.asked {
		return
	}
	q.asked = true
	if q.grace.IsZero() {
		q.grace = about.At
	}
	r.count(about, func(s *Series) {
		if reason != priority.LeaseExpired {
			s.Preempted++
			return
		}
		s.Expired++
		s.LongestExpired = max(s.LongestExpired, about.At.Sub(q.since))
	})
}

// clean notes a cleanup that has ended, if there was any: done, or cut off by
// the loss of the lock. One that overran and was then cut off counts as the
// latter.
func (q *request) clean(s *Series, at time.Time, done bool) {
	if q.grace.IsZero() {
		return
	}
	s.Cleanup.Record(at.Sub(q.grace))
	switch {
	case !done:
		s.Unfinished++
	case q.overran:
		s.Overran++
	}
}

func (r *Recorder) request(about lockguard.Subject) *request {
	if r.requests == nil {
		r.requests = make(map[string]*request)
	}
	q := r.requests[about.ID]
	if q == nil {
		q = &request{}
		r.requests[about.ID] = q
	}
	return q
}

func (r *Recorder) finish(about lockguard.Subject, note func(*Series, *request)) {
	q := r.request(about)
	delete(r.requests, about.ID)
	r.count(about, func(s *Series) { note(s, q) })
}

func (r *Recorder) count(about lockguard.Subject, note func(*Series)) {
	if r.ledger == nil {
		r.ledger = make(ledger)
	}
	s := r.ledger.at(Key{about.Owner, about.Scope}, weekOf(about.At))
	if s == nil {
		r.full = true
		return
	}
	note(s)
	r.changed = true
}

// take returns a copy of what was measured if there is anything new.
func (r *Recorder) take() (copied ledger, full, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, r.changed = r.changed, false
	if !changed {
		return nil, r.full, false
	}
	r.ledger.forget(time.Now())
	return r.ledger.clone(), r.full, true
}

var _ lockguard.Observer = (*Recorder)(nil).Observe
