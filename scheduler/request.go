package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// serveRequests runs what was requested by hand, if it is a job of this
// daemon: until the drain begins.
func (s *Scheduler) serveRequests() {
	var serving sync.WaitGroup
	defer serving.Wait()
	var standing ticks.Requests
	var mu sync.Mutex
	served := make(map[string]bool) // of these, by id
	for pause := newPace(); !s.isDraining(); {
		requests, err := s.awaitRequests(standing)
		if err != nil {
			if !pause.wait(s.firing) {
				return
			}
			continue
		}
		pause = newPace()
		s.tellUnreadable(standing.Unreadable, requests.Unreadable)
		standing = requests
		mu.Lock()
		maps.DeleteFunc(served, func(id string, _ bool) bool {
			return !slices.ContainsFunc(standing.Standing, func(r ticks.Request) bool { return r.ID == id })
		})
		for _, request := range standing.Standing {
			if !served[request.ID] && s.laneOf(request.Job) != nil {
				served[request.ID] = true
				serving.Go(func() {
					if !s.serve(request) { // its job may come back, or be back
						mu.Lock()
						delete(served, request.ID)
						mu.Unlock()
						s.serveAnew()
					}
				})
			}
		}
		mu.Unlock()
	}
}

// awaitRequests returns the requests that stand as soon as they differ from
// those that are known, or a job was added, which one of them may be about.
func (s *Scheduler) awaitRequests(known ticks.Requests) (ticks.Requests, error) {
	ctx, cancel := context.WithCancel(s.firing)
	var added bool
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-s.added:
			added = true
			cancel()
		case <-ctx.Done():
		}
	})
	standing, err := s.cfg.Ledger.AwaitRequests(ctx, known)
	cancel()
	waiting.Wait() // so that requests seen with an added job are acted on
	if err != nil && added {
		return known, nil
	}
	return standing, err
}

// tellUnreadable logs each request that cannot be read, once: it is unknown for
// which job it is.
func (s *Scheduler) tellUnreadable(before, now []lock.Unreadable) {
	for _, u := range now {
		if !slices.Contains(before, u) {
			s.log.Warn("a request to run a job by hand is left out", "node", u.Path, "why", u.Reason)
		}
	}
}

// serveAnew has requests looked at that were about no job of this daemon.
func (s *Scheduler) serveAnew() {
	select {
	case s.added <- struct{}{}:
	default:
	}
}

// serve claims a request and runs it, unless another daemon is faster. While
// the job runs already it waits, as long as the request stands. The drain lets a
// claim that is under way be answered, so that what it has claimed is run here
// or recorded. It reports false if this daemon has the job no more.
func (s *Scheduler) serve(request ticks.Request) (had bool) {
	if !s.enter() {
		return true
	}
	defer s.deciding.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer s.endWithDrain(cancel, drainClaim)()
	told := false
	for pause := newPace(); ; {
		l := s.laneOf(request.Job)
		if l == nil {
			return false
		}
		def := l.definition()
		claim, err := s.cfg.Ledger.ClaimRequest(ctx, request, mostRuns(def))
		if isUnreadable(err) && !told {
			told = true
			s.log.Error("a run by hand waits until the record of its job in ZooKeeper can be read",
				"job", def.Name, "by", request.By, "error", err)
		}
		switch {
		case err == nil && claim.Verdict == ticks.Claimed:
			s.log.Info("job is run by hand", "job", def.Name, "by", request.By, "reason", request.Reason)
			l.start(claim, false)
			return true
		case err == nil && claim.Verdict == ticks.Taken, errors.As(err, new(*lock.RequestError)):
			return true
		case !pause.wait(s.firing):
			return true
		}
	}
}
