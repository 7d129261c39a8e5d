package jobs

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// stubborn does not go at SIGTERM, and says that it heard it.
const stubborn = `trap 'echo told' TERM; echo ready $$; while :; do sleep 1000 & wait; done`

// obedient goes at SIGTERM with exit status 3.
const obedient = `trap 'echo told; kill -9 $!; exit 3' TERM; sleep 1000 & echo ready $$; wait`

// deaf ignores SIGTERM, and so do its children.
const deaf = `trap '' TERM; sleep 1000 & echo ready $$; wait`

func TestCancelledCommandAndItsGrandchildrenHearSIGTERM(t *testing.T) {
	r := run(t, never, `
		trap 'wait; echo child; exit 3' TERM
		sh -c 'trap "echo grandchild; kill -9 \$!; exit 0" TERM; sleep 1000 & echo up; wait' &
		wait`)
	r.said.await(t, "up")

	r.cancel(errOver)

	stopped := r.stopped(t)
	require.ErrorIs(t, stopped, errOver)
	require.False(t, stopped.Killed)
	require.Equal(t, 3, stopped.Exit.Code)
	require.Contains(t, r.said.String(), "grandchild\n")
	require.Contains(t, r.said.String(), "child\n")
	require.EqualError(t, stopped, `command "/bin/sh" was stopped: over; it failed with exit status 3`)
}

func TestStoppedCommandThatExitsWithZeroWasStoppedAllTheSame(t *testing.T) {
	r := run(t, never, `trap 'kill -9 $!; exit 0' TERM; sleep 1000 & echo ready; wait`)
	r.said.await(t, "ready")
	r.cancel(errOver)
	require.Equal(t, &StoppedError{Command: "/bin/sh", Cause: errOver}, r.stopped(t))
}

func TestGroupThatIgnoresSIGTERMIsKilledAtTheEndOfItsGrace(t *testing.T) {
	const cleanup = 150 * time.Millisecond
	r := run(t, cleanup, deaf)
	pid := r.said.awaitPID(t, "ready")

	told := time.Now()
	r.cancel(errOver)

	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.Equal(t, syscall.SIGKILL, stopped.Exit.Signal)
	require.GreaterOrEqual(t, time.Since(told), cleanup)
	requireEmptyGroup(t, pid)
}

// pausedLog is a log that nobody reads before proceed is closed.
type pausedLog struct {
	transcript
	proceed chan struct{}
}

func (l *pausedLog) Write(p []byte) (int, error) {
	<-l.proceed
	return l.transcript.Write(p)
}

func TestCommandIsKilledInTimeThoughNobodyReadsTheLog(t *testing.T) {
	log := &pausedLog{proceed: make(chan struct{})}
	r := runAs(t, Run{Logger: slog.New(slog.NewTextHandler(log, nil))}, newFakeHold(t), heardBy, deaf)
	pid := r.said.awaitPID(t, "ready")

	r.cancel(errOver)
	require.True(t, r.stopped(t).Killed)
	requireEmptyGroup(t, pid)
	require.Empty(t, log.String())

	// and all is logged in order, in the end
	close(log.proceed)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "is killed") }, patience, time.Millisecond)
	require.Regexp(t, `(?s)told to go.*is killed`, log.String())
}

func TestWithoutCleanupTimeTheGroupIsKilledAtOnce(t *testing.T) {
	r := run(t, -1, stubborn)
	r.said.await(t, "ready")
	r.cancel(errOver)
	require.True(t, r.stopped(t).Killed)
	require.NotContains(t, r.said.String(), "told")
}

func TestPreemptionBringsItsOwnGrace(t *testing.T) {
	for name, cause := range map[string]func(deadline time.Time) error{
		"outranked":     func(d time.Time) error { return &lockguard.PreemptedError{Deadline: d} },
		"lease run out": func(d time.Time) error { return &lockguard.LeaseExpiredError{Deadline: d} },
		"of an outer hold": func(d time.Time) error {
			return &lockguard.ShutdownError{Err: &lockguard.PreemptedError{Deadline: d}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFakeHold(t)
			r := runUnder(t, h, never, stubborn)
			r.said.await(t, "ready")

			deadline := time.Now().Add(heardBy)
			h.end(cause(deadline))

			r.said.await(t, "told")
			stopped := r.stopped(t)
			require.True(t, stopped.Killed)
			require.False(t, time.Now().Before(deadline))
			require.Equal(t, cause(deadline), stopped.Cause)
		})
	}
}

