package locks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The tests of this file look at the whole process and the whole server, so
// none of them runs beside another one.

// A course is one way that a request may go, with others that hold, release or
// are outranked. run takes it: it returns when Acquire has returned and the
// others have left. leave is what the caller does when nothing else would end
// the request.
type course struct {
	name string
	run  func(ctx context.Context, leave func(), scope string) error
}

func courses(h *fixture, mine, others *lock.Client) []course {
	acquire := func(ctx context.Context, scope string, r lock.Request) error {
		r.Owner = "leaver"
		g, err := h.Lock(mine, scope).Acquire(ctx, r)
		if err != nil {
			return err
		}
		return g.Release(context.WithoutCancel(ctx))
	}
	// beside takes the lock for somebody else, and returns how that one leaves.
	beside := func(scope string, r lock.Request) (leave func()) {
		r.Owner = "holder"
		g, err := h.Lock(others, scope).Acquire(context.Background(), r)
		require.NoError(h, err)
		return func() { _ = g.Release(context.Background()) }
	}
	return []course{
		{"free", func(ctx context.Context, _ func(), scope string) error {
			return acquire(ctx, scope, lock.Request{})
		}},
		{"held", func(ctx context.Context, leave func(), scope string) error {
			defer beside(scope, lock.Request{})()
			return acquire(ctx, scope, lock.Request{Notify: on[lock.Queued](leave)})
		}},
		{"handed over", func(ctx context.Context, _ func(), scope string) error {
			release := beside(scope, lock.Request{})
			defer release()
			return acquire(ctx, scope, lock.Request{Notify: on[lock.Queued](func() { go release() })})
		}},
		{"cleanup pending", func(ctx context.Context, leave func(), scope string) error {
			defer beside(scope, lock.Request{Terms: priority.Terms{CleanupTimeout: time.Hour}})()
			return acquire(ctx, scope, lock.Request{Terms: priority.Terms{Priority: 1}, Notify: on[lock.PreemptSent](leave)})
		}},
		{"given way", func(ctx context.Context, _ func(), scope string) error {
			gone := make(chan struct{})
			asked := make(chan struct{}, 1)
			release := beside(scope, lock.Request{Terms: priority.Terms{CleanupTimeout: time.Hour}, Notify: on[lock.PreemptRequested](func() { asked <- struct{}{} })})
			go func() {
				select {
				case <-asked:
					release()
				case <-gone:
				}
			}()
			defer release()
			defer close(gone)
			return acquire(ctx, scope, lock.Request{Terms: priority.Terms{Priority: 1}})
		}},
		{"taken over", func(ctx context.Context, _ func(), scope string) error {
			defer beside(scope, lock.Request{})()
			return acquire(ctx, scope, lock.Request{Terms: priority.Terms{Priority: 1, Forceful: true}})
		}},
		{"tried", func(ctx context.Context, _ func(), scope string) error {
			defer beside(scope, lock.Request{})()
			err := acquire(ctx, scope, lock.Request{Terms: priority.Terms{AcquireTimeout: new(time.Duration(0))}})
			if lock.IsNotAcquired(err) {
				return nil
			}
			return err
		}},
	}
}

// on calls f at the first notice of a kind.
func on[N lock.Notice](f func()) func(lock.Notice) {
	var once sync.Once
	return func(n lock.Notice) {
		if _, ok := n.(N); ok {
			once.Do(f)
		}
	}
}

// N7, Helix 40, 41
func TestAcquireThatIsCancelledAtAnyStepLeavesNothingBehind(t *testing.T) {
	h := serial(t)

	// given a client of which each request, and each answer, may be the moment
	// at which its caller leaves
	mine, wire := h.wired()
	others := h.Client()
	h.warm(others)
	watches := len(h.Watches())
	goroutines := goleak.IgnoreCurrent()

	for _, c := range courses(h, mine, others) {
		for where, keep := range map[string]func(*zktest.Fault) *zktest.Rule{
			"before the request": (*zktest.Fault).Hold, "at its answer": (*zktest.Fault).HoldReply,
		} {
			for _, used := range []bool{false, true} {
				steps := 0
				for kept := true; kept; steps++ {
					scope := c.name
					if !used {
						scope = fmt.Sprintf("%s %s %d", c.name, where, steps)
					}
					// when it leaves there
					h.History.Add("test", "%s, leave %s %d", c.name, where, steps)
					ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
					rule := keep(wire.On(request().Nth(steps + 1)))
					go func() {
						select {
						case <-rule.Reached():
							cancel()
							rule.Release()
						case <-ctx.Done():
						}
					}()
					err := c.run(ctx, cancel, scope)
					kept = rule.Fired() > 0
					rule.Remove()
					if err != nil {
						require.ErrorIs(t, err, context.Canceled)
					}
					cancel()

					// then no node is left
					harness.Eventually(t, func() bool { return len(h.Ephemerals()) == 0 }, "no node is left: %s, left %s %d", c.name, where, steps)
				}
				t.Logf("%s: left %s, at each of %d", c.name, where, steps-1)
				require.Greater(t, steps, 1)
			}
		}
	}

	// and no watch, and no goroutine
	h.AtMostWatches(watches)
	harness.NoGoroutines(t, goroutines)
}

// N8
func TestTriesOnAHeldLockCostNoMemory(t *testing.T) {
	h := serial(t)

	// given a held lock, and a client that has tried
	h.hold("holder", harness.At(1))
	c := h.Client()
	tries := func(n int) {
		var crowd sync.WaitGroup
		for i := range 8 {
			l := h.lock(c)
			crowd.Go(func() {
				for range n / 8 {
					_, err := l.Acquire(t.Context(), lock.Request{Terms: priority.Terms{Priority: priority.Level(i % 3), AcquireTimeout: new(time.Duration(0))}})
					if !lock.IsNotAcquired(err) {
						t.Errorf("try: %v", err)
						return
					}
				}
			})
		}
		crowd.Wait()
	}
	tries(800)
	watches, goroutines := len(h.Watches()), goleak.IgnoreCurrent()

	// then ten thousand more take less than 26 bytes each, and the server keeps nothing for it
	harness.TakesLess(t, 256<<10, func() { tries(10_000) })
	harness.NoGoroutines(t, goroutines)
	require.Len(t, h.Watches(), watches)
	require.Len(t, h.Ephemerals(), 1)
}
