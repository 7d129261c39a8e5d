package temporal

import (
	"context"
	"errors"
	"time"

	sdk "go.temporal.io/sdk/temporal"
)

// end does what there is to do when the keeper ends because of err. It returns
// what is left to others, and for how long.
func (k *keeper) end(err error) (left *possession, d time.Duration) {
	switch {
	case errors.Is(err, errSucceeded), errors.Is(err, errSuperseded):
		return k.leave(keepTime)
	case errors.Is(err, errKept):
		k.mu.Lock()
		d := k.keepFor
		k.mu.Unlock()
		return k.leave(d)
	case errors.Is(err, errHandover):
		k.pulse(context.Background()) // what the next attempt has to know
		if why := k.complete(handover()); !errors.Is(why, errClosed) {
			return k.leave(k.agent.handover)
		}
		err = errClosed
	}
	k.vacate()
	switch {
	case errors.Is(err, errClosed):
	case errors.Is(err, errReleased):
		select {
		case <-k.verdict:
			if errors.Is(k.said, errCanceled) {
				_ = k.complete(sdk.NewCanceledError())
			}
		case <-k.abandoned:
		}
	case errors.Is(err, errCanceled):
		_ = k.complete(sdk.NewCanceledError())
	case errors.Is(err, errMaxHold):
		_ = k.complete(lostBecause(k.snapshot().Reference, "%v", err).error(nil, true))
	default:
		_ = k.complete(err)
	}
	return nil, 0
}

// leave leaves the lock to others for d, if there is one.
func (k *keeper) leave(d time.Duration) (*possession, time.Duration) {
	p := k.possession
	if p == nil || p.lock != nil && closed(p.lock.Lost()) {
		k.vacate()
		return nil, 0
	}
	return p, d
}

// vacate gives the lock away.
func (k *keeper) vacate() {
	if p := k.possession; p != nil {
		ctx, cancel := context.WithTimeout(context.Background(), vacateTimeout)
		defer cancel()
		_ = p.release(ctx) // it goes on in the background
		k.possession = nil
	}
	close(k.vacated)
}

// vacateTimeout is how long a keeper waits for a release.
const vacateTimeout = 10 * time.Second
