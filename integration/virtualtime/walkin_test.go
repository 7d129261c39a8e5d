package virtualtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var toRead = lockguard.Requirement{Terms: priority.Terms{Mode: priority.Shared, CleanupTimeout: time.Hour}}

// opened has two programs open the lock for readers, and hold it until an instant.
func opened(t *testing.T, w *world, until time.Duration) {
	t.Helper()
	a, b := w.Program("opener", long), w.Program("second", long)
	warm(a, "another")
	warm(b, "another")
	start := w.Now()
	a.Do(toRead, lasting(until-start))
	w.Until(start + time.Second)
	b.Do(toRead, lasting(until-start-time.Second))
	w.Until(start + 2*time.Second)
}

// T18 for one trip, another for the token, as after a hand-over, and one for the way out; one that has not looked yet
// reads who is there, and G, before that.
func TestRoundTripsOfAReaderThatWalksIn(t *testing.T) {
	run(t, func(w *world) {
		p := w.Program("walker", long)
		warm(p, "another")
		opened(w.T, w, time.Hour)
		for round, in := range []time.Duration{4 * trip, 2 * trip, 2 * trip} {
			start := w.Now()
			held := p.Do(toRead, lasting(time.Millisecond))
			require.NoError(w, held.Returned())
			require.Equal(w, in, held.Began()-start, "round %d", round)
			require.Equal(w, in+trip+time.Millisecond, held.Ended()-start, "round %d", round)
		}
	})
}

// Without the token it is one trip in, and one out.
func TestRoundTripsOfAReaderThatWalksInAndAsksForNoToken(t *testing.T) {
	run(t, func(w *world) {
		p := w.Program("walker", long)
		warm(p, "another")
		opened(w.T, w, time.Hour)
		for _, in := range []time.Duration{3 * trip, trip, trip} {
			start := w.Now()
			g := p.Take(scope, lock.Request{Terms: priority.Terms{Mode: priority.Shared}})
			require.Equal(w, in, w.Now()-start)
			require.NoError(w, g.Release(w.Context()))
			require.Equal(w, in+trip, w.Now()-start)
		}
	})
}

// The writer lists who is there, joins, shuts the lock, and looks anew; then it preempts one after the other, each for a trip.
func TestRoundTripsUntilReadersThatWalkedInHearOfAWriter(t *testing.T) {
	for _, k := range []int{1, 4, 16} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			run(t, func(w *world) {
				urgent := w.Program("urgent", long)
				warm(urgent, "another")
				var programs []*program
				for i := range k {
					programs = append(programs, w.Program(fmt.Sprint("walker ", i), long))
					warm(programs[i], "another")
				}
				opened(w.T, w, w.Now()+time.Minute)
				var held []*work
				for _, p := range programs {
					held = append(held, p.Do(toRead, untilCancelled, lasting(time.Second)))
				}
				w.Until(w.Now() + 2*time.Minute)
				start := w.Now()
				first := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, lasting(time.Second))
				for _, h := range held {
					<-h.Hold().Context().Done()
				}
				require.Equal(w, time.Duration(9+k)*trip, w.Now()-start)
				require.NoError(w, first.Returned())
				for _, h := range held {
					require.Error(w, h.Returned())
				}
			})
		})
	}
}
