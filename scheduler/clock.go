package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// Schedules are read by the earlier one of two clocks: this machine's, and that of
// ZooKeeper's leader and ticks.Tolerance more. So a machine whose clock is
// ahead takes no tick from those whose clocks are right, and one whose clock is
// behind, or a leader that is, makes ticks late. Late is better than early: what is
// decided too early is lost to all.

// machine is this machine's clock.
func (s *Scheduler) machine() time.Time {
	if s.cfg.Now == nil {
		return time.Now()
	}
	return s.cfg.Now()
}

// now is the time that schedules are read by.
func (s *Scheduler) now() time.Time {
	now := s.machine()
	if server, ok := s.cfg.Ledger.ServerTime(); ok {
		if most := server.Earliest.Add(ticks.Tolerance); now.After(most) {
			return most
		}
	}
	return now
}

// ClockAhead returns how far this machine's clock is ahead of ZooKeeper's
// (positive) or behind it (negative), at least: 0: no difference is known. ok is
// false as long as ZooKeeper's clock is not known.
func (s *Scheduler) ClockAhead() (by time.Duration, ok bool) {
	server, ok := s.cfg.Ledger.ServerTime()
	if !ok {
		return 0, false
	}
	return server.Ahead(s.machine().Round(0)), true
}

// awaitServerTime waits until ZooKeeper's clock is known, or ctx ends. A daemon that
// must not ask for it goes by its own until it has written something.
func (s *Scheduler) awaitServerTime(ctx context.Context) {
	for pause := newPace(); ; {
		err := s.cfg.Ledger.AwaitServerTime(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.As(err, new(*lock.AccessError)) {
			s.log.Warn("ZooKeeper's clock cannot be asked for: schedules go by this machine's clock until a tick is claimed",
				"error", err)
			return
		}
		pause.wait(ctx)
	}
}

// A clockWatch is what was said of the machine's clock.
type clockWatch struct {
	mu  sync.Mutex
	off time.Duration // as it was said last; 0: it is right
}

// watchClock says that the machine's clock is wrong, when that changes, and when it
// is right again.
func (s *Scheduler) watchClock(now time.Time) time.Time {
	again := now.Add(wakeEvery)
	off, ok := s.ClockAhead()
	if !ok {
		return again
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	const remedy = "set the clock right (chrony, systemd-timesyncd); if other machines say so too, " +
		"that of ZooKeeper's leader is wrong: lockkeeper doctor"
	told, change := s.watch.off, (off - s.watch.off).Abs()
	switch {
	case told != 0 && off.Abs() < ticks.Tolerance/2:
		s.watch.off = 0
		s.log.Info("this machine's clock is right again")
	case off.Abs() <= ticks.Tolerance, told != 0 && change <= max(ticks.Tolerance, told.Abs()/10):
	case off > 0:
		s.watch.off = off
		s.log.Warn("this machine's clock is ahead of ZooKeeper's: ticks are run by ZooKeeper's clock",
			"by", off.Round(time.Millisecond), "remedy", remedy)
	default:
		s.watch.off = off
		s.log.Warn("this machine's clock is behind ZooKeeper's: ticks that no other daemon runs are late by that much",
			"by", -off.Round(time.Millisecond), "remedy", remedy)
	}
	return again
}

// early returns what the ledger says of a tick that is still to come by ZooKeeper's
// clock, nil if that is not what it says.
func early(err error) *ticks.EarlyError {
	e, _ := errors.AsType[*ticks.EarlyError](err)
	return e
}
