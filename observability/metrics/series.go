package metrics

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/otel/attribute"
)

// A series is what is shown of a job, or of all those together that are beyond
// the limit.
type series struct {
	whose          attribute.KeyValue
	counts         map[count]uint64
	running, stuck int
	differing      int
}

// A seriesSet bounds how many jobs are shown one by one.
type seriesSet struct {
	most int
	own  map[string]bool             // jobs that are shown one by one
	rest map[string]map[count]uint64 // the others, as they were seen last
	sum  map[count]uint64            // what the others have ever counted
}

func newSeries(most int) *seriesSet {
	return &seriesSet{most: most, own: map[string]bool{}, rest: map[string]map[count]uint64{}, sum: map[count]uint64{}}
}

// look calls show for each series. A job that is among the others stays there:
// were it shown by itself one day, the sum would go back, which readers take
// for a restart.
func (s *seriesSet) look(all []Job, show func(series)) {
	all = slices.SortedFunc(slices.Values(all), func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
	s.forget(all)
	others := series{whose: overflow.Bool(true), counts: s.sum}
	for _, job := range all {
		counts := job.counts()
		if s.isOwn(job.Name) {
			show(series{
				whose: jobName.String(job.Name), counts: counts, running: job.Running, stuck: job.StuckNow,
				differing: job.Differing,
			})
			continue
		}
		for c, n := range counts {
			before := s.rest[job.Name][c]
			if n < before {
				before = 0 // it was removed, and added anew
			}
			s.sum[c] += n - before
		}
		s.rest[job.Name] = counts
		others.running += job.Running
		others.stuck += job.StuckNow
		others.differing += job.Differing
	}
	if len(s.sum) > 0 {
		show(others)
	}
}

// forget drops jobs that were removed.
func (s *seriesSet) forget(all []Job) {
	there := make(map[string]bool, len(all))
	for _, job := range all {
		there[job.Name] = true
	}
	for name := range s.own {
		if !there[name] {
			delete(s.own, name)
		}
	}
	for name := range s.rest {
		if !there[name] {
			delete(s.rest, name)
		}
	}
}

// isOwn reports whether a job is shown by itself.
func (s *seriesSet) isOwn(name string) bool {
	if s.own[name] {
		return true
	}
	if _, other := s.rest[name]; other || len(s.own) >= s.most {
		return false
	}
	s.own[name] = true
	return true
}
