package main

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// policyView is one policy of a job: its key in the file and what it means.
type policyView struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// policies says in plain words what a job does in which case. What has no
// effect, such as the retries of a job without any, is said only where its
// absence would surprise.
func policies(job jobs.Job) []policyView {
	job = job.WithDefaults()
	all := make([]policyView, 0, 12)
	say := func(name, format string, args ...any) {
		all = append(all, policyView{Name: name, Text: fmt.Sprintf(format, args...)})
	}

	timed := !isManual(job.Schedule)
	if timed {
		say("overlap", "%s", overlapWords(job.Overlap))
		say("misfire", "%s", misfireWords(job.Misfire))
		if namesHours(job) {
			say("dst", "%s", dstWords(job.DST))
		}
		if job.Jitter > 0 {
			say("jitter", "each tick starts up to %s later, always the same for a tick; it stays the tick of its instant",
				human(job.Jitter))
		}
		for _, b := range job.Blackouts {
			say("blackout", "%s", blackoutWords(b, job))
		}
	}
	if job.Timeout > 0 {
		say("timeout", "an attempt that works for %s is cancelled; waiting for locks does not count", human(job.Timeout))
	} else {
		say("timeout", "none: an attempt may work for ever")
	}
	if r := job.Retry; r.Max > 0 {
		say("retry", "a failed run is tried again up to %s, after %s, then twice as long each time, at most %s; "+
			"without the locks meanwhile", times(r.Max), human(r.Initial), human(r.MaxInterval))
	} else {
		say("retry", "none: a run that fails has failed")
	}
	if len(job.Requirements) > 0 {
		if p := job.OnPreempt; p.Then == jobs.PreemptedRequeue {
			say("on_preempt",
				"a preempted run waits for its locks again and begins anew; after its %s no priority ends it any more",
				ordinal(p.MaxPreemptions))
		} else {
			say("on_preempt", "a preempted run is over")
		}
	}
	if job.HoldAtLeast > 0 {
		say("hold_at_least", "the locks are kept for %s at least, unless somebody preempts", human(job.HoldAtLeast))
	}
	if n := job.PauseAfterFailures; n > 0 {
		until := "until somebody resumes it"
		if job.PauseFor > 0 {
			until = fmt.Sprintf("for %s; then one run is tried", human(job.PauseFor))
		}
		say("pause_after_failures",
			"after %s in a row it is paused in the whole cluster %s", words.Count(n, "failure"), until)
	}
	say("stuck_after", "work that goes on %s after it was told to end is reported as stuck", human(job.StuckAfter))
	return all
}

func isManual(spec string) bool { return cmp.Or(strings.TrimSpace(spec), "manual") == "manual" }

// namesHours reports whether clock changes matter to a schedule.
func namesHours(job jobs.Job) bool {
	spec := strings.TrimSpace(job.Schedule)
	zone := cmp.Or(job.TimeZone, "UTC")
	if scheduler.HasZone(spec) {
		var prefix string
		prefix, spec, _ = strings.Cut(spec, " ")
		_, zone, _ = strings.Cut(prefix, "=")
		spec = strings.TrimSpace(spec)
	}
	if zone == "UTC" || strings.HasPrefix(spec, "@every") || spec == "@hourly" {
		return false
	}
	fields := strings.Fields(spec)
	if n := len(fields); n >= 5 { // a star goes by elapsed time
		return !strings.Contains(fields[n-5], "*") && !strings.Contains(fields[n-4], "*")
	}
	return true
}

func overlapWords(o jobs.Overlap) string {
	const due = "a tick that comes due while a run goes on "
	switch o.Policy {
	case jobs.OverlapBufferOne:
		return due + "waits for its end; those after it are skipped"
	case jobs.OverlapBufferAll:
		return due + fmt.Sprintf("waits for its end, up to %d do; those after them are skipped", o.Max)
	case jobs.OverlapCancelOther:
		return due + "cancels it, and runs when it has ended"
	case jobs.OverlapAllowAll:
		return due + fmt.Sprintf("runs beside it, up to %d at once; those after them are skipped", o.Max)
	case jobs.OverlapSkip:
	}
	return due + "is skipped"
}

func misfireWords(m jobs.Misfire) string {
	const missed = "of the ticks that were due while no daemon ran "
	switch m.Policy {
	case jobs.MisfireSkip:
		return missed + "none is made up for"
	case jobs.MisfireAll:
		return missed + fmt.Sprintf("those of the last %s run, in order, the newest %d at most", human(m.Window), m.Max)
	case jobs.MisfireOnce:
	}
	return missed + fmt.Sprintf("the newest one runs, if it is not older than %s", human(m.Window))
}

func dstWords(d jobs.DST) string {
	gap := "runs later by the length of the gap"
	if d.Gap == jobs.GapSkip {
		gap = "is left out"
	}
	fold := "runs the first time only"
	if d.Overlap == jobs.FoldBoth {
		fold = "runs both times"
	}
	return fmt.Sprintf("what is due in an hour that the clocks leave out %s; in one that comes twice it %s", gap, fold)
}

func blackoutWords(b jobs.Blackout, job jobs.Job) string {
	text := fmt.Sprintf("no tick runs for %s from each %s",
		human(b.For), zoned(b.Schedule, cmp.Or(b.TimeZone, job.TimeZone)))
	if b.Reason != "" {
		text += ": " + b.Reason
	}
	return text
}

// zoned writes a schedule with its time zone.
func zoned(spec, zone string) string {
	spec = strings.TrimSpace(spec)
	if isManual(spec) {
		return "manual"
	}
	if zone == "" || scheduler.HasZone(spec) || strings.HasPrefix(spec, "@every") {
		return spec
	}
	return spec + " " + zone
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// ordinal writes the number of a preemption.
func ordinal(n int) string {
	suffix := "th"
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprintf("%d%s preemption", n, suffix)
}

// workWords says what a job runs.
func workWords(work jobs.Work) string {
	switch w := work.(type) {
	case *jobs.Command:
		return commandLine(w.Argv)
	case *jobs.HTTP:
		return cmp.Or(w.Method, "POST") + " " + withoutSecrets(w.URL)
	case fmt.Stringer:
		return w.String()
	case interface{ Unwrap() jobs.Work }:
		text := workWords(w.Unwrap())
		if _, ok := work.(jobs.Cleaner); ok {
			text += "; with a cleanup"
		}
		return text
	}
	return "a Go function"
}

// withoutSecrets leaves out of a URL what may be a password or a key.
func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL"
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}

// commandLine writes a command as one would in a shell.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'$`\\*?[]{}()<>|&;#~!") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
