package metrics

import (
	"context"
	"errors"
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
	StuckRuns   uint64 // whose work went on long after it was told to go

	Running  int // runs of now, those that wait for their locks too
	StuckNow int // of them, those whose work does not go although it was told to
}

// Attributes of the instruments. The name of a job is not called job, which is
// a label that Prometheus gives to what it scrapes.
const (
	jobName  = attribute.Key("job.name")
	outcome  = attribute.Key("outcome")
	reason   = attribute.Key("reason")
	overflow = attribute.Key("otel.metric.overflow") // as the SDK has it
)

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
	counters := make(map[string]metric.Int64ObservableCounter)
	var gauges [2]metric.Int64ObservableUpDownCounter
	var all []metric.Observable
	var problems []error
	for _, c := range []struct{ name, unit, help string }{
		{ticks, "{tick}", "Ticks and runs by hand that have ended here, by their outcome."},
		{preemptions, "{preemption}", "Preemptions after which a run waited for its locks again."},
		{retries, "{retry}", "Attempts that failed and were followed by another one."},
		{stuckRuns, "{run}", "Runs whose work went on long after it was told to go."},
	} {
		counter, err := meter.Int64ObservableCounter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.help))
		counters[c.name], all, problems = counter, append(all, counter), append(problems, err)
	}
	for i, g := range []struct{ name, help string }{
		{"lockkeeper.job.running", "Runs that go on here, or wait for their locks."},
		{"lockkeeper.job.stuck", "Runs that go on here although their work was told to go long ago."},
	} {
		gauge, err := meter.Int64ObservableUpDownCounter(g.name, metric.WithUnit("{run}"), metric.WithDescription(g.help))
		gauges[i], all, problems = gauge, append(all, gauge), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}

	var mu sync.Mutex // collections may overlap
	known := newSeries(most)
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		mu.Lock()
		defer mu.Unlock()
		known.look(snapshot(), func(s series) {
			for c, n := range s.counts {
				o.ObserveInt64(counters[c.instrument], int64(n), metric.WithAttributeSet(c.attributes(s.whose)))
			}
			set := attribute.NewSet(s.whose)
			o.ObserveInt64(gauges[0], int64(s.running), metric.WithAttributeSet(set))
			o.ObserveInt64(gauges[1], int64(s.stuck), metric.WithAttributeSet(set))
		})
		return nil
	}, all...)
	return err
}

const (
	ticks       = "lockkeeper.job.ticks"
	preemptions = "lockkeeper.job.preemptions"
	retries     = "lockkeeper.job.retries"
	stuckRuns   = "lockkeeper.job.stuck_runs"
)

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
