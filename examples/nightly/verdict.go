package nightly

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/jobs"
)

// explain says what is to be seen.
func explain(out *printer, all []jobs.Job, daemons []string, unsafe bool) {
	about := map[string]string{
		"backup":  "copies all files into a tar file",
		"compact": "rewrites all files in place, slowly",
		"hotfix":  "corrects prices; takes the lock by force if need be",
	}
	out.printf("  Three jobs work on the orders of a shop, which are plain files. Any two of\n" +
		"  them at once would spoil something, so all need the same lock, shop/orders.\n\n")
	for _, job := range all {
		out.printf("  %s  priority %d  %s\n",
			out.paint(bold, fmt.Sprintf("%-8s", job.Name)), job.Requirements[0].Priority, about[job.Name])
	}
	out.printf("\n")
	if unsafe {
		out.printf("  %s\n\n", out.paint(red, "They run WITHOUT their locks now."))
		return
	}
	out.printf("  %s\n\n", fold(fmt.Sprintf("The daemons %s have one schedule, and each tick of it runs once. "+
		"To begin with, compact is run by hand, and hotfix %s later. The token grows with each grant "+
		"of the lock: the files refuse a writer with an older one.",
		strings.Join(daemons, " and "), seconds(opening)), width-2, 2))
}

// judge shows what has happened, and reads all data again.
func judge(out *printer, set *orders.Set, line *timeline, daemons []string, unsafe bool) (orders.Report, error) {
	end := time.Now()
	start := line.begin
	if end.Sub(start) > shown {
		start = end.Add(-shown)
	}
	out.printf("\n")
	if len(line.past.runs) > 0 {
		out.printf("%s\n", chart(line.past.runs, start, end, unsafe, out.palette))
		out.printf("%s\n", table(line.past.tallies, daemons, out.palette))
	}
	if !unsafe && line.past.helpless() > 0 {
		switch files, err := set.Settle(); {
		case err != nil:
			return orders.Report{}, err
		case files > 0:
			out.printf("  A job had no time to clean up. %s put back, as the next job would\n  have done.\n\n",
				count(files, "file"))
		}
	}
	report, err := set.Verify()
	if err == nil {
		verdict(out, report, &line.past, unsafe)
	}
	return report, err
}

// verdict says whether anything is corrupted.
func verdict(out *printer, r orders.Report, past *history, unsafe bool) {
	out.printf("  Everything was read again: %d orders worth %d.%02d in generation %d,\n  %s replayed, %s unpacked: ",
		r.Orders, r.Cents/100, r.Cents%100, r.Generation, count(r.Corrections, "correction"), count(r.Backups, "backup"))
	if !r.Sound() {
		out.printf("%s\n", out.paint(red, "CORRUPTED"))
		const most = 8
		for i, problem := range r.Problems {
			if i == most {
				out.printf("    %s and %d more\n", out.paint(red, "✗"), len(r.Problems)-most)
				break
			}
			out.printf("    %s %s\n", out.paint(red, "✗"), fold(problem, width-6, 6))
		}
		if unsafe {
			out.printf("\n  That is what the lock is for. Run it again without --unsafe.\n")
		}
		out.printf("\n")
		return
	}
	if past.worked() == 0 {
		out.printf("%s\n\n", out.paint(yellow, "as it was made, for no job has run"))
		return
	}
	out.printf("%s\n", out.paint(green, "nothing is corrupted"))
	cleanups := past.cleanups()
	switch {
	case unsafe:
		out.printf("  Without locks that was luck. Let it run for longer.\n")
	case cleanups == 0:
		out.printf("  No job was preempted and has cleaned up: let it run for longer.\n")
	default:
		out.printf("  %s a job was preempted, cleaned up and handed its lock over.\n", count(cleanups, "time"))
		out.printf("  --unsafe shows what becomes of the same jobs without their locks.\n")
	}
	out.printf("\n")
}
