package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// checkPolicies compares the policies of a job with its schedule, its locks
// and each other.
func (r *reader) checkPolicies(job jobEntry, locks bool) {
	p := job.policies
	if on := p.onPreempt; on.given && !on.bad && on.v.Then == jobs.PreemptedRequeue && !locks {
		r.missing(on.at,
			"on_preempt requeue: there is no lock that could be preempted", "write the job's locks, or remove it")
	}
	if hold := job.holdAtLeast; hold.v > 0 && !locks {
		r.missing(hold.at, "hold_at_least: there is no lock to hold", "write the job's locks, or remove it")
	}
	if len(job.locks) == 0 {
		return
	}
	hasty := slices.MinFunc(job.locks, func(a, b lockEntry) int { return cmp.Compare(a.lease.v, b.lease.v) })
	if hasty.lease.bad {
		return
	}
	lease := fmt.Sprintf("lease_timeout%s (%s%s)",
		hasty.among(job.locks), words.Duration(hasty.lease.v), hasty.lease.origin())
	if timeout := p.timeout; timeout.v > hasty.lease.v && (timeout.given || hasty.lease.given) {
		r.warn(r.firstGiven(timeout.at, timeout.given, hasty.lease.at),
			fmt.Sprintf("timeout (%s%s) is longer than %s: after the lease any request may preempt the job",
				words.Duration(timeout.v), timeout.origin(), lease), "write a lease_timeout as long as the work may take")
	}
	if hold := job.holdAtLeast; hold.v > hasty.lease.v {
		r.warn(hold.at, fmt.Sprintf("hold_at_least (%s) is longer than %s: after the lease any request may preempt the job",
			words.Duration(hold.v), lease), "write a lease_timeout as long as the locks are to be held")
	}
}

// checkPeriod compares durations with the time between two ticks.
func (r *reader) checkPeriod(job jobEntry) {
	p := job.policies
	pauses := retryPauses(p.retry.v)
	if p.jitter.v == 0 && pauses == 0 && job.HoldAtLeast == 0 {
		return
	}
	period := r.period(job.Job)
	if period == 0 {
		return
	}
	every := words.Duration(period)
	if jitter := p.jitter; !jitter.bad && jitter.v >= period {
		at := jitter.at
		if !jitter.given {
			at = job.name
		}
		r.problem(at, fmt.Sprintf("jitter (%s%s) must be shorter than the time between two ticks (%s)",
			words.Duration(jitter.v), jitter.origin(), every), "write a shorter jitter in the job")
	}
	waits := p.overlap.v.Policy == jobs.OverlapAllowAll
	if !waits && p.retry.given && pauses >= period {
		r.warn(p.retry.at, fmt.Sprintf("the pauses between %d retries (%s in all) take longer than the time between two "+
			"ticks (%s): ticks come due meanwhile", p.retry.v.Max, words.Duration(pauses), every),
			"write a smaller max, or shorter pauses")
	}
	if hold := job.holdAtLeast; hold.v >= period {
		r.warn(hold.at,
			fmt.Sprintf("hold_at_least (%s) is not shorter than the time between two ticks (%s): ticks come due meanwhile",
				words.Duration(hold.v), every), "write a shorter one")
	}
}

// retryPauses is how long the pauses between retries are at most, in all.
func retryPauses(retry jobs.Retry) time.Duration {
	retry = jobs.Job{Retry: retry}.WithDefaults().Retry
	var all time.Duration
	pause := retry.Initial
	for i := range retry.Max {
		if pause >= retry.MaxInterval {
			left := min(int64(retry.Max-i), int64(longest/max(retry.MaxInterval, 1)))
			return all + time.Duration(left)*retry.MaxInterval
		}
		all += pause
		pause *= 2
	}
	return all
}

// longest bounds what is only compared, far from where durations overflow.
const longest = 100 * 365 * 24 * time.Hour

// period returns the shortest time between two ticks of a schedule, as far as
// the first few show it; 0 if there are none. It does not depend on today, so
// that a file that is right once stays right.
func (r *reader) period(job jobs.Job) time.Duration {
	of := periodOf{job.Schedule, job.TimeZone, job.DST}
	if period, known := r.periods[of]; known {
		return period
	}
	if r.periods == nil {
		r.periods = map[periodOf]time.Duration{}
	}
	r.periods[of] = 0
	s, err := scheduler.ParseJob(job)
	if err != nil {
		return 0
	}
	const few = 16
	shortest := time.Duration(0)
	last := s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	for range few {
		next := s.Next(last)
		if last.IsZero() || next.IsZero() {
			break
		}
		if gap := next.Sub(last); shortest == 0 || gap < shortest {
			shortest = gap
		}
		last = next
	}
	r.periods[of] = shortest
	return shortest
}

// periodOf is what a period depends on. The name of a job moves its ticks, but
// hardly what is between them.
type periodOf struct {
	spec, zone string
	dst        jobs.DST
}
