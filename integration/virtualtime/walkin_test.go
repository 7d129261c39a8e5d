package virtualtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var toRead = lockguard.Requirement{Mode: priority.Shared, CleanupTimeout: time.Hour}

// opened has two programs open the lock for readers, and hold it until an instant.
func opened(t *testing.T, w *world, until time.Duration) {
	t.Helper()
	a, b := w.program("opener", long), w.program("second", long)
	warm(t, a, "another")
	warm(t, b, "another")
	start := w.now()
	a.do(toRead, lasting(until-start))
	w.until(start + time.Second)
	b.do(toRead, lasting(until-start-time.Second))
	w.until(start + 2*time.Second)
}

// T18 for one trip, another for the token, as after a hand-over, and one for the way out; one that has not looked yet
// reads who is there, and G, before that.
func TestRoundTripsOfAReaderThatWalksIn(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.program("walker", long, far)
		warm(t, p, "another")
		opened(t, w, time.Hour)
		for round, in := range []time.Duration{4 * trip, 2 * trip, 2 * trip} {
			start := w.now()
			held := p.do(toRead, lasting(time.Millisecond))
			require.NoError(t, held.returned())
			require.Equal(t, in, held.began()-start, "round %d", round)
			require.Equal(t, in+trip+time.Millisecond, held.ended-start, "round %d", round)
		}
	})
}

// Without the token it is one trip in, and one out.
func TestRoundTripsOfAReaderThatWalksInAndAsksForNoToken(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.program("walker", long, far)
		warm(t, p, "another")
		opened(t, w, time.Hour)
		lock, err := p.client.PriorityLock(scope)
		require.NoError(t, err)
		for _, in := range []time.Duration{3 * trip, trip, trip} {
			start := w.now()
			g, err := lock.Acquire(t.Context(), recipes.Request{Mode: priority.Shared})
			require.NoError(t, err)
			require.Equal(t, in, w.now()-start)
			require.NoError(t, g.Release(t.Context()))
			require.Equal(t, in+trip, w.now()-start)
		}
	})
}

// The writer lists who is there, joins, shuts the lock, and looks anew; then it asks one after the other to go, each for a trip.
func TestRoundTripsUntilReadersThatWalkedInHearOfAWriter(t *testing.T) {
	for _, k := range []int{1, 4, 16} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				urgent := w.program("urgent", long, far)
				warm(t, urgent, "another")
				var programs []*program
				for i := range k {
					programs = append(programs, w.program(fmt.Sprint("walker ", i), long, far))
					warm(t, programs[i], "another")
				}
				opened(t, w, w.now()+time.Minute)
				var held []*run
				for _, p := range programs {
					held = append(held, p.do(toRead, untilCancelled, lasting(time.Second)))
				}
				w.until(w.now() + 2*time.Minute)
				start := w.now()
				first := urgent.do(lockguard.Requirement{Priority: 5}, lasting(time.Second))
				for _, h := range held {
					<-h.hold().Context().Done()
				}
				require.Equal(t, time.Duration(9+k)*trip, w.now()-start)
				require.NoError(t, first.returned())
				for _, h := range held {
					require.Error(t, h.returned())
				}
			})
		})
	}
}
