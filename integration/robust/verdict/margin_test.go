package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// judgeMargin judges a history whose clients have a margin of 12ms, of which the machine
// may take 4.
func (b *book) judgeMargin() Verdict {
	events := append([]history.Event(nil), *b...)
	history.Sort(events)
	return Judge(events, Settings{Window: 100 * ms, Margin: 12 * ms, Noise: 4 * ms, Patience: 30 * time.Second})
}

// lost: a loses the lock at 20 to a silence that lasts from 1 to 60, and b is granted it.
func lost(granted int) *book {
	return new(book).grant("a/1", 0, 1, 5).lose("a/1", 20, "session", "").grant("b/1", 0, granted, 6).release("b/1", 50).
		span(history.Silent, "a", 1, 60)
}

func TestGapBelowTheMarginIsAViolation(t *testing.T) {
	for name, c := range map[string]struct {
		b    *book
		want []string
		gap  time.Duration
	}{
		"just below": {lost(27), []string{CheckMargin}, 7 * ms},
		"none":       {lost(20), []string{CheckMargin}, 0},
		"granted before it was told": {
			lost(15), []string{CheckModel, CheckTold, CheckMargin}, -5 * ms,
		},
		"a reader before a writer": {
			new(book).share("a/1", 0, 1, 5).share("c/1", 0, 2, 5).release("c/1", 3).lose("a/1", 20, "session", "").grant("b/1", 0, 25, 6).
				span(history.Silent, "a", 1, 60), []string{CheckMargin}, 5 * ms,
		},
		"it deleted something long before, and long after": {
			lost(25).span(history.Silent, "a", 0, 1).span(history.Silent, "a", 61, 80), []string{CheckMargin}, 5 * ms,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.b.judgeMargin()
			var checks []string
			for _, v := range v.Violations {
				checks = append(checks, v.Check)
			}
			require.Equal(t, c.want, checks)
			require.Equal(t, c.gap, v.Figures.Least.Length)
		})
	}
}

func TestGapOfTheMarginIsNone(t *testing.T) {
	for name, b := range map[string]*book{
		"more than the margin":               lost(40),
		"less, by no more than the machine":  lost(28),
		"its own client gave it up":          new(book).grant("a/1", 0, 1, 5).lose("a/1", 20, "session", "").grant("b/1", 0, 25, 6).span(history.Silent, "a", 1, 24),
		"another client was silent":          new(book).grant("a/1", 0, 1, 5).lose("a/1", 20, "session", "").grant("b/1", 0, 25, 6).span(history.Silent, "b", 1, 60),
		"it was stopped":                     lost(25).span(history.Paused, "a", 10, 19),
		"it was starved":                     lost(25).span(history.Stalled, "a", 10, 19),
		"its session was closed by others":   lost(25).span(history.Expired, "a", 10, 11),
		"it was taken over":                  lost(25).takeOver("b/1", 24, "a/1"),
		"it was taken over without a notice": lost(25).add(5, history.Invoked, "c/1", nil).takeOver("c/1", 24, "a/1").span(history.Killed, "c", 0, 25),
		"it released":                        new(book).grant("a/1", 0, 1, 5).release("a/1", 20).grant("b/1", 0, 25, 6).span(history.Silent, "a", 1, 60),
		"its node was deleted":               new(book).grant("a/1", 0, 1, 5).lose("a/1", 20, "deleted", "").grant("b/1", 0, 25, 6).span(history.Silent, "a", 1, 60),
		"they share":                         new(book).share("a/1", 0, 1, 5).lose("a/1", 20, "session", "").share("b/1", 0, 25, 5).span(history.Silent, "a", 1, 60),
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, b.judgeMargin().Violations) })
	}
}

func TestLeastMarginIsThatOfAllHistories(t *testing.T) {
	one, other := lost(31).judgeMargin().Figures, lost(30).judgeMargin().Figures
	require.Equal(t, &Gap{Length: 11 * ms, Who: "a/1", Next: "b/1", Client: "a", Scope: "s", Told: 20 * ms, Granted: 31 * ms}, one.Least)

	var sum Figures
	for _, f := range []Figures{new(book).grant("a/1", 0, 1, 5).judgeMargin().Figures, one, other, one} {
		sum.Merge(f)
	}
	require.Equal(t, 10*ms, sum.Least.Length)
	require.Equal(t, Spread{100: 1, 110: 2}, sum.Margins)
}
