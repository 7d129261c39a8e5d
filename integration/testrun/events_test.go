package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// say writes an event as go test -json does.
func say(action, pkg, test, output string) string {
	return fmt.Sprintf("{\"Action\":%q,\"Package\":%q,\"Test\":%q,\"Output\":%q,\"Elapsed\":1.5}\n", action, pkg, test, output)
}

func outcomes(t *testing.T, lines ...string) (all []outcome) {
	t.Helper()
	_, err := read(strings.NewReader(strings.Join(lines, "")), func(o outcome) { all = append(all, o) })
	require.NoError(t, err)
	return all
}

func TestFailureIsThatOfTheInnermostTest(t *testing.T) {
	all := outcomes(t,
		say("output", "p", "TestA", "=== RUN   TestA\n"),
		say("output", "p", "TestA/x", "=== RUN   TestA/x\n"),
		say("output", "p", "TestA/x", "    a_test.go:7: too late\n"),
		say("output", "p", "TestA/x", "--- FAIL: TestA/x (0.00s)\n"),
		say("fail", "p", "TestA/x", ""),
		say("output", "p", "TestA", "--- FAIL: TestA (0.00s)\n"),
		say("fail", "p", "TestA", ""),
		say("pass", "p", "TestB", ""),
		say("skip", "p", "TestC", ""),
		say("fail", "p", "", ""),
	)
	require.Len(t, all, 1)
	require.Equal(t, "fail", all[0].result)
	require.Equal(t, 1, all[0].passed)
	require.Equal(t, []string{"TestC"}, all[0].skipped)
	require.Len(t, all[0].failed, 1)
	require.Equal(t, "TestA/x", all[0].failed[0].test)
	require.Contains(t, all[0].failed[0].output, "too late")
}

func TestFailureOfATestBesideThatOfItsSubtestIsKept(t *testing.T) {
	all := outcomes(t,
		say("fail", "p", "TestA/x", ""),
		say("output", "p", "TestA", "    a_test.go:9: a goroutine is left\n"),
		say("fail", "p", "TestA", ""),
		say("fail", "p", "", ""),
	)
	require.Len(t, all[0].failed, 2)
}

func TestPackagesThatFailWithoutATestAreFailures(t *testing.T) {
	all := outcomes(t,
		`{"Action":"build-output","ImportPath":"p [p.test]","Output":"p.go:3: undefined: x\n"}`+"\n",
		`{"Action":"build-fail","ImportPath":"p [p.test]"}`+"\n",
		say("output", "p", "", "FAIL\tp [build failed]\n"),
		say("fail", "p", "", ""),
		say("output", "q", "", "after the tests: a process is left\n"),
		say("fail", "q", "", ""),
		say("output", "r", "TestA", "=== RUN   TestA\n"), // and no end
	)
	require.Len(t, all, 3)
	for _, o := range all {
		require.Len(t, o.failed, 1, o.pkg)
		require.Equal(t, whole, o.failed[0].test)
	}
	require.Contains(t, all[0].failed[0].output, "undefined: x")
	require.Contains(t, all[1].failed[0].output, "a process is left")
	require.Contains(t, all[2].failed[0].output, "ended before")
}

func TestProgramThatDiesInATestSaysWhyAndInWhich(t *testing.T) {
	all := outcomes(t,
		say("fail", "p", "TestBad", ""),
		say("output", "p", "TestWaits", "=== PAUSE TestWaits\n"),
		say("output", "p", "TestA", "=== RUN   TestA\n"),
		say("pass", "p", "TestA", ""),
		say("output", "p", "TestB", "=== RUN   TestB\n"),
		say("output", "p", "TestB", "a line before\n"),
		say("output", "p", "TestB", "panic: deadlock: all are blocked\n"),
		say("output", "p", "TestB", "goroutine 7\n"),
		say("output", "p", "", "FAIL\tp\t53.740s\n"),
		say("fail", "p", "", ""),
	)
	require.Len(t, all[0].failed, 2, "a test that has failed hides no crash")
	require.Equal(t, whole, all[0].failed[1].test)
	require.Contains(t, all[0].failed[1].output, "printed during TestB:\npanic: deadlock: all are blocked\ngoroutine 7\n")
	require.Contains(t, all[0].failed[1].output, "tests that did not end: TestB, TestWaits\n")

	all = outcomes(t,
		say("output", "p", "TestA", "=== RUN   TestA\n"),
		say("output", "p", "TestA", "WARNING: DATA RACE\n"),
		say("pass", "p", "TestA", ""),
		say("output", "p", "", "exit status 66\n"),
		say("fail", "p", "", ""),
	)
	require.Len(t, all[0].failed, 1)
	require.Contains(t, all[0].failed[0].output, "DATA RACE", "after the last test")
}

func TestCrashOfTheRaceDetectorHidesNothingThatWasSaidBefore(t *testing.T) {
	crashed := func(said ...string) outcome {
		lines := []string{say("output", "p", "TestA", "=== RUN   TestA\n")}
		for _, s := range append(said, "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346\n") {
			lines = append(lines, say("output", "p", "TestA", s))
		}
		return outcomes(t, append(lines, say("fail", "p", "", ""))...)[0]
	}
	require.True(t, crashed().undecided())
	require.True(t, crashed("level=INFO msg=x\n").undecided())
	require.False(t, crashed("WARNING: DATA RACE\n").undecided())
	require.False(t, crashed("    a_test.go:7: \n", "        \tError Trace:\ta_test.go:7\n").undecided())
}

func TestSegmentationFaultIsADetectorsOnlyInATimerOfABubble(t *testing.T) {
	died := func(goroutine, frame string) outcome {
		lines := []string{say("output", "p", "TestA", "=== RUN   TestA\n")}
		for _, line := range []string{
			"SIGSEGV: segmentation violation", "PC=0x41c729 m=0 sigcode=1 addr=0x0", "", "goroutine 0 gp=0xde5840 m=0 mp=0xde6840 [idle]:", "",
			goroutine, "runtime.systemstack_switch()", "\t/usr/local/go/src/runtime/asm_amd64.s:516 +0x8", frame,
		} {
			lines = append(lines, say("output", "p", "TestA", line+"\n"))
		}
		return outcomes(t, append(lines, say("fail", "p", "", ""))...)[0]
	}
	bubble, other := "goroutine 27 gp=0xc0005c3a40 m=0 mp=0xde6840 [running, synctest bubble 106]:", "goroutine 27 gp=0xc0005c3a40 m=0 mp=0xde6840 [running]:"
	timer := "runtime.(*timer).maybeRunChan(0xc000fbbc80, 0xc000fbbc00)"
	require.True(t, died(bubble, timer).undecided())
	require.False(t, died(other, timer).undecided())
	require.False(t, died(bubble, "runtime.mallocgc(0x10)").undecided())
}

func TestWhatIsNoEventIsHandedBack(t *testing.T) {
	strays, err := read(strings.NewReader("go: no such tool\n"+say("pass", "p", "", "")), func(outcome) {})
	require.NoError(t, err)
	require.Equal(t, "go: no such tool\n", strays)
}
