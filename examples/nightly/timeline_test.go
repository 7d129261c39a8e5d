package nightly

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)

func at(seconds float64, daemon, job, run string, k kind, text string) step {
	return step{At: start.Add(time.Duration(seconds * float64(time.Second))), Daemon: daemon, Job: job, Run: run, Kind: k, Text: text}
}

func story() []step {
	return []step{
		at(1, "A", "compact", "1", holding, "token 5"),
		at(3, "B", "hotfix", "2", waiting, "for compact"),
		at(3.01, "A", "compact", "1", preempted, "by hotfix"),
		at(3.02, "A", "compact", "1", cleaning, ""),
		at(3.52, "A", "compact", "1", cleaned, "put 3 files back"),
		at(3.53, "B", "hotfix", "2", holding, "token 6"),
		at(3.54, "A", "compact", "1", handedOver, "held for 2.5s"), // told by A after B has begun
		at(5, "B", "hotfix", "2", done, "held for 1.5s"),
		at(6, "B", "compact", "", skipped, "overlap"),
	}
}

func historyOf(steps []step) history {
	h := newHistory()
	for _, s := range steps {
		h.add(s)
	}
	return h
}

func TestTimelineMergesTheStepsOfAllDaemonsInOrder(t *testing.T) {
	var out bytes.Buffer
	line := newTimeline(newPrinter(&out, false, func(error) {}))
	for _, daemon := range []string{"B", "A"} {
		for _, s := range story() {
			if s.Daemon == daemon {
				line.add(s)
			}
		}
	}

	line.flush(start.Add(time.Hour))

	require.Equal(t, strings.TrimPrefix(`
  02:00:01.0  A  compact  ● holding     token 5
  02:00:03.0  B  hotfix   … waiting     for compact
  02:00:03.0  A  compact  ! preempted   by hotfix
  02:00:03.0  A  compact  ↺ cleaning up
  02:00:03.5  A  compact  ↺ cleaned up  put 3 files back
  02:00:03.5  A  compact  → handed over to hotfix, held for 2.5s
  02:00:03.5  B  hotfix   ● holding     token 6
  02:00:05.0  B  hotfix   ✓ done        held for 1.5s
  02:00:06.0  B  compact  - skipped     overlap
`, "\n"), out.String())
}

func printed(steps ...step) string {
	var out bytes.Buffer
	line := newTimeline(newPrinter(&out, false, func(error) {}))
	for _, s := range steps {
		line.add(s)
	}
	line.flush(start.Add(time.Hour))
	return out.String()
}

func TestTimelineNamesTheSuccessor(t *testing.T) {
	preemptedTwice := []step{
		at(1, "A", "compact", "1", holding, "token 5"),
		at(2, "A", "compact", "1", preempted, "by backup"),
		at(2.1, "A", "compact", "1", preempted, "by hotfix"),
		at(3, "A", "compact", "1", handedOver, "held for 2s"),
	}

	require.Contains(t, printed(append(preemptedTwice, at(3.01, "B", "hotfix", "2", holding, "token 6"))...), "→ handed over to hotfix, held for 2s\n")
	require.Contains(t, printed(preemptedTwice...), "→ handed over held for 2s\n", "to somebody else's process")
	require.Contains(t, printed(append(preemptedTwice, at(5, "B", "hotfix", "2", holding, "token 9"))...), "→ handed over held for 2s\n", "that one had it before")
	require.Equal(t, 1, historyOf(preemptedTwice).tallies["compact"].preempted, "one run")
}

func TestSkippedTickSaysWhatTheRunInTheWayDoes(t *testing.T) {
	skip := at(2, "B", "compact", "", skipped, "its tick of 02:00:02")
	skip.Overlap = true

	require.Contains(t, printed(at(1, "A", "compact", "1", waiting, "for hotfix"), skip), "its tick of 02:00:02: it still waits\n")
	require.Contains(t, printed(at(1, "A", "compact", "1", holding, "token 5"), skip), "its tick of 02:00:02: it still runs\n")
	require.Contains(t, printed(skip), "its tick of 02:00:02: it still runs\n", "in another process")
}

func TestCleanupEndsInTheChartAlthoughTheReleaseTakesItsTime(t *testing.T) {
	steps := append(story()[:5:5], at(11, "A", "compact", "1", stopped, "release not confirmed"))

	got := chart(historyOf(steps).runs, start, start.Add(12*time.Second), false, palette{})

	require.Contains(t, got, "\n  compact       ███████████▒▒▒\n")
}

