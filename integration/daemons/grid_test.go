package daemons

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

const crowdSize = 20

func crowdName(i int) string { return fmt.Sprintf("job-%02d", i) }

// crowd returns twenty jobs that are due every second; every other one needs
// a lock.
func crowd(daemon string, tell func(mark)) []jobs.Job {
	var all []jobs.Job
	for i := range crowdSize {
		job := jobs.Job{
			Name:     crowdName(i),
			Schedule: "* * * * * *",
			Work: jobs.Func(func(_ context.Context, run jobs.Run) error {
				tell(mark{At: time.Now(), Daemon: daemon, Job: run.Job, Instant: run.Scheduled, What: began})
				return nil
			}),
		}
		if i%2 == 0 {
			job.Requirements = []lockguard.Requirement{{Scope: "crowd/" + job.Name}}
		}
		all = append(all, job)
	}
	return all
}

// A grid is what became of each instant of each job.
type grid map[string]map[time.Time][]mark

// gridOf counts runs and skips.
func gridOf(marks []mark) grid {
	g := make(grid)
	for _, m := range marks {
		if m.What != began && m.What != skipped {
			continue
		}
		if g[m.Job] == nil {
			g[m.Job] = make(map[time.Time][]mark)
		}
		instant := m.Instant.UTC()
		g[m.Job][instant] = append(g[m.Job][instant], m)
	}
	return g
}

func (g grid) jobs() []string { return slices.Sorted(maps.Keys(g)) }

// span returns the first and the last instant at which a job ran.
func (g grid) span(job string) (first, last time.Time) {
	for instant, marks := range g[job] {
		if !slices.ContainsFunc(marks, func(m mark) bool { return m.What == began }) {
			continue
		}
		if first.IsZero() || instant.Before(first) {
			first = instant
		}
		if instant.After(last) {
			last = instant
		}
	}
	return first, last
}

// seconds returns all instants from first to last.
func seconds(first, last time.Time) []time.Time {
	var all []time.Time
	for at := first; !at.After(last); at = at.Add(time.Second) {
		all = append(all, at)
	}
	return all
}

// progress returns the instant that all jobs of the crowd have reached with a
// run in one of the daemons.
func progress(marks []mark, daemons ...string) time.Time {
	reached := make(map[string]time.Time)
	for _, m := range marks {
		if m.What == began && slices.Contains(daemons, m.Daemon) && m.Instant.After(reached[m.Job]) {
			reached[m.Job] = m.Instant
		}
	}
	var slowest time.Time
	for i := range crowdSize {
		at, ok := reached[crowdName(i)]
		if !ok {
			return time.Time{}
		}
		if slowest.IsZero() || at.Before(slowest) {
			slowest = at
		}
	}
	return slowest
}

// latest returns the latest instant at which anything ran.
func latest(marks []mark) time.Time {
	var last time.Time
	for _, m := range marks {
		if m.What == began && m.Instant.After(last) {
			last = m.Instant
		}
	}
	return last
}

// around tells what became of a job a few seconds before and after an instant,
// and when the other jobs ran meanwhile.
func (g grid) around(job string, instant time.Time) string {
	var b strings.Builder
	for _, at := range seconds(instant.Add(-5*time.Second), instant.Add(5*time.Second)) {
		var starts []time.Time
		for name := range g {
			for _, m := range g[name][at] {
				if m.What == began {
					starts = append(starts, m.At)
				}
			}
		}
		fmt.Fprintf(&b, "%s at %s: %v", job, at.Format(time.TimeOnly), g[job][at])
		if len(starts) > 0 {
			const clock = "15:04:05.000"
			first, last := slices.MinFunc(starts, time.Time.Compare), slices.MaxFunc(starts, time.Time.Compare)
			fmt.Fprintf(&b, " (all: %d runs begun from %s to %s)", len(starts), first.Format(clock), last.Format(clock))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
