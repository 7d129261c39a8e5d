package peers

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// report collects what the benchmarks have measured.
var report table

type table struct {
	mu                     sync.Mutex
	uncontended, contended []line
	latencies              []latency
}

type line struct {
	name string
	figures
}

func (t *table) add(to *[]line, l line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*to = append(*to, l)
}

func (t *table) print(to io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer out.Flush()
	if len(t.uncontended) > 0 {
		fmt.Fprintln(out, "\nfor each lock, alone\tevents of the caller\tof others\tsignals\tworkflow tasks\tbytes of history\tadded time\tof the activity lock's")
	}
	ours := added(t.uncontended, "activity lock")
	for _, l := range t.uncontended {
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%s\t%.1f\n", l.name, l.each(l.Caller), l.each(l.Others), l.each(l.Signals),
			l.each(l.Tasks), l.each(l.Bytes), short(l.added()), float64(l.added())/float64(max(1, ours)))
	}
	if len(t.contended) > 0 {
		fmt.Fprintln(out, "\nfor each lock, 10 workflows x 10 locks\tevents of the caller\tof others\tsignals\tworkflow tasks\tlongest history\tfailed tries\ttime per lock")
	}
	for _, l := range t.contended {
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%s\n", l.name, l.each(l.Caller), l.each(l.Others), l.each(l.Signals),
			l.each(l.Tasks), l.Longest, l.Failed, short(l.perLock()))
	}
	if len(t.latencies) > 0 {
		fmt.Fprintln(out, "\nrequest to cancelled context\tHeartbeatTimeout\tsamples\tp50\tp99\tmax")
	}
	for _, l := range t.latencies {
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%s\t%s\n", l.name, l.heartbeat, len(l.samples), short(l.percentile(50)), short(l.percentile(99)), short(l.percentile(100)))
	}
}

func added(lines []line, name string) time.Duration {
	for _, l := range lines {
		if l.name == name {
			return l.added()
		}
	}
	return 0
}

// added is the time that a lock adds to the work. What it adds to an attempt is
// measured there: in the whole it would drown.
func (l line) added() time.Duration {
	if len(l.around) > 0 {
		return median(l.around)
	}
	return l.perLock()
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
