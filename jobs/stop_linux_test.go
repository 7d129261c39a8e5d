package jobs

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
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

// pausedLog is a log whose writes block until proceed is closed.
type pausedLog struct {
	transcript
	proceed chan struct{}
}

func (l *pausedLog) Write(p []byte) (int, error) {
	<-l.proceed
	return l.transcript.Write(p)
}

func TestCommandIsKilledInTimeThoughTheLogIsNotRead(t *testing.T) {
	log := &pausedLog{proceed: make(chan struct{})}
	h := newFakeHold(t)
	r := runAs(t, Run{Logger: slog.New(slog.NewTextHandler(log, nil))}, h, never, stubborn)
	pid := r.said.awaitPID(t, "ready")

	r.cancel(errOver)
	r.said.await(t, "told")
	h.lose(&lockguard.LostError{})
	require.True(t, r.stopped(t).Killed)
	requireEmptyGroup(t, pid)
	require.Empty(t, log.String())

	// and all is logged in order, in the end
	close(log.proceed)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "is killed") }, patience, time.Millisecond)
	require.Regexp(t, `(?s)stopping command.*is killed`, log.String())
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
	command := exec.Command("/bin/sleep", "1000")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, command.Start())
	defer func() { _ = command.Wait() }() // a signal has ended it
	synctest.Test(t, func(t *testing.T) {
		s := &supervisor{command: &Command{CleanupTimeout: never}, group: &group{id: command.Process.Pid}, log: slog.New(slog.DiscardHandler)}
		s.passOn(os.Interrupt)
		s.passOn(syscall.SIGHUP) // of the same end, as a terminal that is closed sends it
		<-time.After(sameSignal - 1)
		s.passOn(os.Interrupt)
		require.False(t, s.killed)
		<-time.After(1)
		s.passOn(os.Interrupt)
		require.True(t, s.killed)
		require.Equal(t, &SignalError{Signal: syscall.SIGINT}, s.cause)
	})
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

// A stop is why a stubborn command has to go, and what becomes of it.
type stop struct {
	cleanup time.Duration
	hook    bool // the command is one of a cleanup hook
	end     func(h *fakeHold, r *running)
	cause   error
}

func TestCommandIsKilledAtOnceWithoutATimeToCleanUp(t *testing.T) {
	lost := &lockguard.LostError{Scope: "s", Token: 7}
	around := &lockguard.ShutdownError{Scope: "inner", Err: &lockguard.LostError{Scope: "outer"}}
	for name, c := range map[string]stop{
		"it has none":           {-1, false, func(_ *fakeHold, r *running) { r.cancel(errOver) }, errOver},
		"its lock is lost":      {never, false, func(h *fakeHold, _ *running) { h.lose(lost) }, lost},
		"a lock around is lost": {never, false, func(h *fakeHold, _ *running) { h.end(around) }, around},
		"its hook has to end":   {never, true, func(_ *fakeHold, r *running) { r.cancel(errOver) }, errOver},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHold(t)
			if c.hook {
				h.end(&lockguard.PreemptedError{}) // the work was interrupted
			}
			r := runAs(t, Run{}, h, c.cleanup, stubborn)
			pid := r.said.awaitPID(t, "ready")

			c.end(h, r)

			stopped := r.stopped(t)
			require.True(t, stopped.Killed)
			require.Equal(t, c.cause, stopped.Cause)
			require.NotContains(t, r.said.String(), "told")
			requireEmptyGroup(t, pid)
		})
	}
}

func TestPreemptionBringsItsOwnTimeToCleanUp(t *testing.T) {
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
			r := runAs(t, Run{}, h, never, stubborn)
			r.said.await(t, "ready")
			deadline := time.Now().Add(100 * time.Millisecond)
			h.end(cause(deadline))
			stopped := r.stopped(t)
			require.True(t, stopped.Killed)
			require.False(t, time.Now().Before(deadline))
			require.Equal(t, cause(deadline), stopped.Cause)
		})
	}
}

