package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
)

// Advice is about a schedule that works, but perhaps not as it was meant.
type Advice struct {
	Field   string // of the job, as in the configuration
	What    string // what is surprising about it
	Instead string // what to write instead
}

// Advise returns what may be surprising about the schedule of a job, its
// jitter and its blackouts; nothing for a job whose schedule is an error. It
// looks two years ahead from now. A policy of DST that is set says that somebody
// knows about the days when the clocks change, so call it before
// jobs.Job.WithDefaults.
func Advise(job jobs.Job) []Advice { return advise(job, time.Now()) }

func advise(job jobs.Job, now time.Time) []Advice {
	schedule, err := ParseJob(job)
	if err != nil {
		return nil
	}
	a := &adviser{job: job, now: now}
	_, rest, _ := cutZone(strings.TrimSpace(job.Schedule))
	switch s := schedule.(type) {
	case manual:
		a.say("schedule", "nothing starts this job by itself", "write a schedule, unless it is run by hand or by a program")
		return a.all
	case interval:
		a.drift(s)
	case civil:
		if fields := strings.Fields(rest); len(fields) >= 5 {
			a.fields(fields, s.eval)
		}
		a.clockChanges(s)
	}
	a.jitter(schedule)
	a.blackouts(schedule)
	return a.all
}

type adviser struct {
	job jobs.Job
	now time.Time
	all []Advice
}

func (a *adviser) say(field, what, instead string) {
	a.all = append(a.all, Advice{Field: field, What: what, Instead: instead})
}

// --- the fields ---------------------------------------------------------------

func (a *adviser) fields(fields []string, eval cronSpec) {
	n := len(fields)
	if n == 6 && slices.Contains([]string{"*", "?", "*/1", "?/1"}, fields[0]) {
		a.say("schedule", fmt.Sprintf("six fields begin with the second, and %s is every second", fields[0]),
			"write 0 in front for once a minute, or five fields")
	}
	days, weekdays := fields[n-3], fields[n-1]
	either := eval.eitherDay()
	if either {
		a.say("schedule",
			fmt.Sprintf("day of month (%s) and day of week (%s) are both set: it runs when either matches", days, weekdays),
			"write * for one of them")
	}
	for i, f := range cronFields[len(cronFields)-n:] {
		for item := range strings.SplitSeq(fields[i], ",") {
			a.unevenStep(item, f)
		}
	}
	if !either {
		a.monthsLeftOut(days, eval)
	}
}

// unevenStep is about steps that begin anew before the last one is over.
func (a *adviser) unevenStep(item string, f field) {
	base, step, _ := strings.Cut(item, "/")
	n, err := strconv.Atoi(step)
	if err != nil || n == 1 || !isStar(base) && base != hashedWord {
		return
	}
	switch size := f.high - f.low + 1; {
	case f.name == dayOfMonth:
		a.say("schedule", fmt.Sprintf("day of month: %s begins anew with each month, "+
			"so that the last step of a month is shorter or longer than %d days", item, n),
			fmt.Sprintf("write @every %dh for each %d days, or list the days", 24*n, n))
	case f.name == dayOfWeek && 7%n != 0:
		a.say("schedule", fmt.Sprintf(
			"day of week: %s begins anew with each Sunday, so that the last step of a week is not %d days", item, n),
			"list the days")
	case f.name != dayOfWeek && size%n != 0:
		a.say("schedule", fmt.Sprintf("%s: %d does not divide %d, so that the last step of %s is %d instead of %d",
			f.name, n, size, item, size%n, n),
			"write a step that divides "+strconv.Itoa(size)+periodFor(f.name, n))
	}
}

// periodFor says how to write n units of a field as a period.
func periodFor(field string, n int) string {
	unit, ok := map[string]string{"second": "s", "minute": "m", "hour": "h"}[field]
	if !ok {
		return ""
	}
	return fmt.Sprintf(", or @every %d%s", n, unit)
}

// monthsLeftOut is about months in which the job is meant to run but has no
// day.
func (a *adviser) monthsLeftOut(days string, eval cronSpec) {
	var without []string
	for m := time.January; m <= time.December; m++ {
		if !has(eval.Month, int(m)) {
			continue
		}
		if first, ok := bitFrom(eval.Dom, 1, 31); !ok || first > daysIn(m, 2001) {
			without = append(without, m.String()[:3])
		}
	}
	switch {
	case len(without) == 0:
	case slices.Equal(without, []string{"Feb"}) && has(eval.Dom, 29):
		a.say("schedule", fmt.Sprintf("day of month (%s): February has it only in leap years", days),
			"write 28 or less, or 1 for the day after")
	default:
		a.say("schedule",
			fmt.Sprintf("day of month (%s): not due in %s, which have no such day", days, strings.Join(without, ", ")),
			"write 28 or less, or 1 for the day after")
	}
}

