package robust

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/verdict"
)

// A Report is what came of a run, or of several.
type Report struct {
	Seeds    []uint64
	Runs     int
	Clients  int
	Duration time.Duration
	Drained  time.Duration // how long everything took to end
	Faults   []nemesis.Fault

	Margin, Noise time.Duration // what holders are promised, and what of it the machine may take
	LeastDuring   string        // the fault of the least margin that was seen

	Absent map[nemesis.Kind]string // kinds that cannot be made here, and why
	Notes  []string

	Figures     verdict.Figures
	Violations  []verdict.Violation
	Slow        time.Duration       // for how long a server was slow, all told, of whatever cause
	Lapses      []Lapse             // of the servers: they lost acknowledged writes
	Differ      []string            // locks that had a node at one server and none at another, as the servers say
	Undermined  []verdict.Violation // found after a lapse; or at these locks, if no overlap of holders is reported
	Unknown     []string
	Unavailable map[nemesis.Kind]time.Duration
}

func (r *Report) take(v verdict.Verdict, events []history.Event) {
	r.Figures, r.Unknown = v.Figures, v.Unknown
	r.LeastDuring = during(r.Figures.Least, r.Faults)
	born := make(map[string]time.Duration)
	for _, e := range events {
		if _, known := born[e.Scope]; !known && e.Kind == history.Invoked {
			born[e.Scope] = e.At
		}
	}
	r.Violations, r.Undermined = undermined(append(r.Violations, v.Violations...), r.Lapses, r.Differ, born)
	r.Unavailable = unavailable(r.Faults, events)
}

// undermined separates violations that may be due to servers that forgot what they had acknowledged, or that disagree
// about a lock, from those that cannot: they came before, or it is another lock, or one that was unused by then.
func undermined(
	violations []verdict.Violation, lapses []Lapse, differ []string, born map[string]time.Duration,
) (ours, theirs []verdict.Violation) {
	for _, v := range violations {
		if isOfProgress(v.Check) &&
			(slices.Contains(differ, v.Scope) || v.Check == verdict.CheckEnd && v.Scope == "" && len(differ) > 0) {
			theirs = append(theirs, v)
			continue
		}
		late := slices.ContainsFunc(lapses, func(l Lapse) bool {
			return (v.At == 0 || v.At >= l.Since) && born[v.Scope] <= l.Seen
		})
		if late && v.Check != verdict.CheckProcess && v.Check != verdict.CheckFence {
			theirs = append(theirs, v)
		} else {
			ours = append(ours, v)
		}
	}
	return ours, theirs
}

// isOfProgress reports whether a check asks that something is done, in time and in order, and not whether two hold.
func isOfProgress(check string) bool {
	switch check {
	case verdict.CheckTurn, verdict.CheckAnswer, verdict.CheckEvicted, verdict.CheckRight, verdict.CheckEnd:
		return true
	}
	return false
}

// during returns the fault that was under way when the holder was told of its loss:
// one of its client, else of the servers, else any; "" when there was none.
func during(g *verdict.Gap, faults []nemesis.Fault) string {
	if g == nil {
		return ""
	}
	name, _, _ := strings.Cut(g.Client, ".")
	best, text := 0, ""
	for _, f := range faults {
		if f.Began > g.Told || f.Ended != 0 && f.Ended < g.Told {
			continue
		}
		rank := 1
		switch {
		case slices.Contains(f.Clients, name):
			rank = 3
		case f.OfServers():
			rank = 2
		}
		if rank >= best {
			best, text = rank, f.String()
		}
	}
	return text
}

// unavailable returns for each kind of fault for how long no lock was acquired at
// all, at most: from the beginning of such a fault, or from a grant during it, to
// the next grant.
func unavailable(faults []nemesis.Fault, events []history.Event) map[nemesis.Kind]time.Duration {
	var grants []time.Duration
	for _, e := range events {
		if e.Kind == history.Granted {
			grants = append(grants, e.At)
		}
	}
	longest := make(map[nemesis.Kind]time.Duration)
	for _, f := range faults {
		last := f.Began
		i, _ := slices.BinarySearch(grants, f.Began)
		for ; i < len(grants) && last <= f.Ended; i++ {
			longest[f.Kind] = max(longest[f.Kind], grants[i]-last)
			last = grants[i]
		}
	}
	return longest
}

// Write writes the report as text.
func (r *Report) Write(out io.Writer) error {
	var b strings.Builder
	r.writeFigures(&b)
	r.writeOverlaps(&b)
	r.writeFaults(&b)
	r.writeNotes(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Report) writeFigures(b *strings.Builder) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-22s"+format+"\n", append([]any{name}, args...)...)
	}
	f := &r.Figures
	line("seeds", "%s", strings.Trim(fmt.Sprint(r.Seeds), "[]"))
	line("faults", "%d in %s, in %d runs", len(r.Faults), r.Duration.Round(time.Second), r.Runs)
	line("everything ended", "%s after the last fault, at the latest", r.Drained.Round(100*time.Millisecond))
	line("processes",
		"%d at a time, %d in all; %d times one was starved by the machine", r.Clients, f.Processes, f.Stalls)
	line("slow servers", "%s", r.Slow.Round(100*time.Millisecond))
	line("requests", "%d, of which %d failed as asked for (timeouts, tries, given up)", f.Requests, f.Failed)
	line("grants", "%d (%d shared, %d through lockguard, %d downgraded) of %d locks",
		f.Grants, f.Shared, f.Guarded, f.Downgrades, f.Scopes)
	line("preempted", "%d, taken over %d", f.Asked, f.Takeovers)
	line("losses told", "%s", counts(f.Losses))
	line("ends of holds", "%s", counts(f.Ends))
	line("excused", "%s", counts(f.Excused))
	line("resource",
		"%d writes accepted, %d reads; of those who had lost %d writes refused, %d accepted (no newer holder had written)",
		f.Writes, f.Reads, f.RefusedLate, f.AcceptedLate)
	line("least margin", "%s", r.least())
	line("VIOLATIONS", "%d", len(r.Violations))
	if len(r.Lapses) > 0 {
		line("ZooKeeper lost data", "%d times it forgot acknowledged writes", len(r.Lapses))
	} else {
		line("ZooKeeper lost data", "never")
	}
	if len(r.Differ) > 0 {
		line("servers differ",
			"about a node of %s; violations there that are no two holders are not counted", strings.Join(r.Differ, ", "))
	}
	if len(r.Undermined) > 0 {
		line("not counted", "%d violations, for what the servers did", len(r.Undermined))
	}
	line("unknown verdicts", "%d of %d", len(r.Unknown), f.Scopes)
}

