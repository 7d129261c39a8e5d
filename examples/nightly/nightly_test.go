package nightly

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestWithoutZooKeeperNothingIsStarted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer

	_, err := Run(t.Context(), Config{Client: lock.Config{Servers: []string{"localhost:1"}}, Out: &out})

	require.ErrorAs(t, err, new(*lock.UnavailableError))
	require.Empty(t, out.String())
	requireEmpty(t, os.TempDir())
}

func TestDirectoryWithFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))

	_, err := Run(t.Context(), Config{Dir: dir})

	require.ErrorContains(t, err, dir+" is not empty")
}

// show runs the example and returns what it found and what it said.
func show(t *testing.T, length time.Duration, cfg Config) (orders.Report, string) {
	t.Helper()
	var out bytes.Buffer
	cfg.Out, cfg.Dir = &out, filepath.Join(t.TempDir(), "shop")
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	report, err := Run(ctx, cfg)
	require.NoError(t, err, out.String())
	requireFits(t, out.String())
	return report, out.String()
}

func requireSound(t *testing.T, report orders.Report, out string) {
	t.Helper()
	require.Empty(t, report.Problems, out)
	for _, want := range []string{
		"… waiting     for ", "● holding     token ", "! preempted   by hotfix (priority 90), 2s to clean up",
		"↺ cleaned up  ", "→ handed over to hotfix, held for ", "✓ done        ", "- skipped     its tick of ", ": it still ",
		"nothing is corrupted", "a job was preempted, cleaned up and handed its lock over",
	} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "✗")
	require.NotContains(t, out, "\x1b")
	requireOneHolderAtATime(t, out)
}

func requireCorrupted(t *testing.T, report orders.Report, out string) {
	t.Helper()
	require.False(t, report.Sound(), out)
	require.Contains(t, out, "They run WITHOUT their locks now.")
	require.Contains(t, out, "● running     without a lock")
	require.Contains(t, out, "CORRUPTED\n    ✗ ")
	require.Contains(t, out, "That is what the lock is for.")
}

// requireOneHolderAtATime reads the timeline as a newcomer does.
func requireOneHolderAtATime(t *testing.T, out string) {
	t.Helper()
	step := regexp.MustCompile(`(?m)^  \d\d:\d\d:\d\d\.\d  ([A-D])  (\w+) +[●✓→■] (holding|done|handed over|stopped)`)
	holder := ""
	for _, match := range step.FindAllStringSubmatch(out, -1) {
		who := match[1] + " " + match[2]
		if match[3] == "holding" {
			require.Empty(t, holder, "%s holds as well:\n%s", who, out)
			holder = who
			continue
		}
		require.Equal(t, holder, who, "ends but does not hold:\n%s", out)
		holder = ""
	}
	require.Empty(t, holder, "still holds at the end:\n%s", out)
}

func requireFits(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.Contains(line, "data set is ") { // a path is as long as it is
			continue
		}
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, line)
	}
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
