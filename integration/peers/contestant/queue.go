package contestant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A queue is many workers that wait for one lock, and hand it on as often as the turn says.
type queue struct {
	turns    chan struct{} // a token for each hand-over that is to happen
	released atomic.Int64  // when, in nanoseconds since start; 0: not yet
	start    time.Time

	mu     sync.Mutex
	took   []time.Duration
	failed error
	moved  chan struct{} // one token for each hand-over that has happened, or cannot
}

// newQueue sends the workers into the queue and returns at once.
func newQueue(ctx context.Context, h house, turn Turn) (*queue, error) {
	q := &queue{
		turns: make(chan struct{}, len(turn.Locks)), moved: make(chan struct{}, len(turn.Locks)), start: time.Now(),
	}
	clients := cmp.Or(turn.Clients, 1)
	for i := range turn.Locks {
		enter, err := h.door(ctx, i, i%clients, turn)
		if err != nil {
			return nil, err
		}
		go q.wait(ctx, enter, turn)
	}
	return q, nil
}

func (q *queue) wait(ctx context.Context, enter acquire, turn Turn) {
	release, err := enter(ctx)
	got := time.Since(q.start)
	if err != nil {
		q.tell(0, err)
		return
	}
	if from := q.released.Load(); from > 0 {
		q.tell(got-time.Duration(from), nil)
	}
	select {
	case <-q.turns:
	case <-ctx.Done():
		return
	}
	pause(ctx, turn.WorkMicros)
	q.released.Store(int64(time.Since(q.start)))
	if err := release(ctx); err != nil {
		q.tell(0, err)
	}
}

func (q *queue) tell(took time.Duration, err error) {
	q.mu.Lock()
	q.took = append(q.took, took)
	q.failed = errors.Join(q.failed, err)
	q.mu.Unlock()
	q.moved <- struct{}{}
}

// pass hands the lock on as often as the turn says.
func (q *queue) pass(ctx context.Context, turn Turn) (Result, error) {
	before, start := processor(), time.Now()
	for range turn.Count {
		q.turns <- struct{}{}
	}
	limit := time.NewTimer(grace + time.Duration(turn.Seconds*float64(time.Second)))
	defer limit.Stop()
	for n := range turn.Count {
		select {
		case <-q.moved:
		case <-limit.C:
			return Result{}, fmt.Errorf("only %d of %d hand-overs happened in time", n, turn.Count)
		case <-ctx.Done():
			return Result{}, context.Cause(ctx)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := spread(q.took)
	return Result{
		Cycles: turn.Count, Seconds: time.Since(start).Seconds(), CPUMillis: millis(processor() - before),
		P50Micros: s.P50Micros, P99Micros: s.P99Micros,
	}, q.failed
}
