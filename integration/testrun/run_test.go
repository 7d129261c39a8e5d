package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A module with one package that passes, one that fails and one that does not compile.
func sample(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module sample\n\ngo 1.26\n",
		"good/a_test.go":   "package good\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\n",
		"bad/a_test.go":    "package bad\n\nimport (\"runtime\"; \"testing\")\n\nfunc TestBad(t *testing.T) {\n\tt.Run(\"x\", func(t *testing.T) { t.Error(\"two hold\", \"seed 4711\", \"on\", runtime.GOMAXPROCS(0)) })\n}\n",
		"broken/a_test.go": "package broken\n\nfunc f() { return 1 }\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

func TestPartThatFailsDoesNotHideTheOthers(t *testing.T) {
	var out strings.Builder
	r := &runner{root: sample(t), logs: t.TempDir(), out: &out}
	passed := r.run(t.Context(), []*part{
		{name: "absent", packages: []string{"./absent"}},
		{name: "first", packages: []string{"./..."}},
		{name: "unprepared", prepare: []string{"echo no room; exit 3"}, packages: []string{"./good"}},
		{name: "second", packages: []string{"./good"}},
	}, 1)
	text := out.String()
	require.False(t, passed)
	require.Contains(t, text, "second       sample/good")
	require.Contains(t, text, "--- FAIL first: sample/bad TestBad/x")
	require.Contains(t, text, "two hold seed 4711")
	require.Contains(t, text, "--- FAIL first: sample/broken could not be built")
	require.Contains(t, text, "--- FAIL absent")
	require.Contains(t, text, "no room")
	require.Contains(t, text, "go test -race -run '^TestBad$/^x$' ./sample/bad")
	require.Contains(t, text, "4 failed, 0 skipped")
	require.NotContains(t, text, "--- FAIL first: sample/bad TestBad\n", "its subtest says it")

	log, err := os.ReadFile(filepath.Join(r.logs, "first", "sample_bad-TestBad_x.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "two hold")
	summary, err := os.ReadFile(filepath.Join(r.logs, summaryFile))
	require.NoError(t, err)
	require.Contains(t, string(summary), "--- FAIL first: sample/bad TestBad/x")
	require.True(t, strings.HasSuffix(text, string(summary)), "the summary comes last, and is kept")
}

// A part that takes a place, and one that wants more of them than there are, come one after the other when there is
// one place, and side by side when there are enough.
func TestPartsRunSideBySideAsFarAsThereArePlaces(t *testing.T) {
	for places, prepare := range map[int]string{
		1: "mkdir busy && sleep 0.1 && rmdir busy",
		4: "touch $PART; until test -e one && test -e three; do sleep 0.01; done",
	} {
		var out strings.Builder
		r := &runner{root: sample(t), logs: t.TempDir(), out: &out}
		var parts []*part
		for name, atOnce := range map[string]int{"one": 0, "three": 3} {
			parts = append(parts, &part{
				name: name, env: []string{"PART=" + name}, prepare: []string{prepare}, packages: []string{"./good"}, atOnce: atOnce,
			})
		}
		require.True(t, r.run(t.Context(), parts, places), "%d places: %s", places, &out)
	}
}

// The go command does not see what a test starts: it would take the second result from its cache.
func TestEachRunRunsTheTestsAnew(t *testing.T) {
	root := sample(t)
	text := "package good\n\nimport (\"os/exec\"; \"testing\")\n\nfunc TestStarts(t *testing.T) {\n\tif err := exec.Command(\"sh\", \"-c\", \"echo ran >> ran\").Run(); err != nil { t.Fatal(err) }\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "good", "starts_test.go"), []byte(text), 0o644))
	for range 2 {
		r := &runner{root: root, logs: t.TempDir(), out: &strings.Builder{}}
		require.True(t, r.run(t.Context(), []*part{{name: "first", packages: []string{"./good"}}}, 1))
	}
	ran, err := os.ReadFile(filepath.Join(root, "good", "ran"))
	require.NoError(t, err)
	require.Equal(t, "ran\nran\n", string(ran))
}

func TestSummaryShowsTheReasonOfAFailureWithALongLog(t *testing.T) {
	lines := func(n int, last ...string) []string {
		return append(slices.Repeat([]string{"    run.go:33: a fault"}, n), last...)
	}
	for name, all := range map[string][]string{
		"short":                     lines(3, "    a_test.go:7: two hold"),
		"long, said last":           lines(100, "    a_test.go:7: two hold"),
		"long, in the middle":       append(lines(100, "    a_test.go:7:", "\tError Trace:\ta_test.go:7", "\tError:  two hold"), lines(100)...),
		"in the middle of the said": lines(13, "    a_test.go:7:", "\tError:  two hold", "    the rest"),
		"at once, and a long rest":  append([]string{"    a_test.go:7: two hold"}, lines(100, "\tError:  so it is")...),
		"a panic":                   lines(30, "panic: two hold", "goroutine 1"),
	} {
		shown := telling(all)
		require.Contains(t, strings.Join(shown, "\n"), "two hold", name)
		require.Equal(t, all[0], shown[0], name)
		require.LessOrEqual(t, len(shown), opening+1+excerpt, name)
	}
	seeded := append(lines(20, "    seed 4711"), lines(50, "\tError:  two hold")...)
	require.Contains(t, telling(seeded), "    seed 4711")
}

func TestPackageIsRunAgainWhenTheRaceDetectorCrashesAndOnlyThen(t *testing.T) {
	dir := sample(t)
	file := filepath.Join(dir, "crash", "a_test.go")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(`package crash

import ("fmt"; "os"; "testing")

func TestA(t *testing.T) {
	runs, _ := os.ReadFile("runs")
	if err := os.WriteFile("runs", append(runs, '.'), 0o600); err != nil { t.Fatal(err) }
	if len(runs) < 2 { fmt.Println(os.Getenv("SAYS")); os.Exit(66) }
}
`), 0o600))
	for says, passes := range map[string]bool{"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346": true, "panic: ouch": false} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "crash", "runs"), nil, 0o600))
		var out strings.Builder
		r := &runner{root: dir, logs: t.TempDir(), out: &out}
		require.Equal(t, passes, r.run(t.Context(), []*part{{name: "first", env: []string{"SAYS=" + says}, packages: []string{"./crash", "./good"}}}, 1), out.String())
		require.Equal(t, passes, strings.Contains(out.String(), "run again, the race detector had crashed"), out.String())
		require.Equal(t, passes, strings.Contains(out.String(), "2 tests in 2 packages, 0 failed"), out.String())
	}

	// three times in a row is a failure
	require.NoError(t, os.WriteFile(file, []byte("package crash\n\nimport (\"fmt\"; \"os\"; \"testing\")\n\nfunc TestA(t *testing.T) { fmt.Println(\"ThreadSanitizer: CHECK failed\"); os.Exit(66) }\n"), 0o600))
	var out strings.Builder
	r := &runner{root: dir, logs: t.TempDir(), out: &out}
	require.False(t, r.run(t.Context(), []*part{{name: "first", packages: []string{"./crash"}}}, 1))
	require.Len(t, r.again, tries-1)
	require.Contains(t, out.String(), "1 failed")
}

