package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHeatIsTheTimeWaitedInEachSlice(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		// given a lock for which one has waited 30s, another one waits since 20s, and one nobody waits for
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
		require.Equal(t, 20*time.Second, h.Slice)
		require.Equal(t, []HeatRow{
			{Scope: users, Waited: []time.Duration{10 * time.Second, 20 * time.Second, 0, 20 * time.Second}},
			{Scope: "other", Waited: []time.Duration{0, 0, 0, 20 * time.Second}},
		}, h.Rows)
		require.Equal(t, 50*time.Second, h.Rows[0].Total())

		// and a day later, in coarser slices
		s.second(86_000)
		h = s.board.Heat(s.start, s.start.Add(4*time.Minute), 2)
		require.Equal(t, 30*time.Second+time.Minute, h.Rows[0].Waited[0].Round(time.Second))
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

// Whatever was waited when, it shows up whole, in whatever slices.
func TestHeatLosesNothing(t *testing.T) {
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		w := newWarmth(10)
		var sum time.Duration
		now := start
		for range rapid.IntRange(1, 30).Draw(t, "waits") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "pause")) * time.Millisecond)
			long := time.Duration(rapid.IntRange(1, 100_000).Draw(t, "wait")) * time.Millisecond
			w.add(users, now.Add(-long), now)
			sum += long
		}
		columns := columns{from: start.Add(-2 * time.Minute), sums: make([]float64, rapid.IntRange(1, 50).Draw(t, "columns"))}
		to := now.Add(time.Minute)
		columns.slice = to.Sub(columns.from)/time.Duration(len(columns.sums)) + 1
		w.scopes[users].into(columns, to)
		got := HeatRow{Waited: columns.durations()}.Total()
		require.InDelta(t, sum.Seconds(), got.Seconds(), 0.2, "%v", got)
	})
}