func TestLostLockKillsAtOnce(t *testing.T) {
	h := newFakeHold(t)
	r := runUnder(t, h, never, stubborn)
	r.said.await(t, "ready")

	lost := &lockguard.LostError{Scope: "s", Token: 7}
	h.lose(lost)

	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.Same(t, lost, stopped.Cause)
	require.NotContains(t, r.said.String(), "told")
}

func TestLossOfALockAroundKillsAtOnce(t *testing.T) {
	h := newFakeHold(t)
	r := runUnder(t, h, never, stubborn)
	r.said.await(t, "ready")
	h.end(&lockguard.ShutdownError{Scope: "inner", Err: &lockguard.LostError{Scope: "outer"}})
	require.True(t, r.stopped(t).Killed)
	require.NotContains(t, r.said.String(), "told")
}

func TestLockLostDuringTheGraceKillsAtOnce(t *testing.T) {
	h := newFakeHold(t)
	r := runUnder(t, h, never, stubborn)
	r.said.await(t, "ready")
	h.end(&lockguard.PreemptedError{Scope: "s", Deadline: time.Now().Add(never)})
	r.said.await(t, "told")

	close(h.lost)

	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.ErrorAs(t, stopped.Cause, new(*lockguard.PreemptedError), "the first reason stays")
}

func TestCommandAtRiskIsToldEarlyAndKilledOnlyWhenTheLockIsLost(t *testing.T) {
	h := newFakeHold(t)
	r := runUnder(t, h, never, stubborn)
	r.said.await(t, "ready")

	close(h.atRisk)
	r.said.await(t, "told")
	require.False(t, r.over())

	lost := &lockguard.LostError{Scope: "s"}
	h.lose(lost)
	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.Same(t, lost, stopped.Cause)
}

func TestCommandAtRiskThatGoesInTimeSaysWhy(t *testing.T) {
	h := newFakeHold(t)
	r := runUnder(t, h, never, obedient)
	r.said.await(t, "ready")
	close(h.atRisk)
	stopped := r.stopped(t)
	require.ErrorIs(t, stopped, ErrAtRisk)
	require.Equal(t, 3, stopped.Exit.Code)
}

func TestPreemptionIsHeardAlsoAfterTheContextOfTheWorkHasEnded(t *testing.T) {
	h := newFakeHold(t)
	r := runUnder(t, h, never, stubborn)
	r.said.await(t, "ready")
	r.cancel(&TimeoutError{Job: "compact", Timeout: time.Minute})
	r.said.await(t, "told")

	h.end(&lockguard.PreemptedError{Deadline: time.Now().Add(50 * time.Millisecond)})

	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.EqualError(t, stopped, `command "/bin/sh" was stopped: job "compact" took longer than its timeout 1m0s; it had to be killed`)
}

func TestCommandInACleanupHookRunsAndIsKilledAtTheEndOfTheGrace(t *testing.T) {
	h := newFakeHold(t)
	h.end(&lockguard.PreemptedError{}) // the work was interrupted, the hook runs
	r := runUnder(t, h, never, stubborn)
	r.said.await(t, "ready")

	r.cancel(errOver)

	require.True(t, r.stopped(t).Killed)
	require.NotContains(t, r.said.String(), "told")
}

func TestStoppedGroupHearsSIGTERM(t *testing.T) {
	r := run(t, never, obedient)
	pid := r.said.awaitPID(t, "ready")
	require.NoError(t, syscall.Kill(-pid, syscall.SIGSTOP))
	awaitState(t, pid, "T")

	r.cancel(errOver)

	stopped := r.stopped(t)
	require.False(t, stopped.Killed)
	require.Equal(t, 3, stopped.Exit.Code)
}