func TestCommandThatWasToldToGoIsKilledWhenItsTimeEndsEarlier(t *testing.T) {
	lost, overstayed := &lockguard.LostError{Scope: "s"}, &TimeoutError{Job: "compact", Timeout: time.Minute}
	later := &lockguard.PreemptedError{Scope: "s", Deadline: time.Now().Add(never)}
	soon := func(h *fakeHold) { h.end(&lockguard.PreemptedError{Deadline: time.Now().Add(50 * time.Millisecond)}) }
	loss := make(chan struct{})
	signals := make(chan os.Signal, 1)
	for name, c := range map[string]struct {
		first func(h *fakeHold, r *running)
		then  func(h *fakeHold)
		cause error // the first one, and a loss for a lock that was at risk
	}{
		"preempted, then lost": {
			func(h *fakeHold, _ *running) { h.end(later) }, func(h *fakeHold) { close(h.lost) }, later,
		},
		"at risk, then lost": {
			func(h *fakeHold, _ *running) { close(h.atRisk) }, func(h *fakeHold) { h.lose(lost) }, lost,
		},
		"timed out, then preempted": {func(_ *fakeHold, r *running) { r.cancel(overstayed) }, soon, overstayed},
		"by a signal, then preempted": {
			func(*fakeHold, *running) { signals <- syscall.SIGTERM }, soon, &SignalError{Signal: syscall.SIGTERM},
		},
		"cancelled, then the run lost": {
			func(_ *fakeHold, r *running) { r.cancel(errOver) }, func(*fakeHold) { close(loss) }, errOver,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHold(t)
			run := Run{}
			if name == "cancelled, then the run lost" {
				run.Lost = loss
			}
			r := runAs(t, run, h, never, stubborn, func(c *Command) { c.Signals = signals })
			r.said.await(t, "ready")

			c.first(h, r)
			r.said.await(t, "told")
			require.False(t, r.over())
			c.then(h)

			stopped := r.stopped(t)
			require.True(t, stopped.Killed)
			require.Equal(t, c.cause, stopped.Cause)
			require.EqualError(t, stopped, fmt.Sprintf(`command "/bin/sh" was stopped: %s; it had to be killed`, c.cause))
		})
	}
}

func TestCommandThatGoesInTimeSaysWhyItHadTo(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		end    func(h *fakeHold, r *running)
		want   *StoppedError
	}{
		"at risk": {
			obedient, func(h *fakeHold, _ *running) { close(h.atRisk) },
			&StoppedError{Cause: lockguard.ErrAtRisk, Exit: &ExitError{Command: "/bin/sh", Code: 3}},
		},
		"and exits with zero": {
			`trap 'kill -9 $!; exit 0' TERM; sleep 1000 & echo ready; wait`,
			func(_ *fakeHold, r *running) { r.cancel(errOver) }, &StoppedError{Cause: errOver},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHold(t)
			r := runAs(t, Run{}, h, never, c.script)
			r.said.await(t, "ready")
			c.end(h, r)
			c.want.Command = "/bin/sh"
			require.Equal(t, c.want, r.stopped(t))
		})
	}
}

func TestSecondReasonDoesNotRepeatSIGTERM(t *testing.T) {
	signals := make(chan os.Signal)
	h := newFakeHold(t)
	r := runAs(t, Run{}, h, never, `
		trap 'echo told' TERM; trap 'echo last' WINCH
		echo ready; while :; do sleep 1000 & wait $!; kill -9 $!; done`,
		func(c *Command) { c.Signals = signals })
	r.said.await(t, "ready")
	h.end(&lockguard.PreemptedError{Deadline: time.Now().Add(never)})
	r.said.await(t, "told")
	r.cancel(errOver)
	close(h.atRisk)
	signals <- syscall.SIGWINCH
	r.said.await(t, "last") // behind a SIGTERM, if there is one
	h.lose(&lockguard.LostError{})
	require.True(t, r.stopped(t).Killed)
	require.Equal(t, 1, countLines(r.said.String(), "told"))
}
