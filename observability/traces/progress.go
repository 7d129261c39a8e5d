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

// progress is the list of all holds. As all are told of equally often, it is in the
// order in which that is due: the first one's turn is next. nil tells nothing.
type progress struct {
	logger *slog.Logger
	every  time.Duration

	mu          sync.Mutex
	first, last *life
	timer       *time.Timer // set from the first hold on
}

// An entry is a hold's place in the list.
type entry struct {
	in         bool
	prev, next *life
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
	l.held = entry{about: about, span: l.hold}
	p.appendLocked(l, time.Now().Add(p.every))
	if p.first == l {
		p.armLocked()
	}
}

func (p *progress) drop(l *life) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.held.in {
		return
	}
	p.removeLocked(l)
	if p.first == nil {
		p.timer.Stop()
	}
}

// tell logs the holds whose turn it is. It locks none of them.
func (p *progress) tell() {
	now := time.Now()
	var due []entry
	p.mu.Lock()
	for l := p.first; l != nil && !l.held.due.After(now); l = p.first {
		due = append(due, l.held)
		p.removeLocked(l)
		p.appendLocked(l, now.Add(p.every))
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
		slog.String("token", e.about.Token.String()),
		slog.Duration("held", now.Sub(e.about.At).Round(time.Millisecond)),
	)
}

func (p *progress) armLocked() {
	if p.first == nil {
		return
	}
	left := time.Until(p.first.held.due)
	if p.timer == nil {
		p.timer = time.AfterFunc(left, p.tell)
		return
	}
	p.timer.Reset(left)
}

func (p *progress) appendLocked(l *life, due time.Time) {
	l.held.in, l.held.due, l.held.prev, l.held.next = true, due, p.last, nil
	if p.last != nil {
		p.last.held.next = l
	} else {
		p.first = l
	}
	p.last = l
}

func (p *progress) removeLocked(l *life) {
	prev, next := l.held.prev, l.held.next
	if prev != nil {
		prev.held.next = next
	} else {
		p.first = next
	}
	if next != nil {
		next.held.prev = prev
	} else {
		p.last = prev
	}
	l.held.in, l.held.prev, l.held.next = false, nil, nil
}