func TestSignalIsPassedOnToTheGroupAndStartsItsCleanupTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		cleanup time.Duration
		script  string
		killed  bool
	}{
		"goes":       {never, `trap 'kill -9 $!; exit 4' INT; sleep 1000 & echo ready; wait`, false},
		"stays":      {50 * time.Millisecond, `trap '' INT; sleep 1000 & echo ready; wait`, true},
		"grandchild": {never, `trap : INT; sh -c 'trap "kill -9 \$!; exit 0" INT; sleep 1000 & echo ready; wait'; exit 4`, false},
	} {
		t.Run(name, func(t *testing.T) {
			signals := make(chan os.Signal, 1)
			r := run(t, c.cleanup, c.script, func(c *Command) { c.Signals = signals })
			r.said.await(t, "ready")

			signals <- os.Interrupt

			stopped := r.stopped(t)
			var signal *SignalError
			require.ErrorAs(t, stopped, &signal)
			require.Equal(t, 130, signal.ExitCode())
			require.Equal(t, c.killed, stopped.Killed)
			if !c.killed {
				require.Equal(t, 4, stopped.Exit.Code)
			}
		})
	}
}

func TestSecondSignalEndsTheCleanupTimeout(t *testing.T) {
	signals := make(chan os.Signal)
	r := run(t, never, `trap 'echo told' INT; trap '' HUP; echo ready; while :; do sleep 1000 & wait $!; kill -9 $!; done`,
		func(c *Command) { c.Signals = signals })
	r.said.await(t, "ready")

	signals <- os.Interrupt
	signals <- syscall.SIGHUP // of the same end, as a terminal that is closed sends it
	r.said.await(t, "told")
	<-time.After(sameSignal)
	signals <- os.Interrupt

	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.Equal(t, &SignalError{Signal: syscall.SIGINT}, stopped.Cause)
}

func TestOtherSignalsArePassedOnAndChangeNothing(t *testing.T) {
	signals := make(chan os.Signal)
	r := run(t, time.Nanosecond, `
		trap 'echo usr1' USR1; trap 'echo bad' URG PIPE; trap 'kill -9 $!; exit 5' USR2
		echo ready; while :; do sleep 1000 & wait $!; kill -9 $!; done`,
		func(c *Command) { c.Signals = signals })
	r.said.await(t, "ready")
	for _, s := range []os.Signal{syscall.SIGURG, syscall.SIGPIPE, syscall.SIGUSR1} {
		signals <- s
	}
	r.said.await(t, "usr1")
	signals <- syscall.SIGUSR2
	close(signals)
	err := r.wait(t)
	var exit *ExitError
	require.ErrorAs(t, err, &exit)
	require.NotErrorAs(t, err, new(*StoppedError))
	require.NotContains(t, r.said.String(), "bad")
}

func TestTheEarliestEndOfSeveralRules(t *testing.T) {
	signals := make(chan os.Signal)
	h := newFakeHold(t)
	r := runUnder(t, h, never, deaf, func(c *Command) { c.Signals = signals })
	r.said.await(t, "ready")
	signals <- syscall.SIGTERM

	h.end(&lockguard.PreemptedError{Deadline: time.Now().Add(50 * time.Millisecond)})

	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.ErrorAs(t, stopped.Cause, new(*SignalError), "the first reason is told")
}

func TestSecondReasonDoesNotRepeatSIGTERM(t *testing.T) {
	signals := make(chan os.Signal)
	h := newFakeHold(t)
	r := runUnder(t, h, never, stubborn, func(c *Command) { c.Signals = signals })
	r.said.await(t, "ready")
	h.end(&lockguard.PreemptedError{Deadline: time.Now().Add(heardBy)})
	r.said.await(t, "told")
	r.cancel(errOver)
	close(h.atRisk)
	require.True(t, r.stopped(t).Killed)
	require.Equal(t, 1, countLines(r.said.String(), "told"))
}

// What is no lock of package lockguard can be lost as well.
func TestLossThatTheRunIsToldOfKillsAtOnce(t *testing.T) {
	var said transcript
	lost, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := &Command{Argv: []string{"/bin/sh", "-c", stubborn}, CleanupTimeout: never, Stdout: &said, Stderr: &said}
	go func() { ended <- command.Run(ctx, Run{Lost: lost}) }()
	said.await(t, "ready")

	// when it winds up in its time, and the lock is lost
	cancel()
	said.await(t, "told")
	close(lost)

	// then it is killed
	select {
	case err := <-ended:
		var stopped *StoppedError
		require.ErrorAs(t, err, &stopped)
		require.True(t, stopped.Killed)
	case <-time.After(patience):
		require.FailNow(t, "the command does not end")
	}
}
