package scheduler

import "maps"

// JobStats counts what this daemon did with the ticks of a job since it was
// started: their sum is the number of ticks that came due and are decided.
// Runs by hand are counted by their outcome, too.
type JobStats struct {
	Failed      uint64 // ran, with an error
	Interrupted uint64 // ran, and was cancelled by the drain or lost its session
	Lost        uint64 // ran, and lost its lock
	Preempted   uint64 // ran, and was asked to go
	Ran         uint64 // ran to its end
	Skipped     map[SkipReason]uint64
	Taken       uint64 // decided by another daemon, or left to the one that owns the job

	Running bool // it runs here now, or waits for its lock
}

// Total returns the number of ticks that are decided.
func (s JobStats) Total() uint64 {
	n := s.Failed + s.Interrupted + s.Lost + s.Preempted + s.Ran + s.Taken
	for _, skipped := range s.Skipped {
		n += skipped
	}
	return n
}

// Stats returns the counts of all jobs, by name.
func (s *Scheduler) Stats() map[string]JobStats {
	s.mu.Lock()
	running := make(map[*lane]bool)
	for r := range s.runs {
		running[r.lane] = true
	}
	s.mu.Unlock()
	all := make(map[string]JobStats, len(s.lanes))
	for name, l := range s.lanes {
		l.mu.Lock()
		stats := l.stats
		stats.Skipped = maps.Clone(stats.Skipped)
		l.mu.Unlock()
		stats.Running = running[l]
		all[name] = stats
	}
	return all
}

func (l *lane) count(change func(*JobStats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}
