package scheduler

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// A day has a field for each part of a spec: its values as bits, none for *.
type fuzzSpec struct {
	minutes                   uint64
	hours, days, months, week uint64
}

// list writes a field: the values one by one, or stretches of them as ranges.
func list(set uint64, low, high int, ranges bool) string {
	if set == 0 {
		return "*"
	}
	var parts []string
	for v := low; v <= high; v++ {
		if set&(1<<v) == 0 {
			continue
		}
		end := v
		for ranges && end < high && set&(1<<(end+1)) != 0 {
			end++
		}
		if end > v {
			parts = append(parts, fmt.Sprintf("%d-%d", v, end))
		} else {
			parts = append(parts, strconv.Itoa(v))
		}
		v = end
	}
	return strings.Join(parts, ",")
}

func (s fuzzSpec) due(t time.Time) bool {
	in := func(set uint64, v int) bool { return set == 0 || set&(1<<v) != 0 }
	day, week := in(s.days, t.Day()), in(s.week, int(t.Weekday()))
	if s.days != 0 && s.week != 0 {
		day = s.days&(1<<t.Day()) != 0 || s.week&(1<<int(t.Weekday())) != 0
		week = day
	}
	return in(s.minutes, t.Minute()) && in(s.hours, t.Hour()) && day && week && in(s.months, int(t.Month()))
}

// next walks: day by day, hour by hour, minute by minute.
func (s fuzzSpec) next(after time.Time, last time.Time) time.Time {
	daily := fuzzSpec{days: s.days, months: s.months, week: s.week}
	for t := after.Truncate(time.Minute).Add(time.Minute); t.Before(last); {
		switch {
		case !daily.due(t):
			t = t.Truncate(24 * time.Hour).Add(24 * time.Hour)
		case s.due(t):
			return t
		default:
			t = t.Add(time.Minute)
		}
	}
	return time.Time{}
}

// What five fields mean, against a walk through the calendar that knows nothing
// of specs.
func FuzzFields(f *testing.F) {
	f.Add(uint64(1), uint32(1), uint32(1<<29), uint16(1<<2), uint8(0), int64(1767225600), true)
	f.Add(uint64(0), uint32(0), uint32(0), uint16(0), uint8(0), int64(1767225600), false)
	f.Add(uint64(0x8000000000000001), uint32(0xf0), uint32(1<<31|2), uint16(0x1ffe), uint8(0x41), int64(951782400), true)
	f.Add(uint64(1<<59), uint32(1<<23), uint32(1<<31), uint16(1<<4), uint8(0), int64(0), true)
	f.Add(uint64(1<<30), uint32(6), uint32(1<<13), uint16(0), uint8(1<<5), int64(1772928000), false)
	f.Fuzz(func(t *testing.T, minutes uint64, hours, days uint32, months uint16, week uint8, unix int64, ranges bool) {
		s := fuzzSpec{
			minutes: minutes & (1<<60 - 1), hours: uint64(hours) & (1<<24 - 1), days: uint64(days) & (1<<32 - 2),
			months: uint64(months) & (1<<13 - 2), week: uint64(week) & (1<<7 - 1),
		}
		spec := strings.Join([]string{list(s.minutes, 0, 59, ranges), list(s.hours, 0, 23, ranges), list(s.days, 1, 31, ranges), list(s.months, 1, 12, ranges), list(s.week, 0, 6, ranges)}, " ")
		const century = 100 * 366 * 24 * 3600
		after := time.Unix(unix%century, 0).UTC()
		end := after.AddDate(9, 0, 0) // a leap day comes every eight years at least
		schedule, err := Parse(spec, "")
		if err != nil {
			require.ErrorAs(t, err, new(*SpecError))
			require.Zero(t, s.next(after, end), "%s: %v", spec, err)
			return
		}
		for range 4 {
			due := schedule.Next(after)
			require.True(t, due.After(after), "%s: %s is not after %s", spec, due, after)
			require.Equal(t, s.next(after, end), due, "%s after %s", spec, after)
			after = due
			end = after.AddDate(9, 0, 0)
		}
	})
}

// @every: the only multiples of the period, shifted by the phase, whatever came
// before.
func FuzzEvery(f *testing.F) {
	f.Add(int64(3600), int64(900), int64(1767225600), "backup")
	f.Add(int64(1), int64(0), int64(-1), "")
	f.Add(int64(7), int64(6), int64(0), "x")
	f.Fuzz(func(t *testing.T, period, phase, unix int64, name string) {
		const century = 100 * 366 * 24 * 3600
		period, unix = 1+int64(uint64(period)%century), unix%century
		phase = int64(uint64(phase) % uint64(period))
		after := time.Unix(unix, 5)
		for _, spec := range []string{fmt.Sprintf("@every %ds/%ds", period, phase), fmt.Sprintf("@every %ds/H", period)} {
			s, err := ParseJob(jobs.Job{Name: name, Schedule: spec})
			if err != nil { // H without a name
				require.ErrorAs(t, err, new(*SpecError))
				require.Empty(t, name)
				continue
			}
			due := s.Next(after)
			require.True(t, due.After(after), spec)
			require.LessOrEqual(t, due.Sub(after), time.Duration(period)*time.Second, spec)
			require.Equal(t, due.Add(time.Duration(period)*time.Second), s.Next(due), spec)
			if !strings.HasSuffix(spec, "H") {
				require.Zero(t, (due.Unix()-phase)%period, "%s: %s", spec, due)
			}
		}
	})
}

// A number that follows from a name is in its range, and always the same.
func FuzzHashed(f *testing.F) {
	f.Add("backup", uint8(0), uint8(59), uint8(7))
	f.Add("", uint8(3), uint8(3), uint8(1))
	f.Fuzz(func(t *testing.T, name string, low, high, step uint8) {
		low, high = low%60, high%60
		low, high = min(low, high), max(low, high)
		step = 1 + step%60
		for _, field := range []string{"H", fmt.Sprintf("H(%d-%d)", low, high), fmt.Sprintf("H/%d", step), fmt.Sprintf("H(%d-%d)/%d", low, high, step)} {
			job := jobs.Job{Name: name, Schedule: field + " * * * *"}
			s, err := ParseJob(job)
			if err != nil {
				require.ErrorAs(t, err, new(*SpecError))
				continue
			}
			again, err := ParseJob(job)
			require.NoError(t, err)
			var minutes uint64
			at := time.Date(2026, 11, 22, 11, 59, 59, 0, time.UTC)
			for due := s.Next(at); due.Hour() == 12; due = s.Next(due) {
				require.True(t, due.Equal(again.Next(due.Add(-time.Second))))
				minutes |= 1 << due.Minute()
			}
			require.NotZero(t, minutes, field)
			if strings.Contains(field, "(") {
				require.GreaterOrEqual(t, bits.TrailingZeros64(minutes), int(low), field)
				require.LessOrEqual(t, 63-bits.LeadingZeros64(minutes), int(high), field)
			}
			if !strings.Contains(field, "/") {
				require.Equal(t, 1, bits.OnesCount64(minutes), field)
			}
		}
	})
}
