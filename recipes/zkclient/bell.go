package zkclient

import (
	"context"
	"errors"
	"time"
)

// A Bell wakes a waiting request when something has happened to the nodes that
// it watches; it does not say what. Reads decide.
type Bell struct {
	rung  chan struct{}
	watch Watcher
}

// NewBell returns one that has not rung.
func NewBell() *Bell {
	b := &Bell{rung: make(chan struct{}, 1)}
	b.watch = func(WatchKind) { b.Ring() }
	return b
}

// Watcher returns the watcher that rings the bell.
func (b *Bell) Watcher() *Watcher { return &b.watch }

// Ring wakes the goroutine that waits, or the next one that will.
func (b *Bell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// Wait returns when the bell has rung since the last wait, when the session is
// over or when ctx ends; and once in a while, in case a watch never fires.
func (b *Bell) Wait(ctx context.Context, s *Session) error { return b.WaitFor(ctx, s, SafetyPoll) }

// WaitFor is wait, no longer than that.
func (b *Bell) WaitFor(ctx context.Context, s *Session, most time.Duration) error {
	poll := time.NewTimer(most)
	defer poll.Stop()
	select {
	case <-b.rung:
	case <-poll.C:
	case <-s.over:
		return s.overErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// InSessions does op in one session after the other, until it has an outcome:
// one whose reply was lost, or whose session ended, is done again.
func InSessions[T any](ctx context.Context, c *Client, op func(*Session) (T, error)) (T, error) {
	var v T
	s, err := c.Admit(ctx)
	for err == nil {
		v, err = op(s)
		if !errors.Is(err, ErrAmbiguous) && !errors.Is(err, ErrSessionOver) {
			break
		}
		s, err = c.Usable(ctx)
	}
	return v, err
}

// Leaving runs f, which waits in ZooKeeper and takes back what it has asked for
// when ctx ends. It returns when f does, and soon after the end of ctx whether
// ZooKeeper answers or not: then f goes on in the background, and what it has
// obtained all the same goes to undo. Until it returns, the client cannot be
// closed: because of what is asked for.
func Leaving[T any](ctx context.Context, c *Client, what string, f func() (T, error), undo func(T)) (T, error) {
	c.Requested(what, 1)
	defer c.Requested(what, -1)
	v, _, err := InBackground(ctx, c, LeaveBudget, f, func(v T, err error) {
		if err == nil && undo != nil {
			undo(v)
		}
	})
	return v, err
}

// LeaveBudget is how long a call that has failed waits for its request to be
// gone; what is not done by then goes on in the background.
const LeaveBudget = 500 * time.Millisecond

// SafetyPoll bounds what a watch that never fires can cost.
const SafetyPoll = time.Minute
