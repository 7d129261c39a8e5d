package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
)

func millis(seconds int) priority.Millis {
	return priority.Millis(time.Duration(seconds) * time.Second)
}

func TestHeatIsTheTimeWaitedInEachSlice(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		// given a lock for which one has waited 30s, another one waits since 20s, and one without waiters
		s.acquire(users, "ann")
		s.acquire("idle", "ann")
		s.second(10)
		s.join(users, "bob")
		s.second(40)
		s.leave(users, "bob")
		s.second(60)
		s.join(users, "cid")
		s.join("other", "dan")
		s.second(80)

		h := s.board.Heat(s.start, s.start.Add(80*time.Second), 4)
		require.Equal(t, millis(20), h.Slice)
		require.Equal(t, s.start.UTC(), h.Known, "a later start does not know about earlier waits")
		require.Equal(t, []HeatRow{
			{Scope: users, Waited: []priority.Millis{millis(10), millis(20), 0, millis(20)}},
			{Scope: "other", Waited: []priority.Millis{0, 0, 0, millis(20)}},
		}, h.Rows)
		require.Equal(t, 50*time.Second, h.Rows[0].Total())

		// and a day later, in coarser slices
		s.second(86_000)
		h = s.board.Heat(s.start, s.start.Add(4*time.Minute), 2)
		require.Equal(t, 30*time.Second+time.Minute, time.Duration(h.Rows[0].Waited[0]).Round(time.Second))
		require.Empty(t, s.board.Heat(s.start.Add(-time.Hour), s.start, 3).Rows)
		require.Len(t, s.board.Heat(s.start, time.Time{}, 1_000_000).Rows[0].Waited, maxColumns)
		require.Empty(t, s.board.Heat(s.start, s.start.Add(-time.Hour), 0).Rows)
	})
}

func TestHeatAddsUpWhatIsTooMuch(t *testing.T) {
	play(t, Keep{Heat: 150}, func(t *testing.T, s *script) {
		s.second(10)
		for i := range 200 {
			s.join(fmt.Sprintf("lock/%03d", i), "ann")
		}
		s.second(20)
		for i := range 200 {
			s.leave(fmt.Sprintf("lock/%03d", i), "ann")
		}
		h := s.board.Heat(s.start, s.start.Add(20*time.Second), 2)
		require.Len(t, h.Rows, maxHeatRows+1)
		require.Empty(t, h.Rows[maxHeatRows].Scope)
		require.Equal(t, 100*10*time.Second, h.Rows[maxHeatRows].Total().Round(time.Second))
		require.Equal(t, "lock/000", h.Rows[0].Scope)
	})
}

// A wait is drawn in the columns in which it was, whatever slices it crosses, also
// where those of ten seconds end and those of two minutes begin.
func TestHeatKnowsWhenEachWaitWas(t *testing.T) {
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		w := newWarmth(10)
		type span struct{ from, to time.Time }
		var waits []span
		now := start
		for range rapid.IntRange(1, 40).Draw(t, "waits") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1_500_000).Draw(t, "pause")) * time.Millisecond)
			long := time.Duration(rapid.OneOf(rapid.IntRange(1, 900_000), rapid.IntRange(1, 20_000_000)).Draw(t, "wait")) * time.Millisecond
			w.add(users, now.Add(-long), now)
			waits = append(waits, span{now.Add(-long), now})
		}
		// columns of whole coarse slices: nothing is spread
		n := rapid.IntRange(1, 60).Draw(t, "columns")
		slice := coarseSlice * time.Duration(rapid.IntRange(1, 5).Draw(t, "slices"))
		from := now.Truncate(coarseSlice).Add(-slice * time.Duration(rapid.IntRange(0, n).Draw(t, "before")))
		c := columns{from: from, slice: slice, sums: make([]float64, n)}
		w.scopes[users].into(c, from.Add(slice*time.Duration(n)))
		for i, got := range c.millis() {
			begin, end := from.Add(slice*time.Duration(i)), from.Add(slice*time.Duration(i+1))
			var want time.Duration
			for _, x := range waits {
				want += max(0, earliest(x.to, end).Sub(latest(x.from, begin)))
			}
			require.InDelta(t, want.Seconds(), time.Duration(got).Seconds(), 0.1, "column %d of %v, from %v", i, slice, begin)
		}
	})
}

func TestHeatOfAHugeQueueIsNotLost(t *testing.T) {
	w := newWarmth(1)
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	const many = 30_000
	for range many {
		w.add(users, start, start.Add(coarseSlice))
	}
	c := columns{from: start, slice: coarseSlice, sums: make([]float64, 1)}
	w.scopes[users].coarse.spread(c, start, start.Add(coarseSlice))
	require.Equal(t, priority.Millis(many*coarseSlice), c.millis()[0])
}

func TestHeatFromTheBeginningIsThatOfADay(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.join(users, "ann")
		s.second(60)
		s.leave(users, "ann")
		s.second(3600)
		h := s.board.Heat(time.Time{}, time.Time{}, 24)
		require.Equal(t, millis(3600), h.Slice)
		require.Equal(t, time.Minute, time.Duration(h.Rows[0].Waited[23]).Round(time.Second))
		require.Equal(t, time.Minute, h.Rows[0].Total().Round(time.Second))
	})
}

func TestHeatForgetsALockWithoutWaitsForADay(t *testing.T) {
	w := newWarmth(2)
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	w.add("old", start, start.Add(time.Second))
	w.add("new", start.Add(time.Hour), start.Add(time.Hour+time.Second))
	w.add("third", start.Add(2*time.Hour), start.Add(2*time.Hour+time.Second))
	require.NotNil(t, w.scopes["old"])
	require.Nil(t, w.scopes["third"], "it is added up")
	require.NotNil(t, w.rest.fine.sums)
	day := coarseSlice * coarseSlices
	w.add("fourth", start.Add(day+3*time.Minute), start.Add(day+4*time.Minute))
	require.Nil(t, w.scopes["old"])
	require.NotNil(t, w.scopes["new"])
	require.NotNil(t, w.scopes["fourth"])
}

// One that waits again, because somebody has overwritten the lock node, has not waited
// while it held the lock.
func TestHeatCountsNoHold(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.second(1)
		s.acquire(users, "ann")
		s.join(users, "bob")
		s.second(11)
		s.handOver(users, "ann")
		s.second(40)
		l := s.lock(users)
		bob, _ := remove(&l.Holders, "bob")
		l.Waiters = append(l.Waiters, bob)
		s.tell(users)
		s.second(45)
		h := s.board.Heat(s.start, s.start.Add(45*time.Second), 9)
		require.Equal(t, 15*time.Second, h.Rows[0].Total())
		s.leave(users, "bob")
		require.Equal(t, 15*time.Second, s.board.Heat(s.start, s.start.Add(45*time.Second), 9).Rows[0].Total())
	})
}
