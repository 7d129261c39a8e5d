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
		fmt.Fprintln(out, "\nfor each lock, alone\tevents of the caller\tof others\tsignals\tworkflow tasks\tbytes of history\tadded time, median of the rounds\tquartiles\tlowest\thighest\tattempt, by the server\tof it the lock, by the worker\tquartiles")
	}
	for _, l := range t.uncontended {
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%s\t%s, %s\t%s\t%s\t%s\t%s\t%s, %s\n", l.name, l.each(l.Caller), l.each(l.Others), l.each(l.Signals),
			l.each(l.Tasks), l.each(l.Bytes), short(median(l.rounds)), short(share(l.rounds, 25)), short(share(l.rounds, 75)), short(share(l.rounds, 0)), short(share(l.rounds, 100)),
			short(median(l.attempt)), short(median(l.around)), short(share(l.around, 25)), short(share(l.around, 75)))
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

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
