package jobs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A supervisor sees a running command to its end.
type supervisor struct {
	command  *Command
	signals  lockguard.StopSignals
	group    *group
	terminal *terminal
	log      *slog.Logger
	noted    chan struct{} // closed when the last line is written; nil: none was

	cause      error       // why the group was stopped, first reason
	terminated bool        // SIGTERM was sent
	killed     bool        // SIGKILL was sent
	signalled  time.Time   // when the first signal to end was passed on; zero: none was
	end        time.Time   // when it will be; zero: no end is set
	endTimer   *time.Timer // nil: no end is set
}

// supervise returns when no process of the group is left.
func (s *supervisor) supervise() {
	w := s.signals
	work, hold, lost, atRisk, signals := w.Work.Done(), w.Hold.Done(), w.Lost, w.AtRisk, s.command.Signals
	for {
		var end <-chan time.Time
		if s.endTimer != nil {
			end = s.endTimer.C
		}
		select {
		case <-s.group.gone:
			if s.endTimer != nil {
				s.endTimer.Stop()
			}
			return
		case <-work:
			work = nil
			s.askToGo(context.Cause(w.Work))
		case <-hold:
			hold = nil
			s.askToGo(context.Cause(w.Hold))
		case <-lost:
			lost = nil
			s.stop(w.LossCause(), time.Now())
		case <-atRisk:
			atRisk = nil
			s.askToGo(lockguard.ErrAtRisk)
		case sig, open := <-signals:
			if !open {
				signals = nil
				continue
			}
			s.passOn(sig)
		case sig := <-s.group.stops:
			s.resume(sig)
		case <-end:
			s.endTimer = nil
			s.kill()
		}
	}
}

// askToGo ends the group with the grace that goes with cause.
func (s *supervisor) askToGo(cause error) {
	s.stop(cause, s.signals.GraceEnd(cause, s.command.cleanup()))
}

// stop ends the group: SIGTERM now, SIGKILL at end. The earliest end of
// several rules.
func (s *supervisor) stop(cause error, end time.Time) {
	if !time.Now().Before(end) {
		if s.kill() {
			s.because(cause)
		}
		return
	}
	if !s.terminated {
		if !s.tell(syscall.SIGTERM) {
			return // no process is left
		}
		s.terminated = true
		s.note(slog.LevelInfo, "stopping command", "signal", "SIGTERM", "cause", cause, "grace", time.Until(end))
	}
	s.because(cause)
	s.killAt(end)
}

func (s *supervisor) because(cause error) {
	if s.cause == nil {
		s.cause = cause
	}
}

func (s *supervisor) killAt(end time.Time) {
	if s.killed || !s.end.IsZero() && !end.Before(s.end) {
		return
	}
	if s.endTimer != nil {
		s.endTimer.Stop()
	}
	s.end, s.endTimer = end, time.NewTimer(time.Until(end))
}

// kill reports whether a process is left to be killed.
func (s *supervisor) kill() bool {
	if !s.signal(syscall.SIGKILL) {
		return false
	}
	if !s.killed {
		s.killed = true
		s.note(slog.LevelWarn, "command is killed", "signal", "SIGKILL")
	}
	return true
}

// sameSignal is how long after a signal to end another one is no second request:
// timeout(1) signals its child and then the group that the child belongs to, and
// a terminal that is closed sends SIGHUP and so does its shell.
const sameSignal = time.Second

// passOn gives the group a signal that this process got.
func (s *supervisor) passOn(received os.Signal) {
	sig, ok := received.(syscall.Signal)
	if !ok {
		return
	}
	switch sig {
	case syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGURG:
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		if !s.signalled.IsZero() && time.Since(s.signalled) >= sameSignal {
			s.kill() // asked for twice
			return
		}
		if s.tell(sig) {
			if s.signalled.IsZero() {
				s.signalled = time.Now()
			}
			s.terminated = s.terminated || sig == syscall.SIGTERM
			s.because(&SignalError{Signal: sig})
			s.killAt(time.Now().Add(s.command.cleanup()))
		}
	default:
		s.signal(sig)
	}
}

// resume continues a command that the terminal has stopped. One that has to
// wait for it asks again when the shell's fg, which puts this process into the
// foreground, sends SIGCONT.
func (s *supervisor) resume(stopped syscall.Signal) {
	wants := stopped == syscall.SIGTTIN || stopped == syscall.SIGTTOU
	switch {
	case wants && !s.handTerminal():
		s.note(slog.LevelWarn, "command stands still until it gets the terminal", "signal", signalName(stopped))
	case stopped == syscall.SIGTSTP && s.terminal.given():
		s.signal(syscall.SIGCONT)
	}
}

// handTerminal reports whether the command could be continued in the
// foreground.
func (s *supervisor) handTerminal() bool {
	if !s.terminal.give(s.group.id) {
		return false
	}
	return s.signal(syscall.SIGCONT)
}

// tell also wakes those that are stopped. SIGCONT comes second, so that they
// find the signal when they wake and do nothing before.
func (s *supervisor) tell(sig syscall.Signal) bool {
	return s.signal(sig) && s.signal(syscall.SIGCONT)
}

// signal reports whether a process is left to get it.
func (s *supervisor) signal(sig syscall.Signal) bool {
	err := s.group.signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return false
	}
	if err != nil {
		s.note(slog.LevelWarn,
			"command does not take a signal; it is waited for all the same", "signal", signalName(sig), "error", err)
	}
	return true
}

// note logs a line, after those before it, and does not wait for it: the reader
// of the log may be paused, and the command has to end all the same.
func (s *supervisor) note(level slog.Level, msg string, args ...any) {
	before, noted := s.noted, make(chan struct{})
	s.noted = noted
	go func() {
		defer close(noted)
		if before != nil {
			<-before
		}
		s.log.Log(context.Background(), level, msg, args...)
	}()
}

// logPatience is how long the end of a command waits for its last line.
const logPatience = time.Second

// flush waits until all lines are written, but not for a reader that is paused.
func (s *supervisor) flush() {
	if s.noted == nil {
		return
	}
	timer := time.NewTimer(logPatience)
	defer timer.Stop()
	select {
	case <-s.noted:
	case <-timer.C:
	}
}

// outcome is how the command ended.
func (s *supervisor) outcome() error {
	exit, err := s.group.exit()
	switch cause := s.cause; {
	case cause != nil:
		if s.signals.IsLost() &&
			(errors.Is(cause, lockguard.ErrAtRisk) || priority.CauseOf(cause).Kind == priority.KindLost) {
			cause = s.signals.LossCause() // by now a context may say more
		}
		return &StoppedError{Command: s.command.Argv[0], Cause: cause, Exit: exit, Killed: s.killed}
	case err != nil:
		return err
	case exit != nil:
		return exit
	}
	return nil
}
