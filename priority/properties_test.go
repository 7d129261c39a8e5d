package priority_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestGrantIsForTheFirstInLineBesideCompatibleHoldersOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		require.Equal(t,
			f.First && len(inTheWay(f)) == 0,
			priority.Judge(f).Action == priority.Grant)
	})
}

func TestTakeOverMeansThatEveryConflictingHolderWasAskedAndHadItsGrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		if priority.Judge(f).Action != priority.TakeOver {
			return
		}
		require.True(t, f.First, "only the first in line takes over")
		require.False(t, f.Request.Try, "a try never takes over")
		require.NotEmpty(t, inTheWay(f), "without a conflict it is a grant")
		for _, h := range inTheWay(f) {
			require.True(t, overdue(f.Request, h), "evicted before its time: %+v", h)
		}
	})
}

func TestTakeOverThatIsDueWinsOverEverythingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		holders := inTheWay(f)
		if !f.First || f.Request.Try || len(holders) == 0 {
			return
		}
		for _, h := range holders {
			if !overdue(f.Request, h) {
				return
			}
		}
		require.Equal(t, takeOver, priority.Judge(f))
	})
}

func TestOnlyConflictingHoldersAreAskedEachOnceAndByRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		v := priority.Judge(f)
		require.Equal(t, v.Action == priority.Preempt, len(v.Asks) > 0, "asks come with Preempt alone")
		seen := map[int]bool{}
		for _, a := range v.Asks {
			h := f.Holders[a.Holder]
			require.False(t, seen[a.Holder], "asked twice at once")
			seen[a.Holder] = true
			require.False(t, f.Request.Mode.Admits(h.Mode), "asked without a conflict")
			require.False(t, h.LeaseLeft > 0 && !mayPreempt(f.Request, h), "asked without a right")
			require.Equal(t, h.LeaseLeft <= 0, a.Reason == priority.LeaseExpired)
			for _, standing := range h.Asked {
				require.NotEqual(t, a.Reason, standing.Reason, "asked again")
			}
			require.Equal(t, priority.Grace(a.Reason, f.Request, h.CleanupTimeout), a.Grace)
			require.LessOrEqual(t, a.Grace, h.CleanupTimeout)
		}
	})
}

func TestNoHolderIsAskedForTheLevelWhileAnotherInTheWayIsLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		v := priority.Judge(f)
		if !slices.ContainsFunc(v.Asks, func(a priority.Ask) bool { return a.Reason == priority.Outranked }) {
			return
		}
		for _, h := range inTheWay(send(f, v.Asks)) {
			require.NotEmpty(t, h.Asked, "left alone: %+v", h)
		}
	})
}

// The rules hold back, and do nothing else: without them all that is asked is
// asked, at once or later.
func TestRulesOnlyHoldBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		free := later(f, 0)
		free.Request.PreemptDelta, free.Request.NeverPreempts = 0, false
		for i := range free.Holders {
			free.Holders[i].MinRuntimeLeft = 0
		}
		v, w := priority.Judge(f), priority.Judge(free)
		require.Subset(t, w.Asks, v.Asks)
		require.Equal(t, w.Action == priority.TakeOver, v.Action == priority.TakeOver)
		require.Equal(t, w.Action == priority.Grant, v.Action == priority.Grant)
	})
}

func TestForecastIsWhatJudgeDoesLookByLook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		before := later(f, 0)
		forecast := priority.Foresee(f)
		require.Equal(t, before, f, "the facts must not be changed")

		var now time.Duration
		var asks []priority.Foreseen
		v := priority.Judge(f)
		for ; v.After != never && (v.Action == priority.Preempt || v.Action == priority.Wait); v = priority.Judge(f) {
			for _, a := range v.Asks {
				asks = append(asks, priority.Foreseen{Ask: a, After: now})
			}
			f = later(send(f, v.Asks), v.After)
			now += v.After
		}
		require.Equal(t, priority.Forecast{Asks: asks, End: v.Action, After: now}, forecast)
	})
}

