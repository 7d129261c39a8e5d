package virtualtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// trip is how long it takes from a program that is far away to the server and
// back. Nothing else takes time here, so what waits for n answers one after the
// other takes n trips.
const trip = 10 * time.Millisecond

func TestRoundTripsOfAHold(t *testing.T) {
	each(t, map[string]struct {
		r     lockguard.Requirement
		leave time.Duration // a member of a hold reads the lock node, and lists, before it leaves
	}{
		"alone":                {lockguard.Requirement{}, trip},
		"that others can join": {lockguard.Requirement{Hold: holdID}, 3 * trip},
		"that shares":          {lockguard.Requirement{Hold: holdID, Terms: priority.Terms{Mode: priority.Shared}}, 3 * trip},
	}, func(w *world, c struct {
		r     lockguard.Requirement
		leave time.Duration
	},
	) {
		p := w.Program("holder", long)
		warm(p, scope)
		require.NoError(w, p.Do(c.r, lasting(time.Millisecond)).Returned())

		// an uncontended lock: one for T1, by the version that the last hold has left, one for T5
		start := w.Now()
		held := p.Do(c.r, lasting(time.Millisecond))
		require.NoError(w, held.Returned())
		require.Equal(w, trip, held.Began()-start)
		require.Equal(w, trip+time.Millisecond+c.leave, held.Ended()-start)
	})
}

func TestRoundTripsOfAHandOver(t *testing.T) {
	each(t, map[string]time.Duration{"after a short hold": 10 * trip, "after a long one": 90 * time.Second}, func(w *world, work time.Duration) {
		holder, equal, quiet := w.Program("holder", long), w.Program("equal", long), w.Program("quiet", long)
		warm(holder, scope)
		warm(equal, "another")
		warm(quiet, "another")

		// given a holder, one that waits, and one that comes first and does not preempt
		held := holder.Do(lockguard.Requirement{}, lasting(time.Minute+work))
		w.Until(30 * time.Second)
		last := equal.Do(lockguard.Requirement{}, lasting(work))
		w.Until(time.Minute)
		first := quiet.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, NeverPreempts: true}}, lasting(work))

		// then from the end of a hold to the next one's work: T4 and its event, and the token; and if no other
		// request was there when the hold began, the list and the next one's request before that
		require.NoError(w, held.Returned())
		require.NoError(w, first.Returned())
		require.NoError(w, last.Returned())
		require.Equal(w, held.Began()+time.Minute+work+4*trip, first.Began())
		require.Equal(w, first.Began()+work+2*trip, last.Began())
	})
}

// A hold that ends while its holder looks who is next waits for that look, and does not begin another.
func TestHandOverWaitsForTheLookThatIsUnderWay(t *testing.T) {
	const work = 2 * time.Millisecond
	run(t, func(w *world) {
		first, holder, last := w.Program("first", long), w.Program("holder", long), w.Program("last", long)
		for _, p := range []*program{first, holder, last} {
			warm(p, "another")
		}
		before := first.Do(lockguard.Requirement{}, lasting(time.Minute))
		w.Until(time.Second)
		var ended time.Duration
		done := make(chan error, 1)
		go func() {
			g, err := holder.Acquire(scope, lock.Request{}) // without a token, which would take as long
			if err != nil {
				done <- err
				return
			}
			time.Sleep(work)
			ended = w.Now()
			done <- g.Release(w.Context())
		}()
		w.Until(2 * time.Second)
		next := last.Do(lockguard.Requirement{}, lasting(time.Second))
		require.NoError(w, before.Returned())
		require.NoError(w, <-done)
		require.NoError(w, next.Returned())

		// the look (the list, the next one's request) began 0.2 ms after the grant; then T4 and its event, and the token
		require.Equal(w, ended-work+200*time.Microsecond+4*trip, next.Began())
	})
}

func TestRoundTripsOfAPreemption(t *testing.T) {
	each(t, map[string]time.Duration{"that is cleaned up after soon": 3 * trip, "that is cleaned up after for long": time.Minute}, func(w *world, cleanup time.Duration) {
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		warm(holder, scope)
		warm(urgent, "another")
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Hour}}, untilCancelled, lasting(cleanup))
		w.Until(time.Minute)

		// from the request to the victim's context: the list, the node, all that is to be known, T6, and what T6 says
		first := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)
		<-held.Hold().Context().Done()
		require.Equal(w, 5*trip, w.Now()-time.Minute)

		// from the end of the cleanup to the preemptor's work: T4 and its event, and the token
		w.Until(time.Minute + 5*trip + cleanup + 3*trip)
		require.Equal(w, time.Minute+5*trip+cleanup+2*trip, first.Began())
		require.Error(w, held.Returned())
	})
}

// A holder that knows its successor already is preempted for another request.
func TestRoundTripsOfAPreemptionWhereSomebodyWaitsAlready(t *testing.T) {
	run(t, func(w *world) {
		first, holder, equal, urgent := w.Program("first", long), w.Program("holder", long), w.Program("equal", long), w.Program("urgent", long)
		for _, p := range []*program{first, holder, equal, urgent} {
			warm(p, "another")
		}
		before := first.Do(lockguard.Requirement{}, lasting(10*time.Second))
		w.Until(time.Second)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Hour}}, untilCancelled, lasting(45*time.Second))
		w.Until(2 * time.Second)
		later := equal.Do(lockguard.Requirement{}, lasting(time.Second))
		require.NoError(w, before.Returned())
		w.Until(90 * time.Second)

		next := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, lasting(time.Second))
		<-held.Hold().Context().Done()
		asked := w.Now()
		require.NoError(w, next.Returned())
		require.Equal(w, asked+45*time.Second+2*trip, next.Began())
		require.NoError(w, later.Returned())
		require.Error(w, held.Returned())
	})
}

func TestHandOverThatWasPreparedMindsWhoHasComeSince(t *testing.T) {
	each(t, map[string]time.Duration{
		"long before":  30 * time.Second,
		"a moment ago": 2*trip + time.Millisecond, // the holder has heard of it, and does not know who it is
	}, func(w *world, before time.Duration) {
		holder, urgent, higher := w.Program("holder", long), w.Program("urgent", long), w.Program("higher", long)
		warm(holder, scope)
		warm(urgent, "another")
		warm(higher, "another")

		// given a holder that cleans up for its preemptor
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Hour}}, untilCancelled, lasting(time.Minute))
		w.Until(time.Minute)
		first := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, lasting(time.Second))
		<-held.Hold().Context().Done()
		end := w.Now() + time.Minute

		// when somebody more important comes meanwhile
		w.Until(end - before)
		second := higher.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 9}}, lasting(time.Second))

		// then that is granted first
		require.NoError(w, second.Returned())
		if before > time.Second { // prepared, as for the other
			require.Equal(w, end+2*trip, second.Began())
		}
		require.NoError(w, first.Returned())
		require.Greater(w, first.Began(), second.Began())
		require.Error(w, held.Returned())
	})
}

// warm makes a program that is far away know the root, and a lock. Each request takes a trip to the server from then on.
func warm(p *program, scope string) {
	w := p.World
	require.NoError(w, p.Take(scope, lock.Request{}).Release(w.Context()))
	w.On(zktest.Any().From(p.Name)).Delay(trip)
	w.Begin()
}
