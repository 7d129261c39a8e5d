package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// A book is a history that is written by hand, in milliseconds.
type book []history.Event

func (b *book) add(at int, kind history.Kind, who string, more func(*history.Event)) *book {
	client, _, _ := strings.Cut(who, "/")
	e := history.Event{At: time.Duration(at) * time.Millisecond, Kind: kind, Client: client, Who: who, Scope: "s"}
	if more != nil {
		more(&e)
	}
	*b = append(*b, e)
	return b
}

// grant: invoked at from, granted at to.
func (b *book) grant(who string, from, to int, token int64) *book {
	b.add(from, history.Invoked, who, nil)
	b.add(to, history.Granted, who, nil)
	return b.add(to, history.Tokened, who, func(e *history.Event) { e.Token = token })
}

func (b *book) share(who string, from, to int, token int64) *book {
	b.grant(who, from, to, token)
	(*b)[len(*b)-3].Shared = true
	return b
}

func (b *book) release(who string, at int) *book { return b.add(at, history.Releasing, who, nil) }

func (b *book) lose(who string, at int, reason, by string) *book {
	return b.add(at, history.Lost, who, func(e *history.Event) { e.Reason, e.By = reason, by })
}

func (b *book) takeOver(who string, at int, from ...string) *book {
	return b.add(at, history.Took, who, func(e *history.Event) {
		e.Of = from
		for _, victim := range from {
			e.Tokens = append(e.Tokens, b.token(victim))
		}
	})
}

// ask: at the instant at it is preempted, with a grace period until until.
func (b *book) ask(who string, at int, by string, until int) *book {
	return b.add(at, history.Asked, who, func(e *history.Event) { e.By, e.Deadline = by, time.Duration(until)*time.Millisecond })
}

// token is what the request holds by, as far as it was written down.
func (b *book) token(who string) int64 {
	for _, e := range *b {
		if e.Who == who && e.Kind == history.Tokened {
			return e.Token
		}
	}
	return 0
}

// span is what befalls a process.
func (b *book) span(kind history.Kind, client string, from, to int) *book {
	return b.add(to, kind, client, func(e *history.Event) {
		e.From, e.Who, e.Scope = time.Duration(from)*time.Millisecond, "", ""
	})
}

func (b *book) use(kind history.Kind, who string, at int, token, count int64) *book {
	return b.add(at, kind, who, func(e *history.Event) { e.From, e.Token, e.Count = e.At-time.Millisecond/2, token, count })
}

func (b *book) judge() Verdict {
	events := slices.Clone(*b)
	history.Sort(events)
	return Judge(events, Settings{Window: 100 * time.Millisecond, Patience: 30 * time.Second})
}

// found are the checks that have found something.
func (b *book) found() []string {
	var checks []string
	for _, v := range b.judge().Violations {
		checks = append(checks, v.Check)
	}
	slices.Sort(checks)
	return slices.Compact(checks)
}