// drift is about periods that go round the day.
func (a *adviser) drift(s interval) {
	if s.seconds < 60 || day%s.seconds == 0 || s.seconds%day == 0 {
		return
	}
	period := time.Duration(s.seconds) * time.Second
	a.say("schedule",
		fmt.Sprintf("@every %s does not divide a day: it is due at other times each day", words.Duration(period)),
		"write a period that divides 24h, or five cron fields")
}

// --- the days when the clocks change --------------------------------------------

const clockHorizon = 2 * 365 * day

func (a *adviser) clockChanges(s civil) {
	gap, fold := a.job.DST.Gap == "", a.job.DST.Overlap == ""
	from := a.now.Unix()
	end := from + clockHorizon
	for st := stretchAt(from, s.loc); !st.forever && st.end < end && (gap || fold); {
		st = stretchAt(st.end, s.loc)
		if gap && a.inGap(s, st) {
			gap = false
		}
		if fold && a.inFold(s, st) {
			fold = false
		}
	}
}

func (a *adviser) inGap(s civil, st stretch) bool {
	late, ok := s.match(st.start, st.before)
	if !ok || late >= st.start+st.skipped || s.elapsed && has(s.eval.Hour, hourOf(st.start+st.offset)) {
		return false // a spec that goes by elapsed time goes on after the gap
	}
	what := fmt.Sprintf("%s does not come in %s, where the clocks then go forward: ", wall(late, st.before), s.loc)
	if s.elapsed {
		a.say("schedule", what+"not due then, as with any * in the hour or minute field",
			"write an hour that comes every day, or the time zone UTC")
	} else {
		a.say("schedule",
			what+fmt.Sprintf("due at %s instead (dst.gap: %s)", wallBeside(late, st.offset, st.before), jobs.GapRunAfter),
			"set dst.gap to say that this is meant, or write an hour that comes every day, or the time zone UTC")
	}
	return true
}

func (a *adviser) inFold(s civil, st stretch) bool {
	again, ok := s.match(st.start, st.offset)
	if !ok || again >= st.start+st.repeated || s.elapsed && has(s.eval.Hour, hourOf(st.start+st.offset+st.repeated)) {
		return false
	}
	what := fmt.Sprintf("%s comes twice in %s, where the clocks then go back: ", wall(again, st.offset), s.loc)
	if s.elapsed {
		a.say("schedule", what+"due both times, as with any * in the hour or minute field",
			"write an hour that comes once every day, or the time zone UTC")
	} else {
		a.say("schedule", what+fmt.Sprintf("due the first time only (dst.overlap: %s)", jobs.FoldFirst),
			"set dst.overlap to say that this is meant, or write an hour that comes once every day, or the time zone UTC")
	}
	return true
}

// wall returns what a clock with an offset shows.
func wall(unix, offset int64) string {
	at := time.Unix(unix+offset, 0).UTC()
	if at.Second() != 0 {
		return at.Format("2006-01-02 15:04:05")
	}
	return at.Format("2006-01-02 15:04")
}

// wallBeside leaves out the date if a clock with another offset shows the same.
func wallBeside(unix, offset, other int64) string {
	text := wall(unix, offset)
	if date, clock, _ := strings.Cut(text, " "); strings.HasPrefix(wall(unix, other), date) {
		return clock
	}
	return text
}

func hourOf(wall int64) int { return time.Unix(wall, 0).UTC().Hour() }

// --- jitter and blackouts -------------------------------------------------------

// enoughTicks is how many ticks tell how a schedule goes on.
const enoughTicks = 100

func (a *adviser) jitter(s Schedule) {
	if a.job.Jitter <= 0 {
		return
	}
	at := s.Next(a.now)
	for range enoughTicks {
		next := s.Next(at)
		if next.IsZero() {
			return
		}
		if apart := next.Sub(at); apart <= a.job.Jitter {
			a.say("jitter", fmt.Sprintf(
				"jitter (%s) is not shorter than the time between two ticks (%s): ticks may wait for the jitter of the one before",
				words.Duration(a.job.Jitter), words.Duration(apart)), "write less than "+words.Duration(apart))
			return
		}
		at = next
	}
}

// blackoutHorizon is how far ahead some tick has to be outside of the
// blackouts; maxWindows bounds how many of them are looked at.
const (
	blackoutHorizon = 365 * 24 * time.Hour
	maxWindows      = 1000
)

func (a *adviser) blackouts(s Schedule) {
	all, err := ParseBlackouts(a.job)
	if err != nil || len(all.windows) == 0 {
		return
	}
	at := s.Next(a.now)
	for range maxWindows {
		w, end := all.cover(at)
		switch {
		case at.IsZero() || w == nil:
			return
		case at.Sub(a.now) > blackoutHorizon:
			a.say("blackout",
				"blackouts cover every tick of the next year: the job never runs", "shorten them, or pause the job instead")
			return
		}
		at = s.Next(end.Add(-1)) // those inside are covered
	}
	a.say("blackout", fmt.Sprintf("blackouts cover every tick until %s at least", at.Format("2006-01-02 15:04")),
		"shorten them, or pause the job instead")
}
