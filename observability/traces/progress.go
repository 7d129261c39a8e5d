package traces

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// WithProgress logs a line lock.hold.progress for each hold that lasts, every so
// often, in the trace of the hold: a span is exported when it ends, and that of a hold
// of hours is not there while it matters, nor after a crash. Whatever the number of
// holds, there is one timer and no goroutine. Without a logger, or every 0, nothing
// is logged.
func WithProgress(logger *slog.Logger, every time.Duration) Option {
	return func(t *Tracer) {
		if logger != nil && every > 0 {
			t.progress = &progress{logger: logger, every: every}
		}
	}
}

// progress is the list of all holds. Every hold is reported equally often, so the
// list is in the order in which that is due: the first one is the next. nil reports
// nothing.
type progress struct {
	logger *slog.Logger
	every  time.Duration

	mu          sync.Mutex
	first, last *entry
	timer       *time.Timer // set from the first hold on
}

// An entry is a hold's place in the list.
type entry struct {
	prev, next *entry
	due        time.Time
	about      lockguard.Subject // of the grant
	span       trace.Span
}

// add is called with l locked.
func (p *progress) add(l *life, about lockguard.Subject) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.held = &entry{about: about, span: l.hold}
	p.appendLocked(l.held, time.Now().Add(p.every))
	if p.first == l.held {
		p.armLocked()
	}
}

// drop is called with l locked.
func (p *progress) drop(l *life) {
	if p == nil || l.held == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(l.held)
	l.held = nil
	if p.first == nil {
		p.timer.Stop()
	}
}

// tell logs the holds whose turn it is. It locks none of them.
func (p *progress) tell() {
	now := time.Now()
	var due []entry
	p.mu.Lock()
	for e := p.first; e != nil && !e.due.After(now); e = p.first {
		due = append(due, *e)
		p.removeLocked(e)
		p.appendLocked(e, now.Add(p.every))
	}
	p.armLocked()
	p.mu.Unlock()
	for _, e := range due {
		p.log(e, now)
	}
}

func (p *progress) log(e entry, now time.Time) {
	p.logger.LogAttrs(trace.ContextWithSpan(context.Background(), e.span), slog.LevelInfo, "lock.hold.progress",
		slog.String("scope", e.about.Scope),
		slog.String("owner", e.about.Owner),
		slog.String("request", e.about.ID),
		slog.Int64("token", int64(e.about.Token)),
		slog.Duration("held", now.Sub(e.about.At).Round(time.Millisecond)),
	)
}

func (p *progress) armLocked() {
	if p.first == nil {
		return
	}
	left := time.Until(p.first.due)
	if p.timer == nil {
		p.timer = time.AfterFunc(left, p.tell)
		return
	}
	p.timer.Reset(left)
}

func (p *progress) appendLocked(e *entry, due time.Time) {
	e.due, e.prev, e.next = due, p.last, nil
	if p.last != nil {
		p.last.next = e
	} else {
		p.first = e
	}
	p.last = e
}

func (p *progress) removeLocked(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		p.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		p.last = e.prev
	}
	e.prev, e.next = nil, nil
}
