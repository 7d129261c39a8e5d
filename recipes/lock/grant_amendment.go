package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Extend starts the lease anew, with another length (T11). It returns a
// *PreemptPendingError while a request preempts the holder, the *LostError when
// the lock is lost, and ErrReleased after Release.
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond {
		return &zkclient.RequestError{
			Field:  "lease_timeout",
			Reason: fmt.Sprintf("%s must be positive; write how long the work needs from now on", lease),
		}
	}
	_, err := zkclient.Promptly(ctx, g.lock.c.Client,
		func() (struct{}, error) { return struct{}{}, g.extend(ctx, lease) }, nil)
	return err
}

func (g *Grant) extend(ctx context.Context, lease time.Duration) error {
	sent, err := g.amend(ctx, func(rec *contenderRecord) {
		rec.LeaseTimeout, rec.LeaseFrom = lease.Milliseconds(), 0 // from this write on
	})
	if err == nil {
		g.mu.Lock()
		g.leaseTo = sent.Add(lease)
		g.mu.Unlock()
	}
	return err
}

// Protect starts a minimum runtime, in place of the one that the request came
// with: for that long from now on the holder is not preempted for a request's
// priority, see Request.MinRuntime. One that is as long as the lease, or
// longer, lasts until the lease ends. 0: the holder may be asked at once.
//
// It is for work that begins some time after the grant. It returns what Extend
// returns.
func (g *Grant) Protect(ctx context.Context, least time.Duration) error {
	if least < 0 {
		return &zkclient.RequestError{
			Field:  "min_runtime",
			Reason: fmt.Sprintf("%s is negative; write how long the work is not to be preempted from now on", least),
		}
	}
	_, err := zkclient.Promptly(ctx, g.lock.c.Client, func() (zkclient.Instant, error) {
		return g.amend(ctx, func(rec *contenderRecord) {
			rec.protect(least)
			rec.RunsFrom = runsFromLastWrite
		})
	}, nil)
	return err
}

// amend changes what the own node says of the hold, unless a request preempts
// the holder (T11). It returns when the write was sent.
func (g *Grant) amend(ctx context.Context, change func(*contenderRecord)) (sent zkclient.Instant, err error) {
	for {
		g.mu.Lock()
		state, loss := g.state, g.loss
		g.mu.Unlock()
		switch state {
		case stateLost:
			return 0, loss
		case stateReleased:
			return 0, ErrReleased
		case stateHeld:
		}
		data, stat, err := g.s.Look(ctx, g.path, &g.watch)
		if !g.held() { // released or lost meanwhile
			g.s.Unwatch(g.path, &g.watch)
			continue
		}
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			g.changed()
			if err := g.lossOr(nil); err != nil {
				return 0, err
			}
			continue
		case err != nil:
			return 0, g.lossOr(err)
		}
		rec, err := decodeContender(data)
		if err != nil {
			return 0, g.overwritten(errOverwritten)
		}
		g.absorb(&rec, stat)
		by, asked, err := g.whoAsks(ctx, &rec, stat)
		switch {
		case err != nil:
			return 0, g.lossOr(err)
		case asked:
			return 0, &PreemptPendingError{Scope: g.lock.scope, By: by}
		}
		rec.freeze(stat)
		change(&rec)
		sent := g.s.Now()
		stat, err = g.s.Set(ctx, g.path, rec.encode(), stat.Version)
		switch {
		case err == nil:
			g.mu.Lock()
			g.at.learn(stat)
			g.mu.Unlock()
			return sent, nil
		case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode),
			errors.Is(err, zkclient.ErrAmbiguous):
		default:
			return 0, g.lossOr(err)
		}
	}
}

// whoAsks returns a live request that preempts the holder.
func (g *Grant) whoAsks(
	ctx context.Context, rec *contenderRecord, stat *zkclient.Stat,
) (PreemptRequested, bool, error) {
	if len(rec.Preempt) == 0 {
		return PreemptRequested{}, false, nil
	}
	there, err := contendersAt(ctx, g.s, g.lock.path)
	if err != nil {
		return PreemptRequested{}, false, err
	}
	children := there.children
	for _, n := range rec.Preempt {
		for _, c := range children {
			if c.guid == n.ID {
				return n.asks(stat, g.lock.c.Now()), true, nil
			}
		}
	}
	return PreemptRequested{}, false, nil
}