// writeOverlaps writes how long holds went on beside the next one.
func (r *Report) writeOverlaps(b *strings.Builder) {
	b.WriteString(
		"\nend of a hold, as its holder was told, after the next conflicting grant (ms; negative: told before)\n")
	fmt.Fprintf(b, "  %-42s %8s %10s %10s %10s %10s\n", "how it ended", "count", "median", "p99", "p99.9", "max")
	for _, how := range slices.Sorted(maps.Keys(r.Figures.Overlaps)) {
		s := r.Figures.Overlaps[how]
		ms := func(p float64) string { return fmt.Sprintf("%.1f", float64(s.Percentile(p))/float64(time.Millisecond)) }
		fmt.Fprintf(b, "  %-42s %8d %10s %10s %10s %10s\n", how, s.Count(), ms(50), ms(99), ms(99.9), ms(100))
	}
}

func (r *Report) writeFaults(b *strings.Builder) {
	b.WriteString(
		"\nfaults, and for how long no lock was acquired at all from the beginning of one of the kind, at most\n")
	kinds, failed := make(map[nemesis.Kind]int), make(map[nemesis.Kind]int)
	for _, fault := range r.Faults {
		kinds[fault.Kind]++
		if fault.Err != "" {
			failed[fault.Kind]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		note := ""
		if n := failed[kind]; n > 0 {
			note = fmt.Sprintf("   (%d could not be made)", n)
		}
		fmt.Fprintf(b, "  %-20s %6d %10.1fs%s\n", kind, kinds[kind], r.Unavailable[kind].Seconds(), note)
	}
}

// writeNotes writes what is to be known about the figures, and then all violations.
func (r *Report) writeNotes(b *strings.Builder) {
	for _, kind := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(b, "  %-20s cannot be made here: %s\n", kind, r.Absent[kind])
	}
	for _, note := range r.Notes {
		fmt.Fprintf(b, "  note: %s\n", note)
	}
	for _, l := range r.Lapses {
		fmt.Fprintf(b, "  note: %s\n", l)
	}
	for _, v := range r.Undermined {
		b.WriteString("\nnot counted, for what the servers did: " + v.String())
	}
	for _, v := range r.Violations {
		b.WriteString("\n" + v.String())
	}
}

// least tells what was left of the margin, at the least, and in which fault.
func (r *Report) least() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond)) }
	promised := fmt.Sprintf("%s are promised, of which the machine may take %s", ms(r.Margin), ms(r.Noise))
	g := r.Figures.Least
	if g == nil {
		return "none was seen; " + promised
	}
	return fmt.Sprintf("%s, of %d; %s\n%-22s%s was told, then %s was granted %q, during %s",
		ms(g.Length), r.Figures.Margins.Count(), promised, "", g.Who, g.Next, g.Scope, cmp.Or(r.LeastDuring, "no fault"))
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(k, "open"), m[k]))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// Checks returns which checks have found something, and how often.
func (r *Report) Checks() string {
	found := make(map[string]int)
	for _, v := range r.Violations {
		found[v.Check]++
	}
	return counts(found)
}

// Merge adds another report to this one.
func (r *Report) Merge(o *Report) {
	r.Runs += o.Runs
	r.Clients = max(r.Clients, o.Clients)
	r.Duration += o.Duration
	r.Slow += o.Slow
	r.Drained = max(r.Drained, o.Drained)
	r.Seeds = append(r.Seeds, o.Seeds...)
	r.Faults = append(r.Faults, o.Faults...)
	r.Violations = append(r.Violations, o.Violations...)
	r.Lapses = append(r.Lapses, o.Lapses...)
	r.Differ = append(r.Differ, o.Differ...)
	r.Undermined = append(r.Undermined, o.Undermined...)
	r.Unknown = append(r.Unknown, o.Unknown...)
	r.Margin, r.Noise = max(r.Margin, o.Margin), max(r.Noise, o.Noise)
	if least := r.Figures.Least; o.Figures.Least != nil && (least == nil || o.Figures.Least.Length < least.Length) {
		r.LeastDuring = o.LeastDuring
	}
	r.Figures.Merge(o.Figures)
	r.Absent = o.Absent
	for _, note := range o.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
	if r.Unavailable == nil {
		r.Unavailable = make(map[nemesis.Kind]time.Duration)
	}
	for kind, d := range o.Unavailable {
		r.Unavailable[kind] = max(r.Unavailable[kind], d)
	}
}
