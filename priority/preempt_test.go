package priority_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func (r request) delta(d int) request {
	r.PreemptDelta = d
	return r
}

func (r request) neverPreempts() request {
	r.NeverPreempts = true
	return r
}

func (h holder) runsFor(left time.Duration) holder {
	h.MinRuntimeLeft = left
	return h
}

// Every combination of the rules, for a holder at level 5 whose lease runs: the
// request's level × its delta × whether it ever preempts × the minimum runtime.
func TestWhatBarsARequestFromPreempting(t *testing.T) {
	const (
		no      = priority.NoBar
		level   = priority.BarLevel
		never   = priority.BarNever
		delta   = priority.BarDelta
		runtime = priority.BarMinRuntime
	)
	deltas := []int{0, 1, 2, 5, math.MaxInt}
	for _, row := range []struct {
		level   priority.Level
		never   bool
		running bool
		want    [5]priority.Bar // by delta
	}{
		{level: 0, want: [5]priority.Bar{level, level, level, level, level}},
		{level: 5, want: [5]priority.Bar{level, level, level, level, level}},
		{level: 6, want: [5]priority.Bar{no, no, delta, delta, delta}},
		{level: 7, want: [5]priority.Bar{no, no, no, delta, delta}},
		{level: 9, want: [5]priority.Bar{no, no, no, delta, delta}},
		{level: 10, want: [5]priority.Bar{no, no, no, no, delta}},
		{level: priority.Emergency, want: [5]priority.Bar{no, no, no, no, no}},

		{level: 0, running: true, want: [5]priority.Bar{level, level, level, level, level}},
		{level: 5, running: true, want: [5]priority.Bar{level, level, level, level, level}},
		{level: 6, running: true, want: [5]priority.Bar{runtime, runtime, delta, delta, delta}},
		{level: 7, running: true, want: [5]priority.Bar{runtime, runtime, runtime, delta, delta}},
		{level: 10, running: true, want: [5]priority.Bar{runtime, runtime, runtime, runtime, delta}},
		{level: priority.Emergency, running: true, want: [5]priority.Bar{no, no, no, no, no}},

		{level: 5, never: true, want: [5]priority.Bar{level, level, level, level, level}},
		{level: 6, never: true, want: [5]priority.Bar{never, never, never, never, never}},
		{level: 10, never: true, running: true, want: [5]priority.Bar{never, never, never, never, never}},
		{level: priority.Emergency - 1, never: true, want: [5]priority.Bar{never, never, never, never, never}},
		{level: priority.Emergency, never: true, want: [5]priority.Bar{no, no, no, no, no}},
		{level: priority.Emergency, never: true, running: true, want: [5]priority.Bar{no, no, no, no, no}},
	} {
		for i, d := range deltas {
			r := priority.Request{Level: row.level, PreemptDelta: d, NeverPreempts: row.never}
			h := priority.Holder{Level: 5, Remaining: priority.Remaining{LeaseLeft: hour}}
			if row.running {
				h.MinRuntimeLeft = 1
			}
			t.Run(fmt.Sprintf("level %d, delta %d, never %t, running %t", row.level, d, row.never, row.running), func(t *testing.T) {
				require.Equal(t, row.want[i], priority.BarOf(r, h))
			})
		}
	}
}

func TestDeltaIsCountedWithoutOverflow(t *testing.T) {
	top := priority.Request{Level: priority.Emergency - 1, PreemptDelta: math.MaxInt32 - 1}
	require.Equal(t, priority.NoBar, priority.BarOf(top, priority.Holder{Level: 0}))
	require.Equal(t, priority.BarDelta, priority.BarOf(top, priority.Holder{Level: 1}))
	top.PreemptDelta = math.MinInt
	require.Equal(t, priority.NoBar, priority.BarOf(top, priority.Holder{Level: 1}))
}

