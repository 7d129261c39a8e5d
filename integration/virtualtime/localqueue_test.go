package virtualtime

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// rivals are a program with a local queue and a program of which one request waits in ZooKeeper.
type rivals struct {
	w             *world
	local, waiter *program
	stop          *virtual.Freezer // of the waiter's program

	all     sync.WaitGroup
	granted []string      // owners, in order; guarded by the lock of the test
	release chan struct{} // the holder releases for each value
}

func newRivals(w *world, turns int) *rivals {
	r := &rivals{w: w, stop: virtual.NewFreezer(), release: make(chan struct{})}
	r.local = w.Program("local", long, func(cfg *lock.Config) { cfg.LocalQueue = turns })
	r.waiter = w.Program("waiter", long, r.stop.Through)
	return r
}

// acquire makes a request in the background and lets it come as far as it does at once.
func (r *rivals) acquire(p *program, owner string, request lock.Request) {
	request.Owner = owner
	r.all.Go(func() {
		grant, err := p.Acquire(scope, request)
		if err != nil {
			r.w.Errorf("request of %s: %v", owner, err)
			return
		}
		r.granted = append(r.granted, owner)
		<-r.release
		if err := grant.Release(r.w.Context()); err != nil {
			r.w.Errorf("release of %s: %v", owner, err)
		}
	})
	synctest.Wait()
}

// next ends a turn.
func (r *rivals) next() {
	r.release <- struct{}{}
	synctest.Wait()
}

// order ends all turns and returns who was granted.
func (r *rivals) order() []string {
	close(r.release)
	r.all.Wait()
	require.Empty(r.w, contenders(r.w))
	return r.granted
}

// A local queue that may not pass the waiter of another process hands the lock over to it. That process stands still
// during the release, and the next request of the local queue reaches ZooKeeper only after the release: it would take a
// lock that was left free, at the version that its client knows.
func TestLocalQueueHandsOverToAWaiterThatItMayNotPass(t *testing.T) {
	const turns = 3
	for _, c := range []struct {
		name   string
		waiter lock.Request
		behind int // requests of the local queue behind the holder
		before int // of those, granted before the waiter comes
		passed int // of those, granted while it waits
	}{
		{"its turns are over", lock.Request{}, turns + 2, 0, turns},
		{"it is empty before its turns are over", lock.Request{}, turns - 1, 0, turns - 1},
		{"the waiter is more important", lock.Request{Terms: priority.Terms{Priority: 5, NeverPreempts: true}}, 2, 0, 0},
		{"the waiter has just preempted the holder", lock.Request{Terms: priority.Terms{Priority: 5}}, 2, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(w *world) {
				r := newRivals(w, turns)
				released := make(chan struct{})
				late := func() lock.Request { // it asks for its terms when it joins, and again before it asks ZooKeeper
					asked := 0
					return lock.Request{Revise: func() (lock.Revision, <-chan struct{}) {
						if asked++; asked > 1 {
							<-released
						}
						return lock.Revision{Terms: priority.Terms{LeaseTimeout: day}}, nil
					}}
				}

				// given a waiter that the local queue has passed as often as it may
				r.acquire(r.local, "holder", lock.Request{})
				var behind []string
				for i := range c.behind {
					behind = append(behind, fmt.Sprint("local ", i))
					r.acquire(r.local, behind[i], late())
				}
				for range c.before {
					r.next()
				}
				r.acquire(r.waiter, "waiter", c.waiter)
				require.Len(w, contenders(w), 2)
				for range c.passed {
					r.next()
				}

				// when the turn ends
				r.stop.Freeze()
				r.next()
				close(released)
				synctest.Wait()
				r.acquire(r.local, "newcomer", lock.Request{})
				r.stop.Thaw()

				// then the waiter is the next holder, and the local queue goes on after it
				first, then := behind[:c.before+c.passed], behind[c.before+c.passed:]
				require.Equal(w, slices.Concat([]string{"holder"}, first, []string{"waiter"}, then, []string{"newcomer"}), r.order())
			})
		})
	}
}

// Turns of one local queue count together, also when the lock was free between them.
func TestLocalQueueCountsTurnsBeforeItWasEmpty(t *testing.T) {
	run(t, func(w *world) {
		// given a waiter that came after the last list of a local queue, and a lock that was left free since
		r := newRivals(w, 3)
		r.acquire(r.local, "holder", lock.Request{})
		r.acquire(r.local, "local 0", lock.Request{})
		r.next()
		r.acquire(r.waiter, "waiter", lock.Request{})
		require.Len(w, contenders(w), 2)
		r.stop.Freeze()
		r.next()

		// when the lock is taken without a list, and others are behind
		for i := 1; i <= 4; i++ {
			r.acquire(r.local, fmt.Sprint("local ", i), lock.Request{})
		}
		r.next()
		r.stop.Thaw()

		// then that turn is the last one before the waiter
		require.Equal(w, []string{"holder", "local 0", "local 1", "waiter", "local 2", "local 3", "local 4"}, r.order())
	})
}