func TestHistoriesThatKeepThePromises(t *testing.T) {
	for name, b := range map[string]*book{
		"one after the other":            new(book).grant("a/1", 0, 1, 5).release("a/1", 2).grant("b/1", 0, 3, 6).release("b/1", 4),
		"granted while the other leaves": new(book).grant("a/1", 0, 1, 5).release("a/1", 2).grant("b/1", 0, 2, 6),
		"readers together": new(book).share("a/1", 0, 1, 5).share("b/1", 0, 2, 6).share("c/1", 0, 3, 6).
			release("a/1", 4).release("b/1", 5).release("c/1", 6).grant("d/1", 0, 7, 9),
		"readers whose grants were told in another order": new(book).share("a/1", 0, 4, 5).share("b/1", 0, 3, 6),
		"a reader beside one that has downgraded":         new(book).grant("a/1", 0, 1, 5).add(2, history.Downgrading, "a/1", nil).share("b/1", 0, 3, 6),
		"told before the next":                            new(book).grant("a/1", 0, 1, 5).lose("a/1", 20, "session", "").grant("b/1", 0, 30, 6),
		"taken over, told later": new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 29, "a/1").grant("b/1", 0, 30, 6).
			lose("a/1", 40, "taken", "b/1"),
		"taken over, as only the victim tells": new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 30, 6).lose("a/1", 40, "taken", "b/1"),
		"taken over by one that is never told": new(book).grant("a/1", 0, 1, 5).add(10, history.Invoked, "b/1", nil).
			grant("c/1", 0, 30, 7).lose("a/1", 40, "taken", "b/1"),
		"taken over by one that died having told": new(book).grant("a/1", 0, 1, 5).add(10, history.Invoked, "b/1", nil).takeOver("b/1", 20, "a/1").
			span(history.Killed, "b", 0, 21).grant("c/1", 0, 30, 7).lose("a/1", 40, "deleted", ""),
		"taken over in an attempt that is over": new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 10, "a/1").add(11, history.Requeued, "b/1", nil).
			grant("c/1", 0, 20, 7).lose("a/1", 30, "taken", "b/1").release("c/1", 40).grant("b/1", 0, 50, 9),
		"an earlier attempt was taken over": new(book).add(5, history.Took, "b/1", func(e *history.Event) { e.Of, e.Tokens = []string{"a/1"}, []int64{4} }).
			grant("b/1", 0, 6, 5).release("b/1", 7).add(8, history.Requeued, "a/1", nil).share("a/1", 0, 10, 6).release("a/1", 11).grant("c/1", 0, 12, 7),
		"taken over when the grace was over":         new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 30).takeOver("b/1", 31, "a/1").grant("b/1", 0, 31, 6),
		"asked twice by one, the earlier end counts": new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 30).ask("a/1", 20, "b/1", 50).takeOver("b/1", 31, "a/1").grant("b/1", 0, 31, 6),
		"taken over too early, by clocks that disagree": new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 50).takeOver("b/1", 31, "a/1").grant("b/1", 0, 31, 6).
			span(history.Skewed, "", 9, 11),
		"evicted when it was stopped": new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 31, "a/1").grant("b/1", 0, 31, 6).release("b/1", 32).
			span(history.Paused, "a", 20, 500).release("a/1", 501),
		"all readers taken over": new(book).share("a/1", 0, 1, 5).share("b/1", 0, 2, 6).takeOver("c/1", 29, "a/1", "b/1").grant("c/1", 0, 30, 8).
			lose("a/1", 40, "taken", "c/1").lose("b/1", 41, "taken", "c/1"),
		"granted and taken over before it was told": new(book).grant("a/1", 0, 1, 5).release("a/1", 2).grant("b/1", 0, 60, 6).
			takeOver("c/1", 9, "b/1").grant("c/1", 0, 10, 7).release("c/1", 11).grant("d/1", 0, 12, 8).lose("b/1", 61, "taken", "c/1").
			span(history.Faulty, "b", 5, 55),
		"killed before the next":         new(book).grant("a/1", 0, 1, 5).span(history.Killed, "a", 0, 20).grant("b/1", 0, 21, 6),
		"stopped when it lost":           new(book).grant("a/1", 0, 1, 5).span(history.Paused, "a", 10, 50).grant("b/1", 0, 30, 6).lose("a/1", 51, "session", ""),
		"starved when it lost":           new(book).grant("a/1", 0, 1, 5).span(history.Stalled, "a", 10, 50).grant("b/1", 0, 30, 6).lose("a/1", 51, "session", ""),
		"stopped while it was granted":   new(book).grant("a/1", 0, 50, 5).span(history.Paused, "a", 10, 49).grant("b/1", 0, 30, 6).lose("a/1", 51, "session", ""),
		"stopped when history ends":      new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 30, 6).span(history.Paused, "a", 10, 40),
		"its session was closed":         new(book).grant("a/1", 0, 1, 5).span(history.Expired, "a", 10, 11).grant("b/1", 0, 30, 6).lose("a/1", 40, "session", ""),
		"hooks run on after the work":    new(book).grant("a/1", 0, 1, 5).add(2, history.Done, "a/1", nil).add(9, history.Done, "a/1", nil).grant("b/1", 0, 10, 6),
		"writes in turns":                new(book).grant("a/1", 0, 1, 5).use(history.Wrote, "a/1", 2, 5, 1).release("a/1", 3).grant("b/1", 0, 4, 6).use(history.Wrote, "b/1", 5, 6, 2),
		"refused after the loss":         new(book).grant("a/1", 0, 1, 5).lose("a/1", 2, "session", "").grant("b/1", 0, 3, 6).use(history.Refused, "a/1", 5, 5, 0),
		"refused after a takeover":       new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 3, "a/1").grant("b/1", 0, 3, 6).use(history.Refused, "a/1", 4, 5, 0).lose("a/1", 5, "taken", "b/1"),
		"refused after a pause":          new(book).grant("a/1", 0, 1, 5).span(history.Paused, "a", 2, 50).grant("b/1", 0, 30, 6).use(history.Refused, "a/1", 51, 5, 0).lose("a/1", 52, "session", ""),
		"reads the same again":           new(book).share("a/1", 0, 1, 5).use(history.Read, "a/1", 2, 5, 7).use(history.Read, "a/1", 3, 5, 7).release("a/1", 4),
		"a request that fails, and asks": new(book).grant("a/1", 0, 1, 5).add(2, history.Invoked, "b/1", nil).add(9, history.Failed, "b/1", nil),
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, b.judge().Violations)
			require.Empty(t, b.judge().Unknown)
		})
	}
}

