package scheduler

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// Changes are what Reconcile did, by the names of jobs, sorted.
type Changes struct {
	Added, Changed, Removed []string
}

// Reconcile makes these the jobs of the scheduler, before Run or while it runs:
// all of them or, if there is anything wrong with one of them, none.
//
// Jobs are identified by their names. A job that stays keeps its place: the
// ticks that came due before are those of its old schedule, later ones those of
// the new one, and none is lost or run twice. What runs goes on as it was
// started, also when its job was removed.
//
// The error is ErrStopped, or everything that is wrong with the jobs, joined.
func (s *Scheduler) Reconcile(all []jobs.Job) (Changes, error) {
	defs, err := s.defineAll(all)
	if err != nil {
		return Changes{}, err
	}
	s.reconciling.Lock()
	defer s.reconciling.Unlock()

	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return Changes{}, ErrStopped
	}
	if s.cfg.Spread != nil {
		if err := s.spreadProblem(defs); err != nil {
			s.mu.Unlock()
			return Changes{}, err
		}
	}
	var changes Changes
	var open, closed []*lane
	for name, l := range s.lanes {
		if defs[name] == nil {
			delete(s.lanes, name)
			closed = append(closed, l)
			changes.Removed = append(changes.Removed, name)
		}
	}
	for name, def := range defs {
		l := s.lanes[name]
		switch {
		case l == nil:
			l = newLane(s, def)
			s.lanes[name] = l
			open = append(open, l)
			changes.Added = append(changes.Added, name)
		case l.replace(def):
			changes.Changed = append(changes.Changed, name)
		}
	}
	opened := s.opened
	s.mu.Unlock()

	if opened {
		for _, l := range closed {
			l.close()
		}
		for _, l := range open {
			l.open()
		}
		if len(open)+len(closed) > 0 {
			s.spreadAnew()
		}
		if len(open) > 0 {
			s.serveAnew()
		}
	}
	slices.Sort(changes.Added)
	slices.Sort(changes.Changed)
	slices.Sort(changes.Removed)
	return changes, nil
}

// defineAll returns the definitions of jobs by their names.
func (s *Scheduler) defineAll(all []jobs.Job) (map[string]*definition, error) {
	defs := make(map[string]*definition, len(all))
	var problems []error
	for _, job := range all {
		def, err := s.define(job)
		if defs[job.Name] != nil {
			err = errors.Join(err, errors.New("another job has this name; choose another one"))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("job %q: %w", job.Name, err))
		}
		defs[job.Name] = def
	}
	return defs, errors.Join(problems...)
}

// replace gives the job another definition, and reports whether it differs.
func (l *lane) replace(def *definition) bool {
	l.mu.Lock()
	old := l.def
	if reflect.DeepEqual(old.Job, def.Job) {
		l.mu.Unlock()
		return false
	}
	open := l.alarm != nil // else there is no tick of the old one
	if open {
		def.follow(old, l.s.now())
	}
	l.def = def
	l.mu.Unlock()
	if !open {
		l.feed.schedule, l.feed.jitter = def.schedule, def.Jitter
		return true
	}
	if !sameTicks(old.Job, def.Job) {
		l.feed.replace(def.schedule, def.Jitter)
		l.alarm.wake()
	}
	return true
}

// sameTicks reports whether two definitions of a job are due at the same times.
func sameTicks(a, b jobs.Job) bool {
	return a.Schedule == b.Schedule && a.TimeZone == b.TimeZone && a.DST == b.DST && a.Jitter == b.Jitter
}

// close ends the firing of a job that was removed.
func (l *lane) close() {
	l.alarm.remove()
	l.mu.Lock()
	l.gone = true
	idle := !l.active
	l.mu.Unlock()
	if idle {
		l.giveUp(SkipRemoved)
	} // else the goroutine that decides does it
}
