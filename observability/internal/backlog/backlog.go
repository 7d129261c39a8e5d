package backlog

import (
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
)

// most bounds a Backlog: an Add that finds it full does everything itself.
const most = 4096

// A Backlog does things in the order in which they were added. It is safe for
// concurrent use, and has no goroutine while it is empty.
type Backlog[T any] struct {
	do    func(T)
	delay time.Duration

	doing sync.Mutex // held while things are done; comes before mu

	mu    sync.Mutex
	items []T
	spare []T // of the last time, for the next
	timer *time.Timer
}

// New returns a Backlog that does things within about delay; 0: at once, in Add. A
// panic of do ends that one thing, and goes to OpenTelemetry's error handler.
func New[T any](delay time.Duration, do func(T)) *Backlog[T] {
	return &Backlog[T]{delay: delay, do: do}
}

// Add has do(item) called.
func (b *Backlog[T]) Add(item T) {
	if b.delay <= 0 {
		b.do(item) // whose panics are the caller's
		return
	}
	b.mu.Lock()
	b.items = append(b.items, item)
	n := len(b.items)
	if n == 1 {
		b.armLocked()
	}
	b.mu.Unlock()
	if n >= most {
		b.Flush()
	}
}

// Flush returns when all that was added before has been done. It must not be called
// by what is done.
func (b *Backlog[T]) Flush() {
	b.doing.Lock()
	defer b.doing.Unlock()
	b.mu.Lock()
	items := b.items
	b.items, b.spare = b.spare, nil
	b.mu.Unlock()
	for _, item := range items {
		b.one(item)
	}
	clear(items)
	b.mu.Lock()
	b.spare = items[:0]
	b.mu.Unlock()
}

func (b *Backlog[T]) one(item T) {
	defer func() {
		if v := recover(); v != nil {
			otel.Handle(fmt.Errorf("what was put off has panicked: %v", v))
		}
	}()
	b.do(item)
}

func (b *Backlog[T]) armLocked() {
	if b.timer == nil {
		b.timer = time.AfterFunc(b.delay, b.Flush)
		return
	}
	b.timer.Reset(b.delay)
}