func TestHolderIsLeftAloneForItsMinimumRuntime(t *testing.T) {
	judge(t, []contention{
		{"polite", politely, by(writer(1, hour).runsFor(3 * s)), wait(3 * s)},
		{"forceful", forcefully, by(writer(1, hour).runsFor(3 * s)), wait(3 * s)},
		{"its last moment", forcefully, by(writer(1, hour).runsFor(1)), wait(1)},
		{"over", forcefully, by(writer(1, hour).cleanup(2 * s).runsFor(0)), preempt(2*s, outranked(0, 2*s))},
		{"long over", forcefully, by(writer(1, hour).cleanup(2 * s).runsFor(-hour)), preempt(2*s, outranked(0, 2*s))},
		{"forceful that waits for no cleanup", forcefully.waits(0), by(writer(1, hour).cleanup(2 * s).runsFor(3 * s)), wait(3 * s)},
		{"polite that waits for no cleanup", politely.waits(0), by(writer(1, hour).runsFor(3 * s)), wait(3 * s)},
		{"patience counts from the first ask alone", politely.waits(1 * s), by(writer(1, hour).runsFor(3 * s)), wait(3 * s)},
		{"try", forcefully.tries(), by(writer(1, hour).runsFor(3 * s)), refuse},
		{"emergency", forcefully.at(priority.Emergency), by(writer(1, hour).cleanup(2 * s).runsFor(3 * s)), preempt(2*s, outranked(0, 2*s))},
		{"lease ends first", forcefully, by(writer(1, 2*s).runsFor(3 * s)), wait(2 * s)},
		{"lease run out", politely.at(0), by(writer(1, out).cleanup(2 * s).runsFor(3 * s)), preempt(2*s, lease(0, 2*s))},
		{"as long as the lease", forcefully, by(writer(1, 3*s).runsFor(3 * s)), wait(3 * s)},
		{"as long as the lease, which is over", politely, by(writer(1, out).runsFor(out).cleanup(2 * s)), preempt(2*s, lease(0, 2*s))},
		{"equal holder: its lease counts", forcefully, by(writer(5, hour).runsFor(3 * s)), wait(hour)},
		{"asked before it was protected", forcefully, by(writer(1, hour).cleanup(4*s).runsFor(3*s).asked(byRank, 1*s)), wait(3 * s)},
		{"asked before it was protected, grace over", forcefully, by(writer(1, hour).cleanup(4*s).runsFor(3*s).asked(byRank, 4*s)), takeOver},
		{"shared beside shared", politely.shared(), by(reader(1, hour).runsFor(3 * s)), grant},
	})
}

func TestRequestWithADeltaLeavesHoldersThatAreNearlyAsImportantAlone(t *testing.T) {
	judge(t, []contention{
		{"too near", forcefully.delta(5), by(writer(1, 7*s)), wait(7 * s)},
		{"just far enough", forcefully.delta(4), by(writer(1, hour)), preempt(0, outranked(0, 0))},
		{"too near, lease run out", politely.delta(5), by(writer(1, out)), preempt(0, lease(0, 0))},
		{"too near, try", forcefully.delta(5).tries(), by(writer(1, 7*s)), refuse},
		{"delta and minimum runtime: the lease counts", forcefully.delta(5), by(writer(1, 7*s).runsFor(3 * s)), wait(7 * s)},
		{"far enough, minimum runtime", forcefully.delta(4), by(writer(1, 7*s).runsFor(3 * s)), wait(3 * s)},
		{"emergency", forcefully.at(priority.Emergency).delta(5), by(writer(priority.Emergency-1, hour)), preempt(0, outranked(0, 0))},
	})
}

func TestRequestThatNeverPreemptsWaitsForTheLease(t *testing.T) {
	judge(t, []contention{
		{"polite", politely.neverPreempts(), by(writer(1, 7*s)), wait(7 * s)},
		{"forceful", forcefully.neverPreempts(), by(writer(1, 7*s)), wait(7 * s)},
		{"next to emergency", forcefully.at(priority.Emergency - 1).neverPreempts(), by(writer(1, 7*s)), wait(7 * s)},
		{"emergency", forcefully.at(priority.Emergency).neverPreempts(), by(writer(1, 7*s).cleanup(2 * s)), preempt(2*s, outranked(0, 2*s))},
		{"emergency, minimum runtime", forcefully.at(priority.Emergency).neverPreempts(), by(writer(1, 7*s).runsFor(3 * s)), preempt(0, outranked(0, 0))},
		{"emergency beside an emergency", forcefully.at(priority.Emergency).neverPreempts(), by(writer(priority.Emergency, 7*s)), wait(7 * s)},
		{"polite that waits for no cleanup", politely.waits(0).neverPreempts(), by(writer(1, 7*s)), wait(7 * s)},
		{"lease run out", politely.neverPreempts(), by(writer(1, out).cleanup(2 * s)), preempt(2*s, lease(0, 2*s))},
		{"lease run out, grace over", politely.neverPreempts(), by(writer(1, out).cleanup(2*s).asked(byLease, 2*s)), takeOver},
		{"lease run out, forceful", forcefully.neverPreempts().waits(1 * s), by(writer(1, out).cleanup(2 * s)), preempt(1*s, lease(0, 1*s))},
		{"no holder in the way", politely.shared().neverPreempts(), by(reader(1, hour)), grant},
		{"free", politely.neverPreempts(), nil, grant},
	})
}

