package contestant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// cycles lets every worker acquire, work and release until the time is over. What ends later does not count.
func (p *player) cycles(ctx context.Context, turn Turn) (Result, error) {
	workers := make([]worker, len(turn.Locks))
	clients := cmp.Or(turn.Clients, len(turn.Locks))
	for i := range workers {
		enter, err := p.house.door(ctx, i, i%clients, turn)
		if err != nil {
			return Result{}, err
		}
		workers[i] = worker{enter: enter, turn: turn}
	}
	length := time.Duration(turn.Seconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(ctx, length+grace)
	defer cancel()
	var all sync.WaitGroup
	before, start := processor(), time.Now()
	end := start.Add(length)
	for i := range workers {
		all.Go(func() { workers[i].until(ctx, end) })
	}
	all.Wait()
	r := Result{Seconds: turn.Seconds, CPUMillis: millis(processor() - before)}
	var took []time.Duration
	for _, w := range workers {
		r.Cycles += w.inTime
		r.Late += w.late
		r.Errors += w.errors
		r.Violations += w.violations
		if w.first != nil {
			r.FirstError = cmp.Or(r.FirstError, w.first.Error())
		}
		took = append(took, w.took...)
	}
	s := spread(took)
	r.P50Micros, r.P99Micros = s.P50Micros, s.P99Micros
	return r, nil
}

// A worker is one that wants a lock, again and again.
type worker struct {
	enter acquire
	turn  Turn

	inTime, late, errors, violations int
	first                            error
	took                             []time.Duration
}

func (w *worker) until(ctx context.Context, end time.Time) {
	for time.Now().Before(end) {
		if err := w.cycle(ctx, end); err != nil {
			w.errors++
			if w.first == nil {
				w.first = err
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

func (w *worker) cycle(ctx context.Context, end time.Time) error {
	asked := time.Now()
	release, err := w.enter(ctx)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	got := time.Now()
	leave := w.inside()
	pause(ctx, w.turn.WorkMicros)
	leave()
	done := time.Now()
	if err := release(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	now := time.Now()
	if now.Before(end) {
		w.inTime++
		w.took = append(w.took, got.Sub(asked)+now.Sub(done))
	} else {
		w.late++
	}
	return nil
}

// inside takes one of the places that there are, if the turn is checked, and returns what gives it back.
func (w *worker) inside() (leave func()) {
	if w.turn.Check == "" {
		return func() {}
	}
	for i := range max(w.turn.Permits, 1) {
		place := filepath.Join(w.turn.Check, fmt.Sprint("place-", i))
		file, err := os.OpenFile(place, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			break // it cannot be checked: that is no proof
		}
		return func() { _ = errors.Join(file.Close(), os.Remove(place)) }
	}
	w.violations++
	return func() {}
}

// pause is work that does not need the processor. The thread sleeps, as those of the contestants in other
// languages do: Go's own timers are as late as the network poller, up to a millisecond, and that would be work, too.
func pause(ctx context.Context, micros int) {
	end := time.Now().Add(time.Duration(micros) * time.Microsecond)
	for left := time.Until(end); left > 0 && ctx.Err() == nil; left = time.Until(end) {
		rest := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&rest, nil) // interrupted by the runtime's signals
	}
}

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func spread(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	return Spread{P50Micros: micros(all[len(all)/2]), P99Micros: micros(all[len(all)*99/100])}
}
