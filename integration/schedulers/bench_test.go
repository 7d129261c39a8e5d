package schedulers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	period     = 10 * time.Second // of jobs that tick
	restWindow = 15 * time.Second
	tickWarmUp = 12 * time.Second // each job runs once
	tickWindow = 30 * time.Second

	// spreadWarmUp is how long daemons that start together take until each job has
	// an owner and what came due meanwhile is decided.
	spreadWarmUp = 50 * time.Second
)

// BenchmarkAtRest: jobs that run once an hour, and not now.
func BenchmarkAtRest(b *testing.B) {
	for _, e := range []entry{
		{contestant: "lockkeeper", server: apache},
		{contestant: "lockkeeper", server: embedded},
		{contestant: "robfig"},
		{contestant: "gocron"},
	} {
		b.Run(e.name(), func(b *testing.B) {
			for b.Loop() {
				e.enter(b, settings{Jobs: *crowd, Window: restWindow})
			}
		})
	}
}

// BenchmarkTicks: each job runs once in ten seconds, a thousand of them each
// second, every one at a moment of its own.
func BenchmarkTicks(b *testing.B) {
	for _, e := range []entry{
		{contestant: "lockkeeper", server: apache},
		{contestant: "lockkeeper", server: embedded},
		{contestant: "robfig"},
		{contestant: "gocron"},
		{contestant: "lockkeeper", server: apache, locks: true},
		{contestant: "lockkeeper", server: embedded, locks: true},
		{contestant: "lockkeeper", server: apache, daemons: 3},
		{contestant: "lockkeeper", server: apache, daemons: 3, locks: true},
	} {
		b.Run(e.name(), func(b *testing.B) {
			warmUp := tickWarmUp
			if e.daemons > 1 {
				warmUp = spreadWarmUp
			}
			for b.Loop() {
				e.enter(b, settings{Jobs: *crowd, Period: period, WarmUp: warmUp, Window: tickWindow})
			}
		})
	}
}

// Every contestant runs what it is given: else its figures would be
// those of something else.
func TestEachContestantRunsItsTicks(t *testing.T) {
	for _, e := range []entry{
		{contestant: "lockkeeper", server: embedded},
		{contestant: "lockkeeper", server: embedded, locks: true},
		{contestant: "lockkeeper", server: embedded, daemons: 3},
		{contestant: "lockkeeper", server: embedded, daemons: 3, locks: true},
		{contestant: "robfig"},
		{contestant: "gocron"},
	} {
		t.Run(e.name(), func(t *testing.T) {
			// given
			t.Parallel()
			s := settings{Jobs: 20, Period: 2 * time.Second, WarmUp: 2 * time.Second, Window: 4 * time.Second}
			if e.daemons > 1 {
				s.WarmUp = 12 * time.Second
			}

			// when
			r := e.measure(t, s)

			// then
			require.Positive(t, r.Ticks)
		})
	}
}

// An entry is one line of the output.
type entry struct {
	contestant string
	server     serverKind
	locks      bool // one for each job
	daemons    int  // more than one: they share the jobs
}

func (e entry) name() string {
	name := e.contestant
	if e.server != "" {
		name += "+" + string(e.server)
	}
	if e.daemons > 1 {
		name += fmt.Sprintf("+%d-daemons", e.daemons)
	}
	if e.locks {
		name += "+locks"
	}
	return name
}

func (e entry) enter(b *testing.B, s settings) {
	b.Helper()
	r := e.measure(b, s)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.percent(r.CPU), "cpu-%")
	b.ReportMetric(r.percent(r.Server), "server-cpu-%")
	b.ReportMetric(r.perJob(r.Heap), "B/job")
	b.ReportMetric(r.perJob(r.RSS), "rss-B/job")
	if s.Period == 0 {
		return
	}
	b.ReportMetric(float64(r.Ticks)/r.Window.Seconds(), "ticks/s")
	b.ReportMetric(float64(r.Skipped), "skipped")
	b.ReportMetric(float64(r.Late[0].Microseconds())/1e3, "late-p50-ms")
	b.ReportMetric(float64(r.Late[1].Microseconds())/1e3, "late-p99-ms")
	b.ReportMetric(float64(r.Late[2].Microseconds())/1e3, "late-max-ms")
	if r.Writes > 0 {
		b.ReportMetric(r.perTick(r.Writes), "writes/tick")
	}
	b.ReportMetric(r.perTick(r.Mallocs), "allocs/tick")
	b.ReportMetric(r.perTick(r.Bytes), "B/tick")
}

// measure runs the contestant in a process of its own, beside a server of its
// own.
func (e entry) measure(t testing.TB, s settings) result {
	t.Helper()
	s.Contestant, s.Locks = e.contestant, e.locks
	var server server
	if e.server != "" {
		server = e.server.start(t)
		s.Server, s.ServerPID = server.addr, server.pid
	}
	if e.daemons > 1 {
		s.Daemons = e.daemons
		return runDaemons(t, s, server)
	}
	return runChild(t, s)
}
