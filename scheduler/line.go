package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// A line is where lanes wait for their turn to ask the ledger about ticks. A
// daemon that has more to decide than ZooKeeper, or its own processor, can do
// would else ask for everything at once, give up what is not answered in time,
// and ask again, for ticks that it never runs: it would stay behind for ever.
// A lane that gives up in the line has asked for nothing yet.
//
// What is claimed already does not stand in line: it is brought to its end first.
type line struct {
	Ledger
	turns chan struct{}
}

const (
	// lineWidth is how many may ask at the same time: a thousand ticks a second
	// where ZooKeeper takes a quarter of a second.
	lineWidth = 256

	// lineMargin is how much of its time a request needs to be worth asking.
	lineMargin = 500 * time.Millisecond
)

func newLine(ledger Ledger) *line { return &line{ledger, make(chan struct{}, lineWidth)} }

// errBusy is why a tick is not decided whose turn has not come.
var errBusy = errors.New("overloaded: the ledger was still being asked about ticks that were due before")

// busy reports whether a lane that asks now has to wait. What can be reported later then is.
func (l *line) busy() bool { return len(l.turns) == cap(l.turns) }

func (l *line) enter(ctx context.Context) error {
	select {
	case l.turns <- struct{}{}:
		return nil
	default:
	}
	patient := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		patient, cancel = context.WithDeadline(ctx, deadline.Add(-lineMargin))
		defer cancel()
	}
	select {
	case l.turns <- struct{}{}:
		return nil
	case <-patient.Done():
		return fmt.Errorf("%w: %w", errBusy, context.Cause(patient))
	}
}

func (l *line) leave() { <-l.turns }

func (l *line) Begin(ctx context.Context, job string, first time.Time) (after time.Time, err error) {
	if err := l.enter(ctx); err != nil {
		return after, err
	}
	defer l.leave()
	return l.Ledger.Begin(ctx, job, first)
}

func (l *line) Claim(
	ctx context.Context, job string, instant time.Time, ask ticks.Ask,
) (claim ticks.Claim, err error) {
	if err := l.enter(ctx); err != nil {
		return claim, err
	}
	defer l.leave()
	return l.Ledger.Claim(ctx, job, instant, ask)
}

func (l *line) ClaimWaiting(ctx context.Context, job string, most int) (claim ticks.Claim, err error) {
	if err := l.enter(ctx); err != nil {
		return claim, err
	}
	defer l.leave()
	return l.Ledger.ClaimWaiting(ctx, job, most)
}

func (l *line) RecordMissed(
	ctx context.Context, job, reason string, span ticks.Span,
) (recorded bool, decided time.Time, err error) {
	if err := l.enter(ctx); err != nil {
		return false, decided, err
	}
	defer l.leave()
	return l.Ledger.RecordMissed(ctx, job, reason, span)
}

func (l *line) RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (recorded int, err error) {
	if err := l.enter(ctx); err != nil {
		return 0, err
	}
	defer l.leave()
	return l.Ledger.RecordSkip(ctx, job, reason, instants...)
}

func (l *line) State(ctx context.Context, job string) (state ticks.State, err error) {
	if err := l.enter(ctx); err != nil {
		return state, err
	}
	defer l.leave()
	return l.Ledger.State(ctx, job)
}
