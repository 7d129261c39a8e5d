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
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 42: among polite requests no holder loses a lock, so every client sees its holder, every time. By force it
// may be gone before a client has looked: TestTokensKeepForcefulClientsApart, in package locks.
func TestGrantThatWasReturnedIsWhatEveryClientSees(t *testing.T) {
	const grants = 400
	h := newFixture(t)
	ordinary := func(err error) bool {
		return lock.IsNotAcquired(err) || errors.Is(err, context.Canceled) || errors.As(err, new(*lockguard.PreemptedError))
	}
	var made atomic.Int64
	var tokens sync.Map
	var crowd sync.WaitGroup
	for i := range 5 {
		guard, err := lockguard.New(h.Client())
		require.NoError(t, err)
		onlooker := h.Client()
		dice := rand.New(rand.NewPCG(uint64(i), 42))
		crowd.Go(func() {
			// given clients that ask at random, and may not wait for long
			for n := 0; made.Load() < grants && !t.Failed(); n++ {
				ctx, cancel := context.WithCancel(t.Context())
				r := requirement(at(priority.Level(dice.IntN(5))), cleanup(time.Duration(dice.IntN(3))*time.Millisecond))
				r.Owner = fmt.Sprintf("client %d request %d", i, n)
				switch dice.IntN(5) {
				case 0:
					r.AcquireTimeout = new(time.Duration(dice.IntN(15)) * time.Millisecond)
				case 1:
					time.AfterFunc(time.Duration(dice.IntN(10_000))*time.Microsecond, cancel)
				case 2:
					r.WaitingTimeout = new(time.Duration(dice.IntN(5)) * time.Millisecond)
				}

				// when one is granted the lock, then another client sees that, and its token is no other's
				hold, err := guard.Acquire(ctx, r)
				if err == nil {
					made.Add(1)
					seen, unseen := onlooker.Lock(t.Context(), scope)
					if unseen != nil || len(seen.Holders) != 1 || seen.Holders[0].Token != hold.Token() || seen.Holders[0].Owner != r.Owner {
						t.Errorf("%s is not seen to hold with token %s: %v; seen: %+v", r.Owner, hold.Token(), unseen, seen)
					}
					if other, twice := tokens.LoadOrStore(hold.Token(), r.Owner); twice {
						t.Errorf("token %s was granted to %s and %s", hold.Token(), other, r.Owner)
					}
					runtime.Gosched()
					err = hold.Release(t.Context())
				}
				if err != nil && !ordinary(err) {
					t.Errorf("%s: %v", r.Owner, err)
				}
				cancel()
			}
		})
	}
	crowd.Wait()
	h.NoEphemerals()
}
