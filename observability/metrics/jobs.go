package metrics

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A Job is what a process has done with the ticks of a job since it was started,
// or since the job was added. Numbers that are not said to be of now only grow.
type Job struct {
	Name string

	// How ticks and runs by hand ended, each in one way.
	Ran, Failed, Preempted, Lost, Interrupted uint64

	// Skipped are those that did not run, by the reason. A reason with 0 has a
	// series as well, so put in all there are.
	Skipped map[string]uint64

	// Taken are ticks that another process has decided.
	Taken uint64

	Preemptions uint64 // of runs that then waited for their locks again
	Retries     uint64 // of attempts that failed
	StuckRuns   uint64 // whose work went on long after it was cancelled

	Running  int // runs of now, those that wait for their locks too
	StuckNow int // of them, those whose work does not go although it was told to

	Differing int // other definitions of the job that are in use now
}

// MaxJobs is how many jobs have series of their own. The numbers of all others
// are added up in series with the attribute otel.metric.overflow instead of a
// name. Who was there first keeps its series; a counter never goes back.
const MaxJobs = 1000

// Jobs makes the instruments of jobs. snapshot is called for each collection,
// from any goroutine. An error says which instrument the meter refuses.
func Jobs(meter metric.Meter, snapshot func() []Job) error {
	return observeJobs(meter, MaxJobs, snapshot)
}

func observeJobs(meter metric.Meter, most int, snapshot func() []Job) error {
	m := newMaker(meter)
	counters := make(map[string]metric.Int64ObservableCounter)
	for _, name := range []string{ticks, preemptions, retries, stuckRuns} {
		counters[name] = m.observedCounter(name)
	}
	running, stuck, differing := m.sum(jobRunning), m.sum(jobStuck), m.sum(jobDiffering)

	var mu sync.Mutex // collections may overlap
	known := newSeries(most)
	_, err := m.observe(func(_ context.Context, o metric.Observer) error {
		mu.Lock()
		defer mu.Unlock()
		known.look(snapshot(), func(s series) {
			for c, n := range s.counts {
				o.ObserveInt64(counters[c.instrument], int64(n), metric.WithAttributeSet(c.attributes(s.whose)))
			}
			set := attribute.NewSet(s.whose)
			o.ObserveInt64(running, int64(s.running), metric.WithAttributeSet(set))
			o.ObserveInt64(stuck, int64(s.stuck), metric.WithAttributeSet(set))
			o.ObserveInt64(differing, int64(s.differing), metric.WithAttributeSet(set))
		})
		return nil
	})
	return err
}

// A count is what a number counts.
type count struct{ instrument, outcome, reason string }

func (c count) attributes(whose attribute.KeyValue) attribute.Set {
	all := []attribute.KeyValue{whose}
	if c.outcome != "" {
		all = append(all, outcome.String(c.outcome))
	}
	if c.reason != "" {
		all = append(all, reason.String(c.reason))
	}
	return attribute.NewSet(all...)
}

// counts returns all that only grows.
func (j Job) counts() map[count]uint64 {
	all := map[count]uint64{
		{ticks, "ran", ""}:         j.Ran,
		{ticks, "failed", ""}:      j.Failed,
		{ticks, "preempted", ""}:   j.Preempted,
		{ticks, "lost", ""}:        j.Lost,
		{ticks, "interrupted", ""}: j.Interrupted,
		{ticks, "taken", ""}:       j.Taken,
		{preemptions, "", ""}:      j.Preemptions,
		{retries, "", ""}:          j.Retries,
		{stuckRuns, "", ""}:        j.StuckRuns,
	}
	for why, n := range j.Skipped {
		all[count{ticks, "skipped", why}] = n
	}
	return all
}
