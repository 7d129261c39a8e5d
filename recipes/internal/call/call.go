package call

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// The causes of a context that ends with the time that a call has.
var (
	ErrTimeout = errors.New("the acquire timeout is over")
	ErrTrySlow = errors.New("no answer to a try")
)

// A Call is one that wants a grant of kind G.
type Call[G comparable] struct {
	Client  *zkclient.Client
	Scope   string
	Timeout *time.Duration // 0: a try; nil: none

	// Open may get a grant without a goroutine; it returns as soon as its context ends. It may be nil.
	Open func(context.Context) (G, bool)
	// Run gets a grant, or says why not. It may be left behind.
	Run func(context.Context) (G, error)

	Notices interface{ Mute() }
	// Late is the error when the time is over and Run, which may know more, has not ended.
	Late func(scope string, waited time.Duration, unavailable error) error
	// GiveBack releases what Run got when the caller had left.
	GiveBack func(G)
}

// Acquire carries out the call. It returns when that is done, or soon after ctx or the timeout ends: what is
// then left to undo is undone in the background.
func (c Call[G]) Acquire(ctx context.Context) (G, error) {
	start := time.Now()
	c.Client.Requested(c.Scope, 1)
	defer c.Client.Requested(c.Scope, -1)

	limited := ctx
	cancel := context.CancelFunc(func() {})
	switch {
	case c.Timeout == nil:
	case *c.Timeout == 0:
		limited, cancel = context.WithTimeoutCause(ctx, c.Client.Config().ConnectTimeout, ErrTrySlow)
	default:
		limited, cancel = context.WithTimeoutCause(ctx, *c.Timeout, ErrTimeout)
	}
	defer cancel()
	if limited.Done() == nil {
		return c.Run(limited)
	}

	if c.Open != nil {
		if g, ok := c.Open(limited); ok {
			return g, nil
		}
	}

	var none G
	g, left, err := zkclient.InBackground(limited, c.Client, zkclient.LeaveBudget,
		func() (G, error) { return c.Run(limited) }, func(g G, _ error) {
			if g != none {
				c.GiveBack(g)
			}
		})
	if !left {
		return g, err
	}
	c.Notices.Mute()
	switch {
	case errors.Is(err, ErrTrySlow):
		err = c.Client.Unavailable()
	case errors.Is(err, ErrTimeout):
		err = c.Late(c.Scope, time.Since(start), c.Client.Unavailable())
	}
	return g, err
}
