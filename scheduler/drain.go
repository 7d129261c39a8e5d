package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Drain says how a Scheduler ends, phase by phase. From the end of the context
// of Run on no tick is fired any more, and what still waits for its lock ends at
// once. Then
//
//  1. finish: runs may end by themselves, for Finish;
//  2. cancel: the contexts of those that go on end with the cause
//     lockguard.ErrShutdown, and their work has Cancel to return;
//  3. clean up: hooks run, as long as the cleanup timeouts of their locks allow;
//  4. release: locks are given back and ends are recorded, for Release;
//  5. abandon: Run returns an *AbandonedError that names what is left. Its
//     locks stay until its work and hooks have returned, or the session ends.
//
// A phase that has nothing to wait for takes no time. Scheduler.Hurry ends one.
type Drain struct {
	// Cancel defaults to 30s. Negative: no time.
	Cancel time.Duration

	// Finish defaults to 30s. Negative: no time.
	Finish time.Duration

	// Release defaults to 10s. Negative: no time.
	Release time.Duration
}

// Defaults of Drain.
const (
	DefaultDrainCancel  = 30 * time.Second
	DefaultDrainFinish  = 30 * time.Second
	DefaultDrainRelease = 10 * time.Second
)

func (d Drain) withDefaults() Drain {
	return Drain{
		Cancel:  max(0, cmp.Or(d.Cancel, DefaultDrainCancel)),
		Finish:  max(0, cmp.Or(d.Finish, DefaultDrainFinish)),
		Release: max(0, cmp.Or(d.Release, DefaultDrainRelease)),
	}
}

// AbandonedError is returned by Run when runs did not end in time, although
// their cancellation: they go on in their goroutines, with their locks.
type AbandonedError struct{ Jobs []string }

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("scheduler: abandoned what did not end in time: %s; its locks are free when the process has ended",
		strings.Join(e.Jobs, ", "))
}

// maxHurries is how many phases there are to hurry through.
const maxHurries = 2

// Hurry ends the phase of the drain that goes on: at first the time for runs to
// end by themselves, then all that is left. Before the drain it does nothing.
func (s *Scheduler) Hurry() {
	if !s.isDraining() {
		return
	}
	select {
	case s.hurries <- struct{}{}:
	default:
	}
}

// drain returns when all runs have ended, or an *AbandonedError.
func (s *Scheduler) drain() error {
	s.gate.Lock()
	s.closed = true
	s.gate.Unlock()
	s.mu.Lock()
	s.stopped = true
	s.stopFiring() // first: a run that begins from here on does not wait for its lock
	for r := range s.runs {
		r.endIfWaiting()
	}
	lanes := make([]*lane, 0, len(s.lanes))
	for _, l := range s.lanes {
		lanes = append(lanes, l)
	}
	s.mu.Unlock()
	going, _ := s.unfinished()
	s.log.Info("scheduler stops: no tick is fired any more", "runs", len(going), "finish", s.cfg.Drain.Finish)

	done := make(chan struct{})
	go func() {
		s.deciding.Wait() // the last claims may still begin a run
		for _, l := range lanes {
			l.giveUp(SkipDraining)
		}
		s.running.Wait()
		close(done)
	}()
	defer s.log.Info("scheduler stopped")
	if s.phase(done, s.cfg.Drain.Finish) {
		s.stopWork(lockguard.ErrShutdown)
		return nil
	}
	s.tellOverdue()
	s.stopWork(lockguard.ErrShutdown)
	if s.phase(done, s.afterFinish()) {
		return nil
	}
	running, unrecorded := s.unfinished()
	if left := slices.Compact(slices.Sorted(slices.Values(append(running, unrecorded...)))); len(left) > 0 {
		return &AbandonedError{Jobs: left}
	}
	return nil
}

// afterFinish is how long the phases last that follow Drain.Finish.
func (s *Scheduler) afterFinish() time.Duration {
	return s.cfg.Drain.Cancel + s.longestCleanup() + s.cfg.Drain.Release
}

// DrainLimit returns how long a drain that begins now can take.
func (s *Scheduler) DrainLimit() time.Duration { return s.cfg.Drain.Finish + s.afterFinish() }

// phase reports whether all has ended before its time.
func (s *Scheduler) phase(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-s.hurries:
		s.log.Info("drain is cut short")
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// longestCleanup is how long the hooks of the runs that go on may take.
func (s *Scheduler) longestCleanup() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.runs {
		for _, requirement := range r.def.Requirements {
			longest = max(longest, requirement.CleanupTimeout)
		}
	}
	return longest
}

// tellOverdue logs what the drain has waited for in vain.
func (s *Scheduler) tellOverdue() {
	running, unrecorded := s.unfinished()
	if len(running) > 0 {
		s.log.Warn("time to finish is over: cancelling what still runs", "jobs", running)
	}
	if len(unrecorded) > 0 {
		s.log.Warn("time to finish is over: ZooKeeper has not confirmed the end of runs yet; trying a little longer",
			"jobs", unrecorded, "at_most", drainRecord)
	}
	if len(running)+len(unrecorded) == 0 {
		s.log.Warn("time to finish is over: nothing runs, but ZooKeeper has not answered the last requests yet; " +
			"waiting a little longer")
	}
}

// unfinished returns the jobs that work here now, and those that have worked
// but whose end is not recorded yet.
func (s *Scheduler) unfinished() (running, unrecorded []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.runs {
		working, worked := r.progress()
		switch name := r.def.Name; {
		case worked:
			unrecorded = append(unrecorded, name)
		case working:
			running = append(running, name)
		}
	}
	slices.Sort(running)
	slices.Sort(unrecorded)
	return running, unrecorded
}

func (s *Scheduler) isDraining() bool { return s.firing.Err() != nil }

// enter registers a goroutine that decides ticks; false when it comes too late.
func (s *Scheduler) enter() bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return false
	}
	s.deciding.Add(1)
	return true
}

// drainClaim is how long a claim that was under way when the drain began may
// still take to be decided.
const drainClaim = 2 * time.Second

// until returns a context that ends at an instant of the schedule's clock, and
// soon after the drain has begun.
func (s *Scheduler) until(deadline time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline.Sub(s.now()))
	return ctx, s.endWithDrain(cancel, drainClaim)
}

// endWithDrain calls cancel some time after the drain has begun. The returned
// function calls it now.
func (s *Scheduler) endWithDrain(cancel context.CancelFunc, after time.Duration) context.CancelFunc {
	stop := context.AfterFunc(s.firing, func() { time.AfterFunc(after, cancel) })
	return func() {
		stop()
		cancel()
	}
}