// Before Verdict.After nothing changes by itself; then something does.
func TestTimeAloneChangesNothingBeforeAfterAndSomethingThen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		f.First, f.Request.Try = true, false
		v := priority.Judge(f)
		if v.Action != priority.Preempt && v.Action != priority.Wait {
			return
		}
		f = send(f, v.Asks)

		if v.After > 0 {
			early := time.Duration(rapid.Int64Range(0, int64(v.After)-1).Draw(t, "early"))
			require.Equal(t, wait(v.After-early), priority.Judge(later(f, early)), "looked %s too early", v.After-early)
		}

		then := later(f, v.After)
		if priority.Judge(then).Action == priority.Wait {
			require.Greater(t, countOverdue(then), countOverdue(later(f, v.After-1)), "looked in vain")
		}
	})
}

// Left alone, with holders that never move, the first in line
// comes to an end after a few looks: it gets the lock, or gives up when its
// patience is over, neither earlier nor later than it should.
func TestLeftAloneTheFirstInLineComesToAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		f.First, f.Request.Try = true, false
		for i := range f.Holders {
			f.Holders[i].Asked = nil
		}
		start := f.Holders

		var now, firstAsk time.Duration
		firstAsk = never
		var longest time.Duration
		for _, h := range start {
			longest = max(longest, h.LeaseLeft+h.CleanupTimeout)
		}
		v := priority.Judge(f)
		for looks := 0; v.Action == priority.Preempt || v.Action == priority.Wait; looks++ {
			require.LessOrEqual(t, looks, 4*len(start)+1, "too many looks")
			if firstAsk == never && len(v.Asks) > 0 {
				firstAsk = now
			}
			f = later(send(f, v.Asks), v.After)
			now += v.After
			v = priority.Judge(f)
		}

		require.LessOrEqual(t, now, longest, "no request waits longer than the leases and cleanups last")
		switch v.Action {
		case priority.Grant, priority.TakeOver:
		case priority.GiveUp:
			if firstAsk != never {
				require.Equal(t, *f.Request.WaitingTimeout, now-firstAsk)
			} else {
				require.Zero(t, *f.Request.WaitingTimeout, "gave up without an ask")
			}
		default:
			require.Fail(t, "unexpected end", "%v", v.Action)
		}
		if v.Action == priority.TakeOver && !f.Request.Forceful {
			for _, h := range inTheWay(priority.Facts{Request: f.Request, Holders: start}) {
				require.GreaterOrEqual(t, now, h.LeaseLeft+h.CleanupTimeout, "a polite one takes over only after lease and grace")
			}
		}
	})
}

func TestForcefulRequestThatOutranksAllTakesOverAtTheEndOfTheLongestGrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		f.First, f.Request.Try, f.Request.Forceful, f.Request.Level = true, false, true, priority.Emergency
		for i := range f.Holders {
			f.Holders[i].Asked = nil
		}
		var now, longest time.Duration
		for _, h := range inTheWay(f) {
			longest = max(longest, priority.Grace(priority.Outranked, f.Request, h.CleanupTimeout))
		}
		v := priority.Judge(f)
		for v.Action == priority.Preempt || v.Action == priority.Wait {
			f = later(send(f, v.Asks), v.After)
			now += v.After
			v = priority.Judge(f)
		}
		require.Contains(t, []priority.Action{priority.Grant, priority.TakeOver}, v.Action)
		require.Equal(t, longest, now)
	})
}

func TestJudgeIsAPureFunctionOfASetOfHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		before := later(f, 0)
		v := priority.Judge(f)
		require.Equal(t, before, f, "the facts must not be changed")
		require.Equal(t, v, priority.Judge(f))

		mirrored := later(f, 0)
		slices.Reverse(mirrored.Holders)
		w := priority.Judge(mirrored)
		slices.Reverse(w.Asks)
		for i := range w.Asks {
			w.Asks[i].Holder = len(f.Holders) - 1 - w.Asks[i].Holder
		}
		require.Equal(t, v, w, "the order of the holders must not matter")
	})
}

