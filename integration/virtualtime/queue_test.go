package virtualtime

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Those who wait look after themselves now and then, in case that an event never
// came: each at its own node and at the one in front. Only the first in line looks
// at all of them.
func TestThoseWhoWaitForHoursDoNotListTheQueueAllTheTime(t *testing.T) {
	run(t, func(w *world) {
		// given a queue in which everybody has settled
		const waiters = 20
		holder, crew := w.Program("holder", long), w.Program("crew", long)
		held := holder.Take(scope, lock.Request{})
		var crowd sync.WaitGroup
		var mu sync.Mutex
		var order []time.Duration
		for range waiters {
			crowd.Go(func() {
				g, err := crew.Acquire(scope, lock.Request{})
				if err != nil {
					w.Error(err)
					return
				}
				mu.Lock()
				order = append(order, w.Now())
				mu.Unlock()
				if err := g.Release(w.Context()); err != nil {
					w.Error(err)
				}
			})
		}
		w.Until(time.Minute)
		require.Len(w, contenders(w), waiters+1)

		// when hours pass
		lists := w.On(zktest.Op(zktest.GetChildren)).Delay(time.Nanosecond)
		reads := w.On(zktest.Op(zktest.GetData)).Delay(time.Nanosecond)
		const minutes = 120
		w.Until((minutes + 1) * time.Minute)

		// then the first has listed once a minute, and all others have looked twice
		require.InDelta(w, minutes, lists.Fired(), 5)
		require.InDelta(w, minutes*waiters*2, reads.Fired(), minutes*3)

		// and what no event tells is noticed a minute later: an event of each that is lost
		w.On(zktest.Event(zktest.NodeDataChanged).Times(1000)).DropEvent()
		require.NoError(w, held.Release(w.Context()))
		crowd.Wait()
		require.Len(w, order, waiters)
		require.LessOrEqual(w, order[waiters-1]-order[0], waiters*time.Minute)
	})
}

// A list is long where many wait: of a short hold, only the holder reads one, to find its
// successor. The waiters need none, and list only when the hold lasts.
func TestShortHoldsOfAQueueReadOneListEach(t *testing.T) {
	for _, c := range []struct {
		work  time.Duration
		lists int
	}{{2 * time.Millisecond, 1}, {40 * time.Millisecond, 3}} {
		t.Run(c.work.String(), func(t *testing.T) {
			run(t, func(w *world) {
				// given a queue in which everybody has settled
				const waiters = 20
				holder, crew := w.Program("holder", long), w.Program("crew", long)
				held := holder.Do(lockguard.Requirement{}, lasting(time.Minute))
				var crowd []*work
				for range waiters {
					crowd = append(crowd, crew.Do(lockguard.Requirement{}, lasting(c.work)))
				}
				w.Until(time.Minute - time.Second)
				require.Len(w, contenders(w), waiters+1)

				// when they hold, one after the other
				lists := w.On(zktest.Op(zktest.GetChildren).From("crew")).Delay(time.Nanosecond)
				require.NoError(w, held.Returned())
				for _, j := range crowd {
					require.NoError(w, j.Returned())
				}

				// then each of them has read the list, and where holds last, once more, as has the one behind it
				require.InDelta(w, waiters*c.lists, lists.Fired(), 4)
			})
		})
	}
}

// One that stands far behind in a queue that moves waits for its hand-over, for about as long as others of
// its process did. It looks around only if that does not come.
func TestThoseFarBehindInAQueueThatMovesLookOnce(t *testing.T) {
	run(t, func(w *world) {
		// given a crew of which everybody waits for a third of a second each time
		const members, turns, work = 30, 4, 11 * time.Millisecond
		crew := w.Program("crew", long)
		var all sync.WaitGroup
		var done sync.WaitGroup // with the first turn
		done.Add(members)
		turn := func() {
			g, err := crew.Acquire(scope, lock.Request{})
			if err != nil {
				w.Error(err)
				return
			}
			<-time.After(work)
			if err := g.Release(w.Context()); err != nil {
				w.Error(err)
			}
		}
		looks := make(chan *zktest.Rule, 1)
		for i := range members {
			all.Go(func() {
				turn()
				done.Done()
				if i == 0 {
					done.Wait()
					looks <- w.On(zktest.Op(zktest.GetData).Path("/lockkeeper/locks/49/cluster%2Forders")).Delay(time.Nanosecond)
				}
				for range turns - 1 {
					turn()
				}
			})
		}
		all.Wait()

		// then no waiter has read G, but for a few while the others' turns
		// begin
		require.Less(w, (<-looks).Fired(), members)
	})
}

// Given one that waits right behind another, when that one changes what it asks for
// and gives up some time later, then the one behind notices that at once, and so
// also that the holder is gone.
func TestOneBehindNoticesTheEndOfTheOneInFrontAfterAChangeOfIt(t *testing.T) {
	run(t, func(w *world) {
		holder, front, behind := w.Program("holder", long), w.Program("front", long), w.Program("behind", long)
		held := holder.Take(scope, lock.Request{})
		change := make(chan struct{})
		terms := func() (lock.Revision, <-chan struct{}) {
			select {
			case <-change:
				return lock.Revision{Terms: priority.Terms{LeaseTimeout: time.Hour}}, nil
			default:
				return lock.Revision{Terms: priority.Terms{LeaseTimeout: day}}, change
			}
		}
		var crowd sync.WaitGroup
		crowd.Go(func() {
			_, err := front.Acquire(scope, lock.Request{Terms: priority.Terms{AcquireTimeout: new(30 * time.Minute)}, Revise: terms})
			if !lock.IsNotAcquired(err) {
				w.Error(err)
			}
		})
		w.Until(time.Second)
		var took time.Duration
		crowd.Go(func() {
			g, err := behind.Acquire(scope, lock.Request{})
			if err != nil {
				w.Error(err)
				return
			}
			took = w.Now()
			if err := g.Release(w.Context()); err != nil {
				w.Error(err)
			}
		})

		// when the one in front changes what it asks for, and gives up at 30m, and then the holder is gone
		w.Until(10*time.Minute + 45*time.Second)
		close(change)
		w.Until(30*time.Minute + 10*time.Second)
		require.Len(w, contenders(w), 2)
		require.True(w, w.Expire(holder.Session().ID))
		crowd.Wait()

		// then the one behind takes the lock in that instant, and not when it looks after itself
		require.Equal(w, 30*time.Minute+10*time.Second, took.Truncate(time.Second))
		require.Error(w, held.Release(w.Context()))
	})
}