// A witness counts the busy loops that run when a failure is printed.
type witness struct {
	strings.Builder
	loops []int
}

func (w *witness) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "FAIL") {
		w.loops = append(w.loops, loops())
	}
	return w.Builder.Write(b)
}

func loops() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".hog.func")
}

func TestTableOfFlakyTestsCountsFailures(t *testing.T) {
	var out witness
	r := &runner{root: sample(t), logs: t.TempDir(), out: &out}
	parts := []*part{{name: "first", packages: []string{"./good"}}, {name: "first", packages: []string{"./bad"}}} // one name: as of two PKG
	require.False(t, flaky(t.Context(), r, parts, 2, 1))
	require.Regexp(t, `2 of 2 +first +sample/bad +TestBad/x +1 processors; 2 processors, hogged`, out.String())
	require.Regexp(t, `go test -race -shuffle \d+ -run`, out.String())
	for round, processors := range []string{"on 1\n", "on 2\n"} {
		log, err := os.ReadFile(filepath.Join(r.logs, fmt.Sprint("round-", round+1), "first", "sample_bad-TestBad_x.log"))
		require.NoError(t, err)
		require.Contains(t, string(log), processors)
	}
	require.Contains(t, out.String(), "2 runs, 1 tests failed at least once")
	require.NotContains(t, out.String(), "sample/good")
	require.Equal(t, []bool{false, true}, []bool{out.loops[0] > 0, out.loops[1] > 0}, out.loops)
	require.Zero(t, loops())
}

func TestRoundThatIsBrokenOffIsSaidNotToCount(t *testing.T) {
	var out strings.Builder
	r := &runner{root: sample(t), logs: t.TempDir(), out: &out}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, flaky(ctx, r, []*part{{name: "first", packages: []string{"./good"}}}, 2, 1))
	require.Contains(t, out.String(), "round 1 was broken off")
	require.Contains(t, out.String(), "0 runs, 0 tests failed")
}

func TestRunThatIsInterruptedHasNotPassed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &runner{root: sample(t), logs: t.TempDir(), out: &strings.Builder{}}
	require.False(t, r.run(ctx, []*part{{name: "first", packages: []string{"./good"}}}, 1))
}

func TestWrongArgumentsAreRefusedAndTheLogsOfTheLastRunStay(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Join("integration", "testrun"), 0o755))
	logs := []string{filepath.Join("dist", "test", "all"), filepath.Join("dist", "test", "flaky")}
	for _, log := range logs {
		require.NoError(t, os.MkdirAll(log, 0o755))
	}
	for _, args := range [][]string{nil, {"all"}, {"unit", "-at-once", "0"}, {"flaky", "-n", "x"}, {"flaky", "-n", "0"}, {"flaky", "./nothing"}} {
		var errors strings.Builder
		require.Equal(t, 2, run(t.Context(), args, &strings.Builder{}, &errors), args)
		require.NotEmpty(t, errors.String(), args)
		for _, log := range logs {
			require.DirExists(t, log, args)
		}
	}
}
