package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// moment is the value of a flag that names a point in time. What has no zone is
// UTC, like all times that the program writes: the zones of operators differ.
type moment struct {
	text string
	bad  string
}

func (v *moment) Set(s string) error {
	*v = moment{text: s}
	if _, ok := readMoment(s, time.Now()); !ok {
		v.bad = fmt.Sprintf("%q is not a time; write 15:04, 2006-01-02 15:04 (both are UTC) or 2006-01-02T15:04:05+01:00", s)
	}
	return nil
}

func (v *moment) String() string  { return v.text }
func (v *moment) Type() string    { return "time" }
func (v *moment) problem() string { return v.bad }
func (v *moment) given() bool     { return v.text != "" }

// after returns the time; one without a date is the first such after now.
func (v *moment) after(now time.Time) time.Time {
	t, _ := readMoment(v.text, now)
	return t
}

// before returns the time; one without a date is the last such before now.
func (v *moment) before(now time.Time) time.Time { return v.after(now.AddDate(0, 0, -1)) }

// or returns the time, or what holds without the flag.
func (v *moment) or(without time.Time) time.Time {
	if v.given() && v.bad == "" {
		return v.after(without)
	}
	return without
}

func readMoment(s string, now time.Time) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if t, err := time.Parse(time.RFC3339, strings.Replace(s, " ", "T", 1)); err == nil {
		return t, true
	}
	s = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(s, "Z"), "UTC"))
	for _, layout := range []string{
		"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			now = now.UTC()
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			if !at.After(now) {
				at = at.AddDate(0, 0, 1)
			}
			return at, true
		}
	}
	return time.Time{}, false
}

// short writes a time for a column of times: without the day if that is
// today's, without the year if it is near.
func short(t, now time.Time) string { return live.Short(t, now) }

// relative says how far a time is from now.
func relative(t, now time.Time) string { return live.Relative(t, now) }

// clock writes a time of the servers.
func clock(t time.Time) string { return live.Clock(t) }

// both writes a time for people: 2026-11-21 14:00:00 UTC, in 2h.
func both(t, now time.Time) string { return clock(t) + ", " + relative(t, now) }

// when writes a time: 12:11:02, in 40s.
func when(t, now time.Time) string { return short(t, now) + ", " + relative(t, now) }

// human writes a duration in its two largest units: 850ms, 6m12s, 3h5m, 4d2h.
func human(d time.Duration) string { return live.Human(d) }