func TestHistoriesThatBreakAPromise(t *testing.T) {
	for name, c := range map[string]struct {
		b    *book
		want []string
	}{
		"two holders":                   {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 2, 6), []string{CheckModel, CheckTold}},
		"granted before it was given":   {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 2, 6).release("a/1", 3), []string{CheckModel, CheckTold}},
		"a reader beside a writer":      {new(book).grant("a/1", 0, 1, 5).share("b/1", 0, 2, 6), []string{CheckModel, CheckTold}},
		"a writer beside a reader":      {new(book).share("a/1", 0, 1, 5).grant("b/1", 0, 2, 6), []string{CheckModel, CheckTold}},
		"a writer beside a downgraded":  {new(book).grant("a/1", 0, 1, 5).add(2, history.Downgrading, "a/1", nil).grant("b/1", 0, 3, 6), []string{CheckModel, CheckTold}},
		"a reader before the downgrade": {new(book).grant("a/1", 0, 1, 5).share("b/1", 0, 2, 6).add(3, history.Downgrading, "a/1", nil), []string{CheckModel, CheckTold}},
		"told after the next":           {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 30, 6).lose("a/1", 31, "session", ""), []string{CheckModel, CheckTold}},
		"deleted without a reason":      {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 30, 6).lose("a/1", 31, "deleted", ""), []string{CheckModel, CheckTold}},
		"taken over by another":         {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 3, 6).release("b/1", 4).takeOver("c/1", 29, "a/1").grant("c/1", 0, 30, 7), []string{CheckModel}},
		"one of two readers taken over": {new(book).share("a/1", 0, 1, 5).share("b/1", 0, 2, 6).takeOver("c/1", 3, "a/1").grant("c/1", 0, 4, 7).lose("a/1", 5, "taken", "c/1"), []string{CheckModel, CheckTold}},
		"an earlier attempt taken over, the present not": {new(book).add(5, history.Took, "b/1", func(e *history.Event) { e.Of, e.Tokens = []string{"a/1"}, []int64{4} }).
			grant("b/1", 0, 6, 5).grant("a/1", 0, 7, 6).release("b/1", 8), []string{CheckModel, CheckTold}},
		"evicted, and never told":          {new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 31, "a/1").grant("b/1", 0, 31, 6).release("b/1", 32).release("a/1", 140), []string{CheckEvicted}},
		"evicted, and not told by the end": {new(book).grant("a/1", 0, 1, 5).takeOver("b/1", 31, "a/1").grant("b/1", 0, 31, 6).release("b/1", 140), []string{CheckEvicted}},
		"taken over too early":             {new(book).grant("a/1", 0, 1, 5).ask("a/1", 10, "b/1", 50).takeOver("b/1", 31, "a/1").grant("b/1", 0, 31, 6), []string{CheckGrace}},
		"killed after the next":            {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 20, 6).span(history.Killed, "a", 0, 21), []string{CheckModel, CheckTold}},
		"stopped long before":              {new(book).grant("a/1", 0, 1, 5).span(history.Paused, "a", 2, 10).grant("b/1", 0, 300, 6).lose("a/1", 301, "session", ""), []string{CheckModel, CheckTold}},
		"stopped, but granted before":      {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 8, 6).span(history.Paused, "a", 10, 50).lose("a/1", 51, "session", ""), []string{CheckModel, CheckTold}},
		"stopped before it asked":          {new(book).span(history.Paused, "a", 0, 9).grant("a/1", 10, 12, 5).grant("b/1", 0, 20, 6).lose("a/1", 21, "session", ""), []string{CheckModel, CheckTold}},
		"session closed, granted before":   {new(book).grant("a/1", 0, 1, 5).grant("b/1", 0, 8, 6).span(history.Expired, "a", 10, 11).lose("a/1", 40, "session", ""), []string{CheckModel, CheckTold}},
		"hooks run on after the release":   {new(book).grant("a/1", 0, 1, 5).add(2, history.Done, "a/1", nil).grant("b/1", 0, 3, 6).add(9, history.Done, "a/1", nil), []string{CheckModel, CheckTold}},
		"tokens go back":                   {new(book).grant("a/1", 0, 1, 6).release("a/1", 2).grant("b/1", 3, 4, 5), []string{CheckModel}},
		"a writer with a reader's token":   {new(book).share("a/1", 0, 1, 5).release("a/1", 2).grant("b/1", 3, 4, 5), []string{CheckModel, CheckToken}},
		"one token twice":                  {new(book).grant("a/1", 0, 1, 5).release("a/1", 2).grant("b/1", 3, 4, 5), []string{CheckModel, CheckToken}},
		"the resource takes older writes":  {new(book).grant("a/1", 0, 1, 5).lose("a/1", 2, "session", "").grant("b/1", 0, 3, 6).use(history.Wrote, "b/1", 4, 6, 1).use(history.Wrote, "a/1", 5, 5, 2), []string{CheckFence}},
		"the resource forgets":             {new(book).grant("a/1", 0, 1, 5).use(history.Wrote, "a/1", 2, 5, 1).use(history.Wrote, "a/1", 3, 5, 1), []string{CheckFence}},
		"a holder is refused":              {new(book).grant("a/1", 0, 1, 5).use(history.Refused, "a/1", 2, 5, 0).release("a/1", 3), []string{CheckStale}},
		"a reader sees a write":            {new(book).share("a/1", 0, 1, 5).use(history.Read, "a/1", 2, 5, 7).use(history.Read, "a/1", 3, 5, 8).release("a/1", 4), []string{CheckReader}},
		"a client that cannot be closed":   {new(book).add(1, history.Stopped, "a", func(e *history.Event) { e.Err = "busy" }), []string{CheckEnd}},
		"a process that gives up":          {new(book).add(1, history.Cannot, "a", func(e *history.Event) { e.Err = "no space" }), []string{CheckProcess}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.b.found()) })
	}
}

