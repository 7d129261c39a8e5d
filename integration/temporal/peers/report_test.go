package peers

import (
	"fmt"
	"io"
	"time"
)

// A line is what the locks of one contestant have cost.
type line struct {
	name string
	figures
}

func uncontended(out io.Writer, lines []line) {
	fmt.Fprintln(out, "for each lock, alone\tevents of the caller\tof others\tsignals\tworkflow tasks\tbytes of history\tadded time, median of the rounds\tquartiles\tin an attempt, by the worker\tquartiles")
	for _, l := range lines {
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%s\t%s, %s\t%s\t%s, %s\n", l.name, l.each(l.Caller), l.each(l.Others), l.each(l.Signals),
			l.each(l.Tasks), l.each(l.Bytes), short(median(l.rounds)), short(share(l.rounds, 25)), short(share(l.rounds, 75)),
			short(median(l.around)), short(share(l.around, 25)), short(share(l.around, 75)))
	}
}

func contended(out io.Writer, lines []line) {
	fmt.Fprintln(out, "for each lock, 10 workflows x 10 locks\tevents of the caller\tof others\tsignals\tworkflow tasks\tlongest history\tfailed tries\ttime per lock")
	for _, l := range lines {
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%s\n", l.name, l.each(l.Caller), l.each(l.Others), l.each(l.Signals),
			l.each(l.Tasks), l.Longest, l.Failed, short(l.perLock()))
	}
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
