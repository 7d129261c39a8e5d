package zkclient

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Backlog counts work that goes on after its caller has left: undoing what was
// requested too late, giving back what could not be given back at once. Unlike
// a sync.WaitGroup it may grow while a goroutine waits for it.
type Backlog struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n falls to 0; nil without a waiting goroutine
}

// Go runs f in a goroutine of its own.
func (b *Backlog) Go(f func()) {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
	go func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.n--; b.n == 0 && b.empty != nil {
				close(b.empty)
				b.empty = nil
			}
		}()
		f()
	}()
}

// Done is closed as soon as nothing is left.
func (b *Backlog) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if b.empty == nil {
		b.empty = make(chan struct{})
	}
	return b.empty
}

// InBackground runs f and returns its outcome. When ctx ends, f, which may know of
// that, has patience to end. Then it is left: f goes on, its outcome goes to late,
// which may be nil, and the error is the cause of ctx.
func InBackground[T any](
	ctx context.Context, c *Client, patience time.Duration, f func() (T, error), late func(T, error),
) (v T, left bool, err error) {
	if ctx.Done() == nil {
		v, err = f()
		return v, false, err
	}
	type outcome struct {
		v   T
		err error
	}
	outcomes := make(chan outcome, 1)
	c.backlog.Go(func() {
		v, err := f()
		outcomes <- outcome{v, err}
	})
	select {
	case o := <-outcomes:
		return o.v, false, o.err
	case <-ctx.Done():
	}
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case o := <-outcomes:
			return o.v, false, o.err
		case <-timer.C:
		}
	}
	if late != nil {
		c.backlog.Go(func() {
			o := <-outcomes
			late(o.v, o.err)
		})
	}
	return v, true, context.Cause(ctx)
}

// PauseBefore waits a little before the third try and all later ones.
func PauseBefore(ctx context.Context, try int) error {
	if try < 2 {
		return nil
	}
	timer := time.NewTimer(rand.N(min(2*time.Millisecond<<min(try, 10), 200*time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