func TestImpossibleHistoryIsShrunkToThoseWhoShowIt(t *testing.T) {
	b := new(book)
	for i := range 200 {
		who := "a/" + string(rune('A'+i%26)) + string(rune('A'+i/26))
		b.grant(who, 0, 10*i+1, int64(i+1)).release(who, 10*i+5)
		if i == 77 {
			b.grant("b/1", 0, 10*i+3, 1000) // no holder has left
			b.release("b/1", 10*i+4)
		}
	}
	var few []*Hold
	for _, v := range b.judge().Violations {
		if v.Check == CheckModel && few == nil {
			few = v.Holds
		}
	}
	require.LessOrEqual(t, len(few), 3)
	require.NotEmpty(t, few)
}

func TestVerdictThatTakesTooLongIsUnknown(t *testing.T) {
	b := new(book)
	for i := range 500 {
		who := "a" + string(rune('A'+i%26)) + string(rune('A'+i/26)) + "/1"
		b.share(who, 0, 10000+i, 0) // in any order
	}
	b.grant("b/1", 0, 20000, 1)
	v := Judge(*b, Settings{Window: time.Millisecond, Patience: time.Nanosecond})
	require.Equal(t, []string{"s"}, v.Unknown)
}

func TestOverlapsAreMeasuredByHowTheHoldEnded(t *testing.T) {
	b := new(book).grant("a/1", 0, 1, 5).release("a/1", 2).grant("b/1", 0, 4, 6).
		ask("b/1", 5, "c/1", 15).
		takeOver("c/1", 20, "b/1").grant("c/1", 0, 20, 7).lose("b/1", 23, "taken", "c/1").
		lose("c/1", 50, "session", "").grant("d/1", 0, 60, 8).span(history.Killed, "d", 0, 70).grant("e/1", 0, 75, 9)
	f := b.judge().Figures
	require.Equal(t, map[string]Spread{
		OverlapReleased: {-20: 1}, OverlapTaken: {30: 1}, OverlapLost: {-100: 1}, OverlapKilled: {-50: 1},
	}, f.Overlaps)
	require.Equal(t, 5, f.Grants)
	require.Equal(t, map[string]int{"released": 1, "taken": 1, "session": 1, "killed": 1, "": 1}, f.Ends)

	f.Merge(f)
	require.Equal(t, 10, f.Grants)
	require.Equal(t, Spread{30: 2}, f.Overlaps[OverlapTaken])
	require.Equal(t, 3*time.Millisecond, f.Overlaps[OverlapTaken].Percentile(99))
}
