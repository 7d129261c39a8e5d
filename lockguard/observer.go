package lockguard

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An Observer gets every event. The events of one request come in order
// and one at a time, those of different requests concurrently. ctx has the
// values of the context of the request, and never ends. From the grant on its
// Traceparent is that of the work, if what WithContext is given has set one.
//
// An Observer must return soon, because Acquire, Do and Release may wait for
// it, and must not call the Guard or the Hold of the event. It never delays
// the end of a Hold's context. Its panics are logged and have no other effect.
type Observer func(ctx context.Context, event Event)

// tell calls every observer.
func (g *Guard) tell(ctx context.Context, event Event) {
	for _, observer := range g.observers {
		g.tellOne(ctx, observer, event)
	}
}

func (g *Guard) tellOne(ctx context.Context, observer Observer, event Event) {
	defer func() {
		if v := recover(); v != nil {
			g.logger.LogAttrs(ctx, slog.LevelError, "an observer of lock events panicked; it missed this event",
				slog.String("event", event.Kind()),
				slog.Any("panic", v),
				slog.String("stack", string(debug.Stack())),
			)
		}
	}()
	observer(ctx, event)
}

// A stream tells the observers of the events of one request, in the order in
// which they were added. No lock is held while an observer runs.
type stream struct {
	guard *Guard
	ctx   context.Context

	mu    sync.Mutex
	about Subject       // of the request; At is filled in for each event
	work  func() string // the traceparent of what the work does, nil: none is set
	queue []Event
	busy  bool          // a goroutine delivers
	idle  chan struct{} // closed when the delivery has ended; nil without a waiter
}

// subject returns what the events are about.
func (s *stream) subject() Subject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about
}

// now returns the subject of an event that happens now.
func (s *stream) now() Subject {
	about := s.subject()
	about.At = time.Now()
	return about
}

// change changes what the events to come are about.
func (s *stream) change(f func(about *Subject)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.about)
}

// note adds an event that happens now; deliver or deliverSoon must follow.
func (s *stream) note(n lock.Notice) { s.add(Event{s.now(), n}) }

// add puts an event into the queue; deliver or deliverSoon must follow.
func (s *stream) add(event Event) {
	if len(s.guard.observers) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, event)
}

// deliver tells what is in the queue, or leaves that to the one who already
// does.
func (s *stream) deliver() {
	if s.begin() {
		s.drain()
	}
}

// deliverSoon is deliver for callers that must not be held up.
func (s *stream) deliverSoon() {
	if s.begin() {
		go s.drain()
	}
}

// flush waits until all that is in the queue has been delivered, within a limit.
func (s *stream) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	s.mu.Lock()
	if !s.busy {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()

	select {
	case <-idle:
	case <-ctx.Done():
	}
}

func (s *stream) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || len(s.queue) == 0 {
		return false
	}
	s.busy = true
	return true
}

func (s *stream) drain() {
	for {
		s.mu.Lock()
		events, ctx := s.queue, s.ctx
		if s.work != nil {
			ctx = WithTraceparent(ctx, s.work)
		}
		s.queue = nil
		if len(events) == 0 {
			s.busy = false
			if s.idle != nil {
				close(s.idle)
				s.idle = nil
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()

		for _, event := range events {
			s.guard.tell(ctx, event)
		}
	}
}

// below has observers find the traceparent of the work, if the context has one.
func (s *stream) below(work context.Context) {
	f, ok := work.Value(traceparentKey{}).(func() string)
	if !ok || len(s.guard.observers) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work = f
}
