package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
)

// asProgram makes the test binary the program itself, as which the demo starts
// its daemons.
const asProgram = "LOCKKEEPER_NIGHTLY_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// One cycle of the schedule is 20 seconds long, and everything happens in it.
// What takes longest to happen, the tick that finds the run before it, takes 5
// seconds, and the daemons need some to start.
const cycle = "32s"

func TestDemoShowsPreemptionsAndNothingIsCorrupted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")

	code, out, errs := program(t, "--for", cycle, "--dir", dir)

	require.Zero(t, code, errs)
	require.Empty(t, errs)
	for _, want := range []string{
		"… waiting     for ", "● holding     token ", "! preempted   by hotfix (priority 90), 2.0s to clean up",
		"↺ cleaned up  ", "→ handed over to hotfix, held for ", "✓ done        ", "- skipped     its tick of ", ": overlap",
		"nothing is corrupted", "was asked to go, put things right under its lock, and handed it over",
	} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "✗")
	require.NotContains(t, out, "\x1b")
	requireFits(t, out)
	requireOneHolderAtATime(t, out)
	report, err := orders.Open(dir).Verify()
	require.NoError(t, err)
	require.Empty(t, report.Problems)
}

func TestDemoWithoutLocksIsCorrupted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")

	code, out, errs := program(t, "--for", cycle, "--dir", dir, "--unsafe")

	require.Equal(t, 1, code, errs)
	require.Empty(t, errs)
	require.Contains(t, out, "● running     without a lock")
	require.Contains(t, out, "CORRUPTED\n    ✗ ")
	require.Contains(t, out, "That is what the lock is for.")
	requireFits(t, out)
	report, err := orders.Open(dir).Verify()
	require.NoError(t, err)
	require.False(t, report.Sound())
}

func TestDemoWithoutZooKeeperSaysInOneLineWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")

	code, out, errs := program(t)

	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Contains(t, errs, "nightly: the demo needs ZooKeeper; run `make setup` (")
	require.Equal(t, 1, strings.Count(errs, "\n"))
}

func TestVerifyCommandTellsSoundFromCorrupted(t *testing.T) {
	dir := t.TempDir()
	_, err := orders.Create(dir)
	require.NoError(t, err)

	code, out, errs := program(t, "verify", dir)
	require.Zero(t, code, errs)
	require.Contains(t, out, "  and unpacked 0 backups: nothing is corrupted\n")

	require.NoError(t, os.Remove(filepath.Join(dir, "data", "03.txt")))
	code, out, errs = program(t, "verify", dir)
	require.Equal(t, 1, code)
	require.Empty(t, errs)
	require.Contains(t, out, "CORRUPTED\n    ✗ segment 03.txt is not the one that manifest.json names\n")

	code, out, errs = program(t, "verify", filepath.Join(dir, "nowhere"))
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Contains(t, errs, "nightly: verify the data set: open ")
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--fro", "5s"}, {"verify"}, {"verify", "a", "b"}, {"now"}} {
		code, out, errs := program(t, args...)

		require.Equal(t, 2, code, args)
		require.Empty(t, out)
		require.Contains(t, errs, "Usage:\n  nightly [flags] ")
	}
}

// program runs the program, the demo and all, and returns what it said.
func program(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, stop := signal.NotifyContext(context.WithoutCancel(t.Context()), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	if code != 0 {
		t.Logf("exit code %d:\n%s%s", code, out.String(), errs.String())
	}
	return code, out.String(), errs.String()
}

func requireFits(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.Contains(line, "kept in") { // a path is as long as it is
			continue
		}
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 100, line)
	}
}

// requireOneHolderAtATime reads the timeline as a newcomer does.
func requireOneHolderAtATime(t *testing.T, out string) {
	t.Helper()
	step := regexp.MustCompile(`(?m)^ +\d+\.\ds  ([AB])  (\w+) +[●✓→■] (holding|done|handed over|stopped)`)
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
