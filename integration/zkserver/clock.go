package zkserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// WithSteppableClock gives every server a wall clock that StepClock sets, by Debian's libfaketime. Time that
// passes is not changed: Java's monotonic clock, by which ZooKeeper expires sessions, stays as it is. Without
// libfaketime the start fails; see ClockSteppable.
func WithSteppableClock() Option {
	return func(o *options) { o.faketime, o.noFaketime = findFaketime() }
}

// ClockSteppable returns nil when WithSteppableClock can be used here, else what is missing.
func ClockSteppable() error {
	_, err := findFaketime()
	return err
}

// StepClock makes the server's wall clock show the true time plus offset from now on; 0 puts it right. It
// holds for later starts too. It is an error without WithSteppableClock.
func (s *Server) StepClock(offset time.Duration) error {
	if s.options.faketime == "" {
		return s.errorf("step the clock: it was started without WithSteppableClock")
	}
	if err := writeClock(s.dir.path, offset); err != nil {
		return s.errorf("step the clock: %w", err)
	}
	return nil
}

func findFaketime() (string, error) {
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if err != nil || len(found) == 0 {
		return "",
			errors.Join(errors.New("no libfaketime here: run `make setup`, or install Debian's package faketime"), err)
	}
	return found[0], nil
}

// clockEnvironment: the file is read at each look at the clock, so that a step holds at once. The workaround for
// monotonic clocks of an old C library is switched off: with it every wait of a Java thread becomes a busy one.
func clockEnvironment(o options, dir string) []string {
	if o.faketime == "" {
		return nil
	}
	return []string{
		"LD_PRELOAD=" + o.faketime,
		"FAKETIME_TIMESTAMP_FILE=" + clockFile(dir),
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		"FAKETIME_FORCE_MONOTONIC_FIX=0",
		"NO_FAKE_STAT=1",
	}
}

// writeClock replaces the file whole: the server reads it all the time.
func writeClock(dir string, offset time.Duration) error {
	next := clockFile(dir) + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.3f\n", offset.Seconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, clockFile(dir))
}

func clockFile(dir string) string { return filepath.Join(dir, "clock") }

// removeClockShare removes what libfaketime leaves of a process that was killed.
func removeClockShare(pid int) {
	for _, name := range []string{"faketime_shm_%d", "sem.faketime_sem_%d"} {
		_ = os.Remove(filepath.Join(memoryFS, fmt.Sprintf(name, pid)))
	}
}
