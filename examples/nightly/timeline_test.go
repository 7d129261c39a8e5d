package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
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
		at(3.54, "A", "compact", "1", handedOver, "to hotfix"), // told by A after B has begun
		at(5, "B", "hotfix", "2", done, "held for 1.5s"),
		at(6, "B", "compact", "", skipped, "overlap"),
	}
}

func TestTimelineMergesTheStepsOfAllDaemonsInOrder(t *testing.T) {
	steps := make(chan step)
	var out bytes.Buffer
	line := &timeline{out: &out, start: start}
	go func() {
		defer close(steps)
		for _, daemon := range []string{"B", "A"} {
			for _, s := range story() {
				if s.Daemon == daemon {
					s.At = s.At.Add(time.Hour * 24 * 3650) // not before all have come
					steps <- s
				}
			}
		}
	}()
	line.start = start.Add(time.Hour * 24 * 3650)

	line.follow(steps)
	line.flush(start.Add(time.Hour * 24 * 3651))

	require.Equal(t, strings.TrimPrefix(`
   1.0s  A  compact  ● holding     token 5
   3.0s  B  hotfix   … waiting     for compact
   3.0s  A  compact  ! preempted   by hotfix
   3.0s  A  compact  ↺ cleaning up
   3.5s  A  compact  ↺ cleaned up  put 3 files back
   3.5s  A  compact  → handed over to hotfix
   3.5s  B  hotfix   ● holding     token 6
   5.0s  B  hotfix   ✓ done        held for 1.5s
   6.0s  B  compact  - skipped     overlap
`, "\n"), out.String())
}

func TestChartShowsWhoWorksCleansUpAndWaits(t *testing.T) {
	runs := runsOf(story(), start.Add(8*time.Second))

	got := chart(runs, start, start.Add(8*time.Second), palette{})

	require.Equal(t, strings.TrimPrefix(`
          0s                                                5s
  compact           ████████████████████▒▒▒▒▒
  hotfix                                ░░░░░███████████████
          █ works under the lock   ▒ cleans up, still under it   ░ waits for it
`, "\n"), got)
}

func TestTableCountsWhatBecameOfEachJob(t *testing.T) {
	steps := append(story(), at(7, "A", "compact", "3", holding, "token 9")) // does not end
	runs := runsOf(steps, start.Add(8*time.Second))

	counts := tallies(runs, steps)

	require.Equal(t, strings.TrimPrefix(`
  job         runs    done   preempted   and cleaned   skipped    on A    on B
  compact        2       0           1             1         1       2       0
  hotfix         1       1           0             0         0       0       1
`, "\n"), table(counts, []string{"A", "B"}, palette{}))
	require.Equal(t, 1, cleanups(counts))
}

func TestCleanupThatFailedDoesNotCount(t *testing.T) {
	steps := story()
	steps[4].Kind = unclean

	require.Zero(t, cleanups(tallies(runsOf(steps, start), steps)))
}

func TestLongTextIsCut(t *testing.T) {
	line := (&timeline{start: start}).line(at(1, "A", "compact", "1", lost, strings.Repeat("long ", 40)))

	requireFits(t, line)
	require.True(t, strings.HasSuffix(line, "…"), line)
}

func TestColoursAreForTerminalsOnlyAndHonourNoColor(t *testing.T) {
	device, err := os.Open(os.DevNull) // a character device, as a terminal is
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}

	require.Equal(t, "\x1b[32mfine\x1b[0m", paletteFor(device, env()).paint(green, "fine"))
	require.Equal(t, "fine", paletteFor(device, env("NO_COLOR", "1")).paint(green, "fine"))
	require.Equal(t, "fine", paletteFor(device, env("TERM", "dumb")).paint(green, "fine"))
	require.Equal(t, "fine", paletteFor(&bytes.Buffer{}, env()).paint(green, "fine"))
}

func TestDemoWithoutAPreemptionIsNoSuccess(t *testing.T) {
	var out bytes.Buffer
	d := &demo{dir: t.TempDir(), out: &out}
	_, err := orders.Create(d.dir)
	require.NoError(t, err)

	require.ErrorIs(t, d.judge(&timeline{start: start, steps: story()[7:]}), errVerdict)
	require.Contains(t, out.String(), "But no job was preempted and has cleaned up")

	require.NoError(t, d.judge(&timeline{start: start, steps: story()}))
	require.Contains(t, out.String(), "1 time a job was asked to go")
}