// drawFacts draws small numbers, so that deadlines meet often.
func drawFacts(t *rapid.T) priority.Facts {
	seconds := rapid.Map(rapid.IntRange(0, 6), func(n int) time.Duration { return time.Duration(n) * s })
	level := rapid.Map(rapid.Int32Range(0, 2), func(n int32) priority.Level { return priority.Level(n) })
	mode := rapid.SampledFrom([]priority.Mode{priority.Exclusive, priority.Shared})

	ask := rapid.Custom(func(t *rapid.T) priority.Asked {
		return priority.Asked{
			Reason: rapid.SampledFrom([]priority.Reason{priority.Outranked, priority.LeaseExpired}).Draw(t, "reason"),
			Ago:    seconds.Draw(t, "ago"),
		}
	})
	holder := rapid.Custom(func(t *rapid.T) priority.Holder {
		return priority.Holder{
			Level:          level.Draw(t, "level"),
			Mode:           mode.Draw(t, "mode"),
			CleanupTimeout: seconds.Draw(t, "cleanup"),
			Remaining:      priority.Remaining{LeaseLeft: seconds.Draw(t, "lease left"), MinRuntimeLeft: seconds.Draw(t, "minimum runtime left")},
			Asked:          rapid.SliceOfNDistinct(ask, 0, 2, func(a priority.Asked) priority.Reason { return a.Reason }).Draw(t, "asked"),
		}
	})
	return priority.Facts{
		Request: priority.Request{
			Level:          rapid.OneOf(level, rapid.Just(priority.Emergency)).Draw(t, "my level"),
			Mode:           mode.Draw(t, "my mode"),
			WaitingTimeout: rapid.Ptr(seconds, true).Draw(t, "waiting"),
			Forceful:       rapid.Bool().Draw(t, "forceful"),
			PreemptDelta:   rapid.IntRange(0, 3).Draw(t, "delta"),
			NeverPreempts:  rapid.Bool().Draw(t, "never preempts"),
			Try:            rapid.Bool().Draw(t, "try"),
		},
		First:   rapid.Bool().Draw(t, "first"),
		Holders: rapid.SliceOfN(holder, 0, 3).Draw(t, "holders"),
	}
}

func inTheWay(f priority.Facts) []priority.Holder {
	return slices.DeleteFunc(slices.Clone(f.Holders), func(h priority.Holder) bool { return f.Request.Mode.Admits(h.Mode) })
}

// mayPreempt says in its own words when a holder may be asked for the level.
func mayPreempt(r priority.Request, h priority.Holder) bool {
	if h.Level >= r.Level {
		return false
	}
	if r.Level == priority.Emergency {
		return true
	}
	if r.NeverPreempts {
		return false
	}
	above := int(r.Level - h.Level)
	return above >= r.PreemptDelta && h.MinRuntimeLeft <= 0
}

// overdue says in its own words when a holder may be evicted.
func overdue(r priority.Request, h priority.Holder) bool {
	grace := h.CleanupTimeout
	if r.Forceful && r.WaitingTimeout != nil && *r.WaitingTimeout < grace {
		grace = *r.WaitingTimeout
	}
	for _, a := range h.Asked {
		if a.Ago >= grace && (r.Forceful || a.Reason == priority.LeaseExpired) {
			return true
		}
	}
	return false
}

func countOverdue(f priority.Facts) int {
	n := 0
	for _, h := range inTheWay(f) {
		if overdue(f.Request, h) {
			n++
		}
	}
	return n
}

// later returns a copy of f when d has passed and nothing happened.
func later(f priority.Facts, d time.Duration) priority.Facts {
	f.Holders = slices.Clone(f.Holders)
	for i, h := range f.Holders {
		f.Holders[i].LeaseLeft -= d
		f.Holders[i].MinRuntimeLeft -= d
		f.Holders[i].Asked = slices.Clone(h.Asked)
		for j := range f.Holders[i].Asked {
			f.Holders[i].Asked[j].Ago += d
		}
	}
	return f
}

// send returns a copy of f right after the asks were sent.
func send(f priority.Facts, asks []priority.Ask) priority.Facts {
	f = later(f, 0)
	for _, a := range asks {
		f.Holders[a.Holder].Asked = append(f.Holders[a.Holder].Asked, priority.Asked{Reason: a.Reason})
	}
	return f
}
