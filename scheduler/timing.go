package scheduler

import (
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// A Timing is a schedule taken apart, for another scheduler that is to do the same.
type Timing struct {
	// Calendars say when it is due on the clock of Zone: when one of them does.
	// None: it goes by Every.
	Calendars []Calendar

	// Every: it is due when the Unix time is a multiple of this, and Phase later.
	// 0: it goes by Calendars.
	Every, Phase time.Duration

	// MadeUp: a time of Calendars is left out when the clocks of Zone go forward, in
	// the next years, and it is due then all the same (jobs.GapRunAfter).
	MadeUp bool

	// Manual: it is never due.
	Manual bool

	// Repeated: a time of Calendars comes twice when the clocks of Zone go back, in
	// the next years, or just before that, by no more than they go back.
	Repeated bool

	// Zone is the name of the time zone of Calendars.
	Zone string
}

// A Calendar is due when each field has one of its numbers. DayOfWeek counts from
// 0, Sunday.
type Calendar struct{ Second, Minute, Hour, DayOfMonth, Month, DayOfWeek []int }

// TimingOf takes the schedule of a job apart. H is a number there, that of the job.
// The errors are those of ParseJob.
func TimingOf(job jobs.Job) (Timing, error) {
	s, err := ParseJob(job)
	if err != nil {
		return Timing{}, err
	}
	switch s := s.(type) {
	case interval:
		return Timing{Every: time.Duration(s.seconds) * time.Second, Phase: time.Duration(s.phase) * time.Second}, nil
	case civil:
		return s.timing(), nil
	}
	return Timing{Manual: true}, nil
}

func (s civil) timing() Timing {
	t := Timing{Zone: s.loc.String()}
	skipped, repeated := s.changes()
	t.MadeUp, t.Repeated = skipped && s.makesUpForGap(), repeated
	c := Calendar{
		Second: numbers(s.eval.Second, 0, 59), Minute: numbers(s.eval.Minute, 0, 59), Hour: numbers(s.eval.Hour, 0, 23),
		DayOfMonth: numbers(s.eval.Dom, 1, 31), Month: numbers(s.eval.Month, 1, 12), DayOfWeek: numbers(s.eval.Dow, 0, 6),
	}
	if !s.eval.eitherDay() {
		t.Calendars = []Calendar{c}
		return t
	}
	named := c // either day field is enough
	c.DayOfWeek, named.DayOfMonth = numbers(^uint64(0), 0, 6), numbers(^uint64(0), 1, 31)
	t.Calendars = []Calendar{c, named}
	return t
}

// changes reports whether clocks that are going to change leave times out, or show
// some twice.
func (s civil) changes() (skipped, repeated bool) {
	const most = 60 // some decades
	st := stretchAt(time.Now().Unix(), s.loc)
	for range most {
		if st.forever {
			break
		}
		st = stretchAt(st.end, s.loc)
		shows := func(from, length int64) bool { // on the wall
			at, ok := s.eval.next(from)
			return ok && at < from+length
		}
		skipped = skipped || st.skipped > 0 && shows(st.start+st.before, st.skipped)
		repeated = repeated || st.repeated > 0 && shows(st.start+st.offset-st.repeated, 2*st.repeated)
	}
	return skipped, repeated
}

// numbers are those whose bits are set.
func numbers(field uint64, low, high int) []int {
	var all []int
	for n := low; n <= high; n++ {
		if has(field, n) {
			all = append(all, n)
		}
	}
	return all
}
