package nightly

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
)

func TestVerdictTellsSoundFromCorrupted(t *testing.T) {
	dir := t.TempDir()
	set, err := orders.Create(dir)
	require.NoError(t, err)

	report, out := judged(t, set, story(), false)
	require.True(t, report.Sound())
	require.Contains(t, out, "  0 corrections replayed, 0 backups unpacked: nothing is corrupted\n")
	require.Contains(t, out, "  1 time a job was preempted, cleaned up and handed its lock over.\n")

	require.NoError(t, os.Remove(filepath.Join(dir, "data", "03.txt")))
	report, out = judged(t, set, story(), false)
	require.False(t, report.Sound())
	require.Contains(t, out, "CORRUPTED\n    ✗ segment 03.txt is not the one that manifest.json names\n")
	require.NotContains(t, out, "what the lock is for")

	report, out = judged(t, set, story(), true)
	require.False(t, report.Sound())
	require.Contains(t, out, "  That is what the lock is for.")
}

func TestVerdictOnTooShortAShowSaysSo(t *testing.T) {
	set, err := orders.Create(t.TempDir())
	require.NoError(t, err)

	_, out := judged(t, set, story()[5:], false)
	require.Contains(t, out, "  No job was preempted and has cleaned up: let it run for longer.\n")

	_, out = judged(t, set, []step{at(1, "A", "compact", "1", running, "")}, true)
	require.Contains(t, out, "  Without locks that was luck. Let it run for longer.\n")
}

func TestVerdictOnNothingIsNoPraise(t *testing.T) {
	set, err := orders.Create(t.TempDir())
	require.NoError(t, err)

	_, out := judged(t, set, []step{at(1, "A", "compact", "1", waiting, "for sh")}, false)

	require.Contains(t, out, "0 backups unpacked: as it was made, for no job has run\n")
	require.NotContains(t, out, "nothing is corrupted")
}

func TestWhatAJobLeftThatHadNoTimeToCleanUpIsPutBackFirst(t *testing.T) {
	for _, last := range []kind{lost, unclean} {
		t.Run(string(last), func(t *testing.T) { putBackFirst(t, last) })
	}
}

func putBackFirst(t *testing.T, last kind) {
	t.Helper()
	set, err := orders.Create(t.TempDir())
	require.NoError(t, err)
	change, err := set.Begin("compact", 5)
	require.NoError(t, err)
	require.NoError(t, change.Move(1, 900, 3))

	// A job that was interrupted and has not cleaned up has no excuse.
	report, out := judged(t, set, story(), false)
	require.False(t, report.Sound())
	require.NotContains(t, out, "put back")

	report, out = judged(t, set, append(story(), at(7, "A", "compact", "3", last, "")), false)
	require.Empty(t, report.Problems)
	require.Contains(t, out, "2 files put back, as the next")
}

func judged(t *testing.T, set *orders.Set, steps []step, unsafe bool) (orders.Report, string) {
	t.Helper()
	var out bytes.Buffer
	p := newPrinter(&out, false, func(error) {})
	line := newTimeline(p)
	line.begin, line.past = start, historyOf(steps)
	report, err := judge(p, set, line, []string{"A", "B"}, unsafe)
	require.NoError(t, err)
	requireFits(t, out.String())
	return report, out.String()
}
