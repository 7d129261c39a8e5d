package scheduler

import (
	"maps"

	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// JobStats counts what this daemon did with the ticks of a job since it was
// started. Runs by hand are counted by their outcome, too.
type JobStats struct {
	Buffered    uint64 // put into the ledger, to wait for the end of a run
	Failed      uint64 // ran, with an error
	FromBuffer  uint64 // had waited in the ledger; counted by how they ended, too
	Interrupted uint64 // ran, and was cancelled or lost its session
	Lost        uint64 // ran, and lost its lock
	Preempted   uint64 // ran, and was preempted
	Preemptions uint64 // of runs that were then tried again
	Ran         uint64 // ran to its end
	Retries     uint64 // of attempts that failed
	Skipped     map[SkipReason]uint64
	Stuck       uint64 // runs whose work went on long after its context had ended
	Taken       uint64 // decided by another daemon, or left to the one that owns the job

	// Differing is how many other definitions of the job are in use now.
	Differing int

	Running  int // runs that go on here now, or wait for their locks
	StuckNow int // of them, those that are stuck
}

// Total returns the number of ticks that came due here and are decided.
func (s JobStats) Total() uint64 {
	n := s.Failed + s.Interrupted + s.Lost + s.Preempted + s.Ran + s.Taken + s.Buffered - s.FromBuffer
	for _, skipped := range s.Skipped {
		n += skipped
	}
	return n
}

// Stats returns the counts of all jobs, by name.
func (s *Scheduler) Stats() map[string]JobStats {
	s.mu.Lock()
	running := make(map[*lane]int)
	for r := range s.runs {
		running[r.lane]++
	}
	lanes := maps.Clone(s.lanes)
	s.mu.Unlock()
	all := make(map[string]JobStats, len(lanes))
	for name, l := range lanes {
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

func (s *JobStats) counter(outcome ticks.Outcome) *uint64 {
	switch outcome {
	case ticks.Ran:
		return &s.Ran
	case ticks.Preempted:
		return &s.Preempted
	case ticks.Lost:
		return &s.Lost
	case ticks.Interrupted:
		return &s.Interrupted
	case ticks.Failed, ticks.Skipped: // what was skipped is not counted here
	}
	return &s.Failed
}
