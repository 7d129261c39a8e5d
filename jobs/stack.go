package jobs

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
)

// Labels of the goroutines of a run, also of those that its work starts. A
// profile tells them apart by these.
const (
	LabelJob = "lockkeeper_job" // the name of the job
	LabelRun = "lockkeeper_run" // Run.Attempt
)

// MaxStack bounds what StackOf returns: 64 KiB.
const MaxStack = 64 << 10

// labelled calls f in goroutines that StackOf finds.
func labelled(ctx context.Context, run Run, f func(context.Context)) {
	pprof.Do(ctx, pprof.Labels(LabelJob, run.Job, LabelRun, run.Attempt), f)
}

// StackOf returns where the goroutines of a run are, given its Run.Attempt: of
// Work that a Job has bound, and of its hooks, with all goroutines that they
// have started and that still are there. Stacks that are alike come once, with
// their number, the most frequent first; of the text at most MaxStack bytes,
// with a last line that says what is left out. It is "" if there are none.
//
// All goroutines of the process stand still for a moment, the longer the more
// there are: it is for a run that does not end, not for every run.
func StackOf(run string) string {
	if run == "" {
		return ""
	}
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return "" // a buffer takes all
	}
	var out strings.Builder
	omitted := 0
	// Names are quoted: a name that looks like a label is no label.
	label := strconv.Quote(LabelRun) + ":" + strconv.Quote(run)
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		text, ok := stackText(stack, label)
		switch {
		case !ok:
		case omitted > 0 || out.Len()+len(text) > MaxStack-len(omittedText(1<<30)):
			omitted++
		default:
			out.WriteString(text)
		}
	}
	if omitted > 0 {
		out.WriteString(omittedText(omitted))
	}
	return out.String()
}

func omittedText(n int) string { return fmt.Sprintf("and %d more stacks\n", n) }

// stackText rewrites one record of a profile if it has the label. The record
// is made of lines: "2 @ addresses", "# labels: {…}", and for each call
// "#\taddress\tfunction+offset\tfile:line".
func stackText(record, label string) (text string, ok bool) {
	var out strings.Builder
	for line := range strings.Lines(record) {
		line = strings.TrimSuffix(line, "\n")
		if count, _, is := strings.Cut(line, " @ "); is {
			fmt.Fprintf(&out, "%s in\n", goroutines(count))
			continue
		}
		if labels, is := strings.CutPrefix(line, "# labels: "); is {
			ok = strings.Contains(labels, label)
			continue
		}
		if call := strings.FieldsFunc(line, func(c rune) bool { return c == '\t' }); len(call) == 4 && call[0] == "#" {
			function := call[2][:max(0, strings.LastIndexByte(call[2], '+'))]
			fmt.Fprintf(&out, "\t%s\n\t\t%s\n", function, call[3])
		}
	}
	return out.String(), ok
}

func goroutines(count string) string {
	if count == "1" {
		return "1 goroutine"
	}
	return count + " goroutines"
}