func TestSharedHoldersAreAskedWhenTheLastOfThemMayBe(t *testing.T) {
	judge(t, []contention{
		{"one runs, the other may be asked", forcefully, by(reader(1, hour).runsFor(3*s), reader(1, hour)), wait(3 * s)},
		{"both run", forcefully, by(reader(1, hour).runsFor(3*s), reader(1, hour).runsFor(8*s)), wait(8 * s)},
		{"both may be asked", forcefully, by(reader(1, hour).cleanup(1*s), reader(1, hour).cleanup(2*s)), preempt(1*s, outranked(0, 1*s), outranked(1, 2*s))},
		{"one runs, the other's lease ends first", forcefully, by(reader(1, hour).runsFor(8*s), reader(1, 3*s)), wait(3 * s)},
		{"one runs, the other is past its lease", forcefully, by(reader(1, hour).runsFor(8*s), reader(1, out).cleanup(2*s)), preempt(2*s, lease(1, 2*s))},
		{"one runs, the other was asked for its lease", forcefully, by(reader(1, hour).runsFor(8*s), reader(1, out).cleanup(2*s).asked(byLease, 2*s)), wait(8 * s)},
		{"one runs until its lease ends", forcefully, by(reader(1, 20*s).runsFor(20*s), reader(1, hour).runsFor(3*s)), wait(20 * s)},
		{"one is too near for the delta, the other is not", forcefully.delta(4), by(reader(2, 20*s), reader(1, hour)), wait(20 * s)},
		{"emergency asks both", forcefully.at(priority.Emergency), by(reader(1, hour).runsFor(3*s), reader(1, hour)), preempt(0, outranked(0, 0), outranked(1, 0))},
	})
}

func TestForecast(t *testing.T) {
	ask := func(after time.Duration, a priority.Ask) priority.Foreseen {
		return priority.Foreseen{Ask: a, After: after}
	}
	for _, c := range []struct {
		name    string
		request request
		holders []holder
		want    priority.Forecast
	}{
		{"free", politely, nil, priority.Forecast{End: priority.Grant}},
		{"try", politely.tries(), by(writer(1, hour)), priority.Forecast{End: priority.Refuse}},
		{"forceful", forcefully, by(writer(1, hour).cleanup(2 * s)), priority.Forecast{
			End: priority.TakeOver, After: 2 * s, Asks: []priority.Foreseen{ask(0, outranked(0, 2*s))},
		}},
		{"forceful, minimum runtime", forcefully, by(writer(1, hour).cleanup(2 * s).runsFor(3 * s)), priority.Forecast{
			End: priority.TakeOver, After: 5 * s, Asks: []priority.Foreseen{ask(3*s, outranked(0, 2*s))},
		}},
		{"polite", politely, by(writer(1, 9*s).cleanup(2 * s).runsFor(3 * s)), priority.Forecast{
			End: priority.TakeOver, After: 11 * s, Asks: []priority.Foreseen{ask(3*s, outranked(0, 2*s)), ask(9*s, lease(0, 2*s))},
		}},
		{"polite with a patience", politely.waits(4 * s), by(writer(1, 9*s).cleanup(2 * s).runsFor(3 * s)), priority.Forecast{
			End: priority.GiveUp, After: 7 * s, Asks: []priority.Foreseen{ask(3*s, outranked(0, 2*s))},
		}},
		{"never preempts", forcefully.neverPreempts(), by(writer(1, 9*s).cleanup(2 * s)), priority.Forecast{
			End: priority.TakeOver, After: 11 * s, Asks: []priority.Foreseen{ask(9*s, lease(0, 2*s))},
		}},
		{"asked before", forcefully, by(writer(1, hour).cleanup(2*s).asked(byRank, 1*s)), priority.Forecast{End: priority.TakeOver, After: 1 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, priority.Foresee(priority.Facts{
				Request: priority.Request(c.request), First: true, Holders: plain(c.holders),
			}))
		})
	}
	t.Run("not first", func(t *testing.T) {
		f := priority.Facts{Request: priority.Request(forcefully), Holders: plain(by(writer(1, hour)))}
		require.Equal(t, priority.Forecast{End: priority.Wait}, priority.Foresee(f))
	})
}
