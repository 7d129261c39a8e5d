package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// An Occurrence is a tick of a job that is still to come.
type Occurrence struct {
	// Blackout is the window that the tick falls into, so that it will be
	// skipped; nil: none.
	Blackout *jobs.Blackout

	// Instant is that of the schedule, in its time zone; Instant.UTC is the
	// name of the tick.
	Instant time.Time

	// Notes tell, for people, what the clocks have to do with the tick, and
	// which time before it is left out.
	Notes []string

	// StartsAt is when a daemon decides the tick: Instant and its jitter.
	StartsAt time.Time
}

// Occurrences returns the next n ticks of a job after an instant, fewer if
// there are no more. The errors are those of ParseJob and ParseBlackouts.
func Occurrences(job jobs.Job, after time.Time, n int) ([]Occurrence, error) {
	schedule, err := ParseJob(job)
	if err != nil {
		return nil, err
	}
	blackouts, err := ParseBlackouts(job)
	if err != nil {
		return nil, err
	}
	loc, err := location(zoneOf(job), false)
	if err != nil {
		return nil, err
	}
	var all []Occurrence
	var free time.Time // the tick before is decided
	for at := schedule.Next(after); len(all) < n && !at.IsZero(); at = schedule.Next(at) {
		o := Occurrence{Instant: at.In(loc), StartsAt: at.Add(jitterOf(job.Name, at, job.Jitter)).In(loc)}
		if o.StartsAt.Before(free) {
			o.StartsAt = free
		}
		free = o.StartsAt
		if s, ok := schedule.(civil); ok {
			o.Notes = s.notes(after, at)
		}
		if b, covered := blackouts.Cover(at); covered {
			o.Blackout = &b
		}
		all = append(all, o)
		after = at
	}
	return all, nil
}

// notes tells what changes of the clocks between the tick before and this one
// have to do with it.
func (s civil) notes(before, instant time.Time) []string {
	var notes []string
	at := instant.Unix()
	here := stretchAt(at, s.loc)
	for st := stretchAt(before.Unix(), s.loc); !st.forever && st.end <= at; {
		st = stretchAt(st.end, s.loc)
		if left, ok := s.leftOut(st); ok {
			notes = append(notes, fmt.Sprintf("clocks go forward at %s: nothing at %s", wall(st.start, st.before), left))
		}
	}
	if here.skipped > 0 && at < here.start+here.skipped && s.makesUpForGap() {
		late, _ := s.match(at, here.before)
		regular, _ := s.match(at, here.offset)
		if late == at && regular != at {
			notes = append(notes, fmt.Sprintf("clocks go forward at %s: moved from %s",
				clock(wall(here.start, here.before)), wallBeside(at, here.before, here.offset)))
		}
	}
	return append(notes, s.foldNote(at, here)...)
}

// leftOut returns the first time of the spec in the gap at the start of a
// stretch, if it is not made up for.
func (s civil) leftOut(st stretch) (string, bool) {
	if st.skipped == 0 || s.makesUpForGap() {
		return "", false
	}
	late, ok := s.match(st.start, st.before)
	return clock(wall(late, st.before)), ok && late < st.start+st.skipped
}

// foldNote tells which one of two times on the wall an instant is.
func (s civil) foldNote(at int64, here stretch) []string {
	if here.repeated > 0 && at < here.start+here.repeated {
		return []string{fmt.Sprintf("clocks go back: the second of two %s", clock(wall(at, here.offset)))}
	}
	if here.forever {
		return nil
	}
	next := stretchAt(here.end, s.loc)
	if next.repeated == 0 || at < here.end-next.repeated {
		return nil
	}
	note := fmt.Sprintf("clocks go back: the first of two %s", clock(wall(at, here.offset)))
	if s.leavesOutRepeated() {
		note += ", nothing at the second"
	}
	return []string{note}
}

// clock is the time of day alone.
func clock(wall string) string {
	_, text, _ := strings.Cut(wall, " ")
	return text
}
