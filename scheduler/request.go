package scheduler

import (
	"errors"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// serveRequests runs by hand what somebody asks for, if it is a job of this
// daemon: until the drain begins.
func (s *Scheduler) serveRequests() {
	var serving sync.WaitGroup
	defer serving.Wait()
	var seen []recipes.TickRequest
	for pause := newPace(); !s.isDraining(); {
		requests, err := s.cfg.Ledger.AwaitRequests(s.firing, seen)
		if err != nil {
			if !pause.wait(s.firing) {
				return
			}
			continue
		}
		pause = newPace()
		for _, request := range requests {
			if slices.ContainsFunc(seen, func(r recipes.TickRequest) bool { return r.ID == request.ID }) {
				continue
			}
			serving.Go(func() { s.serve(request) })
		}
		seen = requests
	}
}

// serve claims a request and runs it, unless another daemon is faster. While
// the job runs already it waits, as long as the request stands.
func (s *Scheduler) serve(request recipes.TickRequest) {
	for pause := newPace(); ; {
		l := s.laneOf(request.Job)
		if l == nil {
			return
		}
		def := l.definition()
		claim, err := s.cfg.Ledger.ClaimRequest(s.firing, request, mostRuns(def))
		switch {
		case err == nil && claim.Verdict == recipes.TickClaimed:
			s.log.Info("job is run by hand", "job", def.Name, "by", request.By, "reason", request.Reason)
			l.start(claim, false)
			return
		case err == nil && claim.Verdict == recipes.TickTaken, errors.As(err, new(*recipes.RequestError)):
			return
		case !pause.wait(s.firing):
			return
		}
	}
}
