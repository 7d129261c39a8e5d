package recipes

import (
	"context"
	"errors"
	"time"
)

// A bell is what a waiting request hears of the nodes that it watches: that
// something has happened, not what. Reads decide.
type bell struct {
	rung  chan struct{}
	watch watcher
}

func newBell() *bell {
	b := &bell{rung: make(chan struct{}, 1)}
	b.watch = func(watchKind) { b.ring() }
	return b
}

// Watcher is to be told of what happens to a node.
func (b *bell) Watcher() *watcher { return &b.watch }

func (b *bell) ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// wait returns when the bell has rung since the last wait, when the session is
// over or when ctx ends; and once in a while, in case a watch never fires.
func (b *bell) wait(ctx context.Context, s *session) error { return b.waitFor(ctx, s, safetyPoll) }

// waitFor is wait, no longer than that.
func (b *bell) waitFor(ctx context.Context, s *session, most time.Duration) error {
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

// inSessions does op in one session after the other, until it has an outcome:
// one whose reply was lost, or whose session ended, is done again.
func inSessions[T any](ctx context.Context, c *Client, op func(*session) (T, error)) (T, error) {
	var v T
	s, err := c.admit(ctx)
	for err == nil {
		v, err = op(s)
		if !errors.Is(err, errAmbiguous) && !errors.Is(err, errSessionOver) {
			break
		}
		s, err = c.session(ctx)
	}
	return v, err
}

// leaving runs f, which waits in ZooKeeper and takes back what it has asked for
// when ctx ends. It returns when f does, and soon after the end of ctx whether
// ZooKeeper answers or not: then f goes on in the background, and what it has
// obtained all the same goes to undo. Until it returns, the client cannot be
// closed: because of what is asked for.
func leaving[T any](ctx context.Context, c *Client, what string, f func() (T, error), undo func(T)) (T, error) {
	c.requested(what, 1)
	defer c.requested(what, -1)
	v, _, err := inBackground(ctx, c, leaveBudget, f, func(v T, err error) {
		if err == nil && undo != nil {
			undo(v)
		}
	})
	return v, err
}

// leaveBudget is how long a call that has failed waits for its request to be
// gone; what is not done by then goes on in the background.
const leaveBudget = 500 * time.Millisecond

// safetyPoll bounds what a watch that never fires can cost.
const safetyPoll = time.Minute
