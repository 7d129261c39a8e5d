package nightly

import (
	"slices"
	"time"
)

// shown is how much of the past a chart shows.
const shown = time.Minute

// A history is what has happened, as the steps tell it: single runs for as long
// as a chart may show them, and what became of all of them in numbers.
type history struct {
	runs    []*jobRun
	tallies map[string]*tally // by job
}

// A jobRun is one run of a job.
type jobRun struct {
	id        string
	job       string
	asked     time.Time // zero if it got the lock at once
	started   time.Time // zero if it never did
	cleaning  time.Time // zero if it was not interrupted
	cleaned   time.Time // zero if it has not, or not yet
	ended     time.Time // zero if it has not
	preempted bool
}

// A tally counts what became of one job.
type tally struct {
	runs      int
	done      int
	preempted int // runs, however often they were preempted
	cleaned   int // of those that were preempted
	helpless  int // runs that could not clean up: their lock was lost, or there was no time
	skipped   int
	onDaemon  map[string]int // runs
}

func newHistory() history { return history{tallies: make(map[string]*tally)} }

func (h *history) add(s step) {
	if s.Job == "" {
		return // about ZooKeeper
	}
	t := h.tally(s.Job)
	if s.Kind == skipped {
		t.skipped++
	}
	if s.Run == "" {
		return
	}
	r := h.run(s)
	switch s.Kind {
	case waiting:
		r.asked = s.At
	case holding, running:
		r.started = s.At
		t.runs++
		t.onDaemon[s.Daemon]++
	case preempted:
		if !r.preempted {
			t.preempted++
		}
		r.preempted = true
	case cleaning:
		r.cleaning = s.At
	case cleaned:
		if r.preempted {
			t.cleaned++
		}
	case done:
		t.done++
	case lost, unclean:
		t.helpless++
	default: // is in the timeline
	}
	if s.Kind == cleaned || s.Kind == unclean {
		r.cleaned = s.At
	}
	if s.Kind.ends() {
		r.ended = s.At
	}
}

func (h *history) tally(job string) *tally {
	if h.tallies[job] == nil {
		h.tallies[job] = &tally{onDaemon: make(map[string]int)}
	}
	return h.tallies[job]
}

// run returns the run of a step, and forgets those that are long over.
func (h *history) run(s step) *jobRun {
	old := s.At.Add(-shown)
	h.runs = slices.DeleteFunc(h.runs, func(r *jobRun) bool { return !r.ended.IsZero() && r.ended.Before(old) })
	for _, r := range h.runs {
		if r.id == s.Run {
			return r
		}
	}
	r := &jobRun{id: s.Run, job: s.Job}
	h.runs = append(h.runs, r)
	return r
}

// sum adds up what of counts in all tallies.
func (h *history) sum(of func(*tally) int) int {
	n := 0
	for _, t := range h.tallies {
		n += of(t)
	}
	return n
}

// waits reports whether a run of a job waits for the lock and none works.
func (h *history) waits(job string) bool {
	waits := false
	for _, r := range h.runs {
		if r.job == job && r.ended.IsZero() {
			if !r.started.IsZero() {
				return false
			}
			waits = true
		}
	}
	return waits
}

// worked counts the runs that have begun to work.
func (h *history) worked() int { return h.sum(func(t *tally) int { return t.runs }) }

// cleanups counts the preemptions whose cleanup has completed.
func (h *history) cleanups() int { return h.sum(func(t *tally) int { return t.cleaned }) }

// helpless counts the runs that could not clean up.
func (h *history) helpless() int { return h.sum(func(t *tally) int { return t.helpless }) }
