package helix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Helix 42
func TestGrantThatWasReturnedIsWhatEverybodySees(t *testing.T) {
	t.Parallel()
	const grants = 500 // of each kind

	// Among polite requests nobody loses a lock: everybody sees the one that
	// was granted it, every time.
	t.Run("polite", func(t *testing.T) {
		t.Parallel()
		everyGrantShows(t, grants, contest{
			vary: func(dice *rand.Rand, r *lockguard.Requirement) {
				if dice.IntN(3) == 0 {
					r.WaitingTimeout = new(time.Duration(dice.IntN(5)) * time.Millisecond)
				}
			},
			check: func(seen recipes.LockState, hold *lockguard.Hold) error {
				if !shows(seen, hold) {
					return errors.New("is not seen to hold")
				}
				return nil
			},
			ordinary: func(err error) bool {
				return recipes.IsNotAcquired(err) || errors.Is(err, context.Canceled) || errors.As(err, new(*lockguard.PreemptedError))
			},
		})
	})

	// By force, the lock may be gone before anybody has looked: then whoever
	// has it has a higher token, and the one that had it is told.
	t.Run("forceful", func(t *testing.T) {
		t.Parallel()
		var taken atomic.Int32
		everyGrantShows(t, grants, contest{
			vary: func(dice *rand.Rand, r *lockguard.Requirement) {
				r.Forceful = dice.IntN(3) > 0
				r.WaitingTimeout = new(time.Duration(dice.IntN(3)) * time.Millisecond)
			},
			check: func(seen recipes.LockState, hold *lockguard.Hold) error {
				if shows(seen, hold) {
					return nil
				}
				taken.Add(1)
				for _, other := range seen.Holders {
					if other.Token <= hold.Token() {
						return fmt.Errorf("is not seen to hold, but %q with token %s is", other.Owner, other.Token)
					}
				}
				select {
				case <-hold.Lost():
					return nil
				case <-time.After(soon):
					return errors.New("is not seen to hold, and has not been told that it does not")
				}
			},
			ordinary: func(err error) bool {
				return recipes.IsNotAcquired(err) || errors.Is(err, context.Canceled) ||
					errors.As(err, new(*lockguard.PreemptedError)) || errors.As(err, new(*lockguard.LostError)) ||
					errors.As(err, new(*recipes.EvictedError)) // taken over so long ago that the lock node does not tell any more
			},
		})
		t.Logf("%d of %d grants were taken before anybody had looked", taken.Load(), grants)
	})
}

// shows tells whether what an onlooker sees is this hold.
func shows(seen recipes.LockState, hold *lockguard.Hold) bool {
	return len(seen.Holders) == 1 && seen.Holders[0].Token == hold.Token() &&
		seen.Holders[0].Owner == hold.Info().Requirement.Owner
}

// A contest is how clients contend, and what is right in it.
type contest struct {
	vary     func(*rand.Rand, *lockguard.Requirement)
	check    func(seen recipes.LockState, hold *lockguard.Hold) error
	ordinary func(error) bool // an error that says that nothing is wrong
}

// everyGrantShows lets clients contend at random until there were that many
// grants. After each of them another client reads the lock.
func everyGrantShows(t *testing.T, grants int64, c contest) {
	t.Helper()
	h := newHouse(t)
	var made, failed atomic.Int64
	var tokens sync.Map
	var crowd sync.WaitGroup
	for i := range 5 {
		guard, err := lockguard.New(h.client())
		require.NoError(t, err)
		onlooker := h.client()
		dice := rand.New(rand.NewPCG(uint64(i), 42))
		crowd.Go(func() {
			for n := 0; made.Load() < grants && !t.Failed(); n++ {
				ctx, cancel := context.WithCancel(t.Context())
				r := requirement(at(priority.Level(dice.IntN(5))), cleanup(time.Duration(dice.IntN(3))*time.Millisecond))
				r.Owner = fmt.Sprintf("client %d request %d", i, n)
				c.vary(dice, &r)
				switch dice.IntN(5) {
				case 0:
					r.AcquireTimeout = new(time.Duration(dice.IntN(15)) * time.Millisecond)
				case 1:
					time.AfterFunc(time.Duration(dice.IntN(10_000))*time.Microsecond, cancel)
				}
				hold, err := guard.Acquire(ctx, r)
				if err != nil {
					failed.Add(1)
					if !c.ordinary(err) {
						t.Errorf("%s: acquire: %v", r.Owner, err)
					}
					cancel()
					continue
				}
				made.Add(1)
				seen, err := onlooker.Lock(t.Context(), scope)
				if err == nil {
					err = c.check(seen, hold)
				}
				if err != nil {
					t.Errorf("%s, granted with token %s: %v; seen: %+v", r.Owner, hold.Token(), err, seen)
				}
				if other, twice := tokens.LoadOrStore(hold.Token(), r.Owner); twice {
					t.Errorf("token %s was granted to %s and %s", hold.Token(), other, r.Owner)
				}
				for range dice.IntN(3) {
					runtime.Gosched()
				}
				if err := hold.Release(t.Context()); err != nil && !c.ordinary(err) {
					t.Errorf("%s: release: %v", r.Owner, err)
				}
				cancel()
			}
		})
	}
	crowd.Wait()
	t.Logf("%d grants, and %d requests that failed", made.Load(), failed.Load())
	h.empties()
}
