package scheduler

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// wallClock is a clock on the wall that can be set.
type wallClock struct {
	mu  sync.Mutex
	set time.Duration // against the bubble's clock
}

func (w *wallClock) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.set)
}

func (w *wallClock) put(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set += by
}

// started runs a runner until the end of the test.
func started(t *testing.T, r *runner) *runner {
	t.Helper()
	r.start()
	t.Cleanup(r.stop)
	return r
}

// bell notes when its alarm is called, and asks for the next instant.
type bell struct {
	mu    sync.Mutex
	rang  []time.Time
	after func(now time.Time) time.Time
}

func (b *bell) next(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rang = append(b.rang, now)
	return b.after(now)
}

func (b *bell) calls() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Time(nil), b.rang...)
}

func every(d time.Duration) func(time.Time) time.Time {
	return func(now time.Time) time.Time { return now.Truncate(d).Add(d) }
}

func never(time.Time) time.Time { return time.Time{} }

func TestAnAlarmThatIsWokenIsCalledAtOnceAndAsksAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		r := started(t, newRunner(nil))
		asleep, silent := &bell{after: every(24 * time.Hour)}, &bell{after: never}
		alarms := []*alarm{r.add(asleep.next), r.add(silent.next)}
		time.Sleep(time.Hour)

		// when
		at := time.Now()
		for _, a := range alarms {
			a.wake()
			a.wake()
		}
		time.Sleep(time.Minute)
		synctest.Wait()

		// then
		for _, b := range []*bell{asleep, silent} {
			calls := b.calls()
			require.GreaterOrEqual(t, len(calls), 2)
			require.LessOrEqual(t, len(calls), 3) // two wakes may be one call
			require.True(t, at.Equal(calls[1]))
		}
	})
}

func TestAFunctionMayAddWakeAndRemoveAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		r := newRunner(nil)
		other, added := &bell{after: never}, &bell{after: never}
		otherAlarm := r.add(other.next)
		var self *alarm
		busy := &bell{}
		busy.after = func(now time.Time) time.Time {
			switch len(busy.rang) {
			case 1:
				self.wake() // weighs more than what it returns
			case 2:
				r.add(added.next)
				otherAlarm.wake()
			case 3:
				otherAlarm.remove()
			}
			return now.Add(time.Minute)
		}
		self = r.add(busy.next)

		// when
		started(t, r)
		time.Sleep(time.Second)
		synctest.Wait()

		// then
		require.Len(t, busy.calls(), 2)
		require.Len(t, added.calls(), 1)
		require.Len(t, other.calls(), 2)
		time.Sleep(time.Minute)
		otherAlarm.wake()
		synctest.Wait()
		require.Len(t, busy.calls(), 3)
		require.Len(t, other.calls(), 2)
	})
}

func TestRemoveWaitsForACallThatIsUnderWay(t *testing.T) {
	// given
	r := started(t, newRunner(nil))
	called, goOn := make(chan struct{}), make(chan struct{})
	returned := false
	alarm := r.add(func(now time.Time) time.Time {
		close(called)
		<-goOn
		returned = true
		return now.Add(time.Hour)
	})
	<-called

	// when
	time.AfterFunc(10*time.Millisecond, func() { close(goOn) })
	alarm.remove()

	// then
	require.True(t, returned)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.asleep)
}

// The library compares what it is given with its own clock: two wall clocks, or
// two monotonic ones.
func TestTheLibrarySleepsByElapsedTime(t *testing.T) {
	next := turnFunc(func() time.Duration { return time.Second }).Next(time.Now())
	require.Contains(t, next.String(), "m=+")
}

func TestClockStepsAreToldOnceAndAllAlarmsAreCalledAgain(t *testing.T) {
	cases := []struct {
		name string
		by   time.Duration
	}{
		{"put forward, or suspended", 8 * time.Hour},
		{"put back", -8 * time.Hour},
		{"put back by a little", -2 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given
				wall := &wallClock{}
				var told []time.Duration
				r := newRunner(func(by time.Duration) { told = append(told, by) })
				r.wall = wall.now
				daily, silent := &bell{after: every(24 * time.Hour)}, &bell{after: never}
				r.add(daily.next)
				r.add(silent.next)
				started(t, r)
				time.Sleep(12*time.Hour + time.Second) // between two looks: one in that instant might see the clock before and after

				// when
				wall.put(c.by)
				stepped := wall.now()
				time.Sleep(time.Hour)
				synctest.Wait()

				// then
				require.Equal(t, []time.Duration{c.by}, told)
				for _, b := range []*bell{daily, silent} {
					calls := b.calls()
					require.Len(t, calls, 2)
					require.WithinDuration(t, stepped, calls[1], wakeEvery)
				}
				time.Sleep(12*time.Hour - c.by)
				synctest.Wait()
				require.Len(t, daily.calls(), 3, "the midnight of the clock on the wall")
			})
		})
	}
}

func TestAClockThatIsSlewedIsNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		wall := &wallClock{}
		r := newRunner(func(by time.Duration) { t.Errorf("stepped by %s", by) })
		r.wall = wall.now
		b := &bell{after: every(time.Hour)}
		r.add(b.next)
		started(t, r)

		// when
		for range 3600 {
			time.Sleep(time.Second)
			wall.put(-500 * time.Microsecond)
		}
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()

		// then: it is called by the clock on the wall, and never too early
		calls := b.calls()
		require.Len(t, calls, 2)
		require.Less(t, calls[1].Sub(calls[0].Add(time.Hour)), time.Millisecond)
		require.GreaterOrEqual(t, calls[1].Sub(calls[0]), time.Hour)
	})
}

func TestNothingIsCalledAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		r := newRunner(nil)
		b := &bell{after: every(time.Second)}
		alarm := r.add(b.next)
		r.start()
		time.Sleep(1500 * time.Millisecond)

		// when
		r.stop()
		alarm.wake()
		r.add(b.next)
		time.Sleep(time.Minute)

		// then
		require.Len(t, b.calls(), 2)
	})
}

func TestAlarmsComeAndGoFromManySides(t *testing.T) {
	r := started(t, newRunner(nil))
	var sides sync.WaitGroup
	for range 8 {
		sides.Go(func() {
			for range 200 {
				b := &bell{after: func(now time.Time) time.Time { return now.Add(time.Microsecond) }}
				a := r.add(b.next)
				a.wake()
				a.remove()
				n := len(b.calls())
				a.wake()
				if len(b.calls()) != n {
					t.Error("called after remove")
				}
			}
		})
	}
	sides.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.alarms)
	require.Empty(t, r.asleep)
}

func TestRunnerThatStandsStillSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(nil)
		require.True(t, r.turning(), "before the start")
		r.start()
		time.Sleep(time.Hour)
		require.True(t, r.turning(), "nothing is due")

		// A function that does not return holds up all others.
		stuck := make(chan struct{})
		r.add(func(time.Time) time.Time { <-stuck; return time.Time{} })
		time.Sleep(2 * wakeEvery)
		require.True(t, r.turning(), "it may only be slow")
		time.Sleep(2 * wakeEvery)
		require.False(t, r.turning())

		close(stuck)
		synctest.Wait()
		time.Sleep(time.Second)
		require.True(t, r.turning(), "it goes on")
		r.stop()
		time.Sleep(time.Hour)
		require.True(t, r.turning(), "after the end")
	})
}
