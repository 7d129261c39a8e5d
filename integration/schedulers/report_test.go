package schedulers

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// report collects what the benchmarks have measured.
var report table

type table struct {
	mu    sync.Mutex
	rest  []line
	ticks []line
}

type line struct {
	entry
	result
}

func (t *table) add(e entry, s settings, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Period == 0 {
		t.rest = append(t.rest, line{e, r})
	} else {
		t.ticks = append(t.ticks, line{e, r})
	}
}

func (t *table) print(to io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer out.Flush()
	if len(t.rest) > 0 {
		fmt.Fprintf(out, "\n%d jobs at rest\tonce per tick\tcpu %%\theap+stacks/job\trss/job\tserver cpu %%\tmachine short of cores %%\n", *crowd)
	}
	for _, l := range t.rest {
		fmt.Fprintf(out, "%s\t%s\t%.2f\t%.1f KiB\t%.1f KiB\t%s\t%.0f\n", l.name(), l.once(), l.percent(l.CPU),
			l.perJob(l.Heap)/1024, l.perJob(l.RSS)/1024, l.serverLoad(), l.shortage())
	}
	if len(t.ticks) > 0 {
		fmt.Fprintf(out, "\n%d jobs, each every %s\tonce per tick\tticks/s\tskipped\tlate p50\tp99\tmax\tcpu %%\tserver cpu %%\twrites/tick\tallocs/tick\tKiB/tick\theap+stacks/job\trss/job\tmachine short of cores %%\n", *crowd, period)
	}
	for _, l := range t.ticks {
		fmt.Fprintf(out, "%s\t%s\t%.0f\t%d\t%s\t%s\t%s\t%.1f\t%s\t%s\t%.0f\t%.1f\t%.1f KiB\t%.1f KiB\t%.0f\n", l.name(), l.once(),
			float64(l.Ticks)/l.Window.Seconds(), l.Skipped, short(l.Late[0]), short(l.Late[1]), short(l.Late[2]),
			l.percent(l.CPU), l.serverLoad(), l.writes(), l.perTick(l.Mallocs), l.perTick(l.Bytes)/1024,
			l.perJob(l.Heap)/1024, l.perJob(l.RSS)/1024, l.shortage())
	}
}

// once says whether a tick runs once in the cluster.
func (l line) once() string {
	if l.server == "" {
		return "no"
	}
	return "yes"
}

func (l line) serverLoad() string {
	if l.server == "" {
		return "-"
	}
	return fmt.Sprintf("%.1f", l.percent(l.Server))
}

// writes are those of the server for each tick.
func (l line) writes() string {
	if l.Writes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", l.perTick(l.Writes))
}

// shortage is how much of the time somebody on the machine, perhaps the
// contestant, had to wait for a processor: where that is much, lateness says
// more about the machine.
func (l line) shortage() float64 { return 100 * l.Pressure.Seconds() / cmp.Or(l.Total, 1).Seconds() }

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