func TestTimelineFollowsTheDaemonsUntilTheyHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		line := newTimeline(newPrinter(&out, false, func(error) {}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go line.follow(ctx, time.Second, ended)

		// Given two daemons, of which one is slow to tell what came first.
		later := step{At: time.Now(), Daemon: "A", Job: "hotfix", Run: "2", Kind: holding, Text: "token 6"}
		line.add(later)
		<-time.After(settling / 2)
		synctest.Wait()
		require.Empty(t, out.String(), "an earlier step may still come")
		line.add(step{At: later.At.Add(-time.Millisecond), Daemon: "B", Job: "compact", Run: "1", Kind: done})
		<-time.After(settling)
		synctest.Wait()
		require.Less(t, strings.Index(out.String(), "compact"), strings.Index(out.String(), "hotfix"))

		// Their stop is printed, and then what they still do.
		stop()
		<-time.After(settling)
		synctest.Wait()
		require.Contains(t, out.String(), "The daemons stop: running jobs may go on for 1s, ")
		line.add(step{At: time.Now(), Daemon: "A", Job: "hotfix", Run: "2", Kind: stopped})
		close(ended)
		synctest.Wait()
		require.True(t, strings.HasSuffix(out.String(), "  A  hotfix   ■ stopped\n"), out.String())
	})
}

func TestChartShowsWhoWorksCleansUpAndWaits(t *testing.T) {
	got := chart(historyOf(story()).runs, start, start.Add(8*time.Second), false, palette{})

	require.Equal(t, strings.TrimPrefix(`
          |02:00:00        |02:00:02        |02:00:04        |02:00:06
  compact          █████████████████▒▒▒▒
  hotfix                            ░░░░█████████████
          █ works under the lock   ▒ cleans up, still under it   ░ waits for it
`, "\n"), got)
}

func TestChartOfAnyLengthFits(t *testing.T) {
	for length := time.Duration(0); length <= shown; length += 100 * time.Millisecond {
		got := chart(historyOf(story()).runs, start.Add(330*time.Millisecond), start.Add(330*time.Millisecond+length), false, palette{})

		requireFits(t, got)
		labels, _, _ := strings.Cut(got, "\n")
		require.NotRegexp(t, `\d\|`, labels, "of %s", length)
	}
}

func TestTableCountsWhatBecameOfEachJob(t *testing.T) {
	past := historyOf(append(story(), at(7, "A", "compact", "3", holding, "token 9"))) // does not end

	require.Equal(t, strings.TrimPrefix(`
  job         runs  done  preempted  cleaned up  skipped  on A  on B
  compact        2     0          1           1        1     2     0
  hotfix         1     1          0           0        0     0     1
`, "\n"), table(past.tallies, []string{"A", "B"}, palette{}))
	require.Equal(t, 1, past.cleanups())

	steps := story()
	steps[4].Kind = unclean
	past = historyOf(steps)
	require.Zero(t, past.cleanups())
}

func TestHistoryForgetsSingleRunsButNotTheirNumber(t *testing.T) {
	past := newHistory()
	for i := range 1000 {
		for _, s := range story() {
			s.At = s.At.Add(time.Duration(i) * 10 * time.Second)
			if s.Run != "" {
				s.Run += time.Duration(i).String()
			}
			past.add(s)
		}
	}

	require.LessOrEqual(t, len(past.runs), 2*7)
	require.Equal(t, 1000, past.cleanups())
}

func TestLongTextIsFolded(t *testing.T) {
	got := line(at(1, "A", "compact", "1", lost, strings.Repeat("long ", 20)), palette{})

	require.Equal(t, `  02:00:01.0  A  compact  ✗ lost        long long long long long long long long
                                        long long long long long long long long
                                        long long long long`, got)
}

func TestStepsArePaintedIfColourIsWanted(t *testing.T) {
	s := at(1, "A", "compact", "1", done, "")

	require.Equal(t, "  02:00:01.0  A  compact  \x1b[32m✓ done       \x1b[0m", line(s, palette{on: true}))
	require.NotContains(t, line(s, palette{}), "\x1b")
}

func TestNothingIsWrittenToAClosedOutput(t *testing.T) {
	broken := errors.New("broken pipe")
	var told []error
	out := newPrinter(failing{broken}, false, func(err error) { told = append(told, err) })

	out.printf("one")
	out.printf("two")

	require.Equal(t, []error{broken}, told)
	require.ErrorIs(t, out.failure(), broken)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
