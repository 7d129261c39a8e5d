package ticks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Tolerance is how far an instant may lie after the clock of ZooKeeper's
// leader and still be decided: clocks that are kept right differ by less.
const Tolerance = zkclient.TimeTolerance

// EarlyError is returned by Begin, Claim, RecordSkip and RecordMissed for an
// instant that ZooKeeper's clock has not reached: the clock of the caller is ahead,
// or that of ZooKeeper's leader is behind. Nothing was recorded. To decide it early
// would take the ticks before it from daemons whose clocks are right.
type EarlyError struct {
	Job     string
	Instant time.Time
	By      time.Duration // until it may be decided, if the leader's clock goes on as it does
}

func (e *EarlyError) Error() string {
	return fmt.Sprintf("the tick of job %q at %s is still to come by ZooKeeper's clock: it may be decided in %s; "+
		"set this machine's clock right, or that of ZooKeeper's leader (lockkeeper doctor compares them)",
		e.Job, e.Instant.UTC().Format(time.RFC3339), e.By.Round(time.Millisecond))
}

// ServerTime returns what is known of the clock of ZooKeeper's leader; ok is false
// as long as that is nothing. It never waits.
func (l *Ledger) ServerTime() (now zkclient.ServerTime, ok bool) { return l.store.ServerTime() }

// AwaitServerTime waits until the clock of ZooKeeper's leader is known. Who may not
// write <root>/clock gets an *AccessError, and does not know it before a claim.
func (l *Ledger) AwaitServerTime(ctx context.Context) error {
	if err := l.store.AwaitServerTime(ctx); err != nil {
		return fmt.Errorf("ZooKeeper's clock not known: %w", l.explain(ctx, err))
	}
	return nil
}

// due refuses an instant that is still to come. A client that may not ask for
// ZooKeeper's clock is not delayed by that.
func (l *Ledger) due(ctx context.Context, job string, instant time.Time) error {
	now, known := l.store.ServerTime()
	if !known {
		if err := l.store.AwaitServerTime(ctx); err != nil && ctx.Err() != nil {
			return fmt.Errorf("ticks of job %q: %w", job, l.explain(ctx, err))
		}
		if now, known = l.store.ServerTime(); !known {
			return nil
		}
	}
	if by := instant.Sub(now.Earliest) - Tolerance; by > 0 {
		return &EarlyError{Job: job, Instant: instant.UTC().Round(0), By: by}
	}
	return nil
}

// ahead is how far an instant lies after the leader's clock, if that is more than
// the tolerance; else 0. As long as the leader's clock is not known, this machine's
// has to do.
func (l *Ledger) ahead(instant time.Time) time.Duration {
	by := time.Until(instant)
	if now, known := l.store.ServerTime(); known {
		by = instant.Sub(now.Latest)
	}
	if by <= Tolerance {
		return 0
	}
	return by
}

// lookAtClock reads the leader's clock for a caller that looks at existing
// jobs, if that is quick and the caller may ask. Without it this machine's has
// to do. It writes <root>/clock, so that it must not be called without a tree.
func (l *Ledger) lookAtClock(ctx context.Context) {
	if _, known := l.store.ServerTime(); known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = l.store.AwaitServerTime(ctx)
}
