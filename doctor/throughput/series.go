package throughput

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A series are the turns of one measure.
type series struct {
	measure string
	clients int
	cycle   func(ctx context.Context, client int, lap lap) error

	mu     sync.Mutex
	cycles int
	took   time.Duration
	names  []string // of steps, in their order
	steps  map[string][]time.Duration
}

// turn lets all clients cycle for a while, each once at least.
func (s *series) turn(ctx context.Context, d time.Duration) error {
	var working sync.WaitGroup
	errs := make([]error, s.clients)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	for i := range s.clients {
		working.Go(func() {
			own := &series{}
			for {
				if err := s.cycle(ctx, i, own.lap); err != nil {
					errs[i] = err
					cancel(err) // stop waiting for a lock that is not released
					return
				}
				own.cycles++
				if ctx.Err() != nil || time.Since(began) >= d {
					break
				}
			}
			s.add(own)
		})
	}
	working.Wait()
	s.took += time.Since(began)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return nil
}

func (s *series) lap(step string, took time.Duration) {
	if s.steps == nil {
		s.steps = map[string][]time.Duration{}
	}
	if s.steps[step] == nil {
		s.names = append(s.names, step)
	}
	s.steps[step] = append(s.steps[step], took)
}

// add adds what one client did.
func (s *series) add(own *series) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cycles += own.cycles
	for _, name := range own.names {
		for _, took := range own.steps[name] {
			s.lap(name, took)
		}
	}
}

func (s *series) row() Row {
	r := Row{Measure: s.measure, Clients: s.clients, Cycles: s.cycles, PerSecond: ratio(float64(s.cycles),
		s.took.Seconds())}
	for _, name := range s.names {
		all := slices.Sorted(slices.Values(s.steps[name]))
		r.Steps = append(r.Steps, Step{Name: name, P50: all[len(all)/2], P99: all[len(all)*99/100]})
	}
	return r
}
