package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// acquire carries out one call that wants a grant, by open if that succeeds, else
// by run. It returns when that is done, or soon after ctx or the timeout ends (0: a try;
// nil: none): what is then left to undo is undone in the background. Run may be left
// behind, so it has a goroutine of its own; open, which may be nil, has not: it returns
// as soon as its context ends.
func acquire[G interface {
	comparable
	Release(ctx context.Context) error
}](ctx context.Context, c *Client, what string, timeout *time.Duration, n *notices, open func(context.Context) (G, bool), run func(context.Context) (G, error)) (G, error) {
	start := time.Now()
	c.Requested(what, 1)
	defer c.Requested(what, -1)

	limited := ctx
	cancel := context.CancelFunc(func() {})
	switch {
	case timeout == nil:
	case *timeout == 0:
		limited, cancel = context.WithTimeoutCause(ctx, c.Config().ConnectTimeout, errTrySlow)
	default:
		limited, cancel = context.WithTimeoutCause(ctx, *timeout, errAcquireTimeout)
	}
	defer cancel()
	if limited.Done() == nil {
		return run(limited)
	}

	if open != nil {
		if g, ok := open(limited); ok {
			return g, nil
		}
	}

	g, left, err := zkclient.InBackground(limited, c.Client, zkclient.LeaveBudget, func() (G, error) { return run(limited) }, giveBack[G])
	if !left {
		return g, err
	}
	n.mute()
	switch {
	case errors.Is(err, errTrySlow):
		err = c.Unavailable()
	case errors.Is(err, errAcquireTimeout):
		err = &NotAcquiredError{Scope: what, Waited: time.Since(start), Err: c.Unavailable()}
	}
	return g, err
}

// giveBack releases what was granted to a call that had left.
func giveBack[G interface {
	comparable
	Release(ctx context.Context) error
}](g G, _ error) {
	var none G
	if g == none {
		return
	}
	if g, ok := any(g).(*Grant); ok {
		// It has to be one, to be handed on.
		if _, err := g.Token(context.Background()); err != nil {
			return
		}
	}
	_ = g.Release(context.Background())
}
