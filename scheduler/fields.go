package scheduler

import (
	"math/bits"
	"time"
)

// next returns the first matching second that is not before from. Both are
// seconds on a clock whose days all have 24 hours. The library's own search
// goes from hour to hour, and gives up after five years.
func (c cronSpec) next(from int64) (int64, bool) {
	today := from / day
	if from%day < 0 {
		today--
	}
	if second, ok := c.timeOfDay(int(from - today*day)); ok && c.isDue(dateOf(today)) {
		return today*day + int64(second), true
	}
	second, ok := c.timeOfDay(0)
	if !ok {
		return 0, false
	}
	for n := today + 1; n <= today+longestWait; {
		date := dateOf(n)
		switch {
		case !has(c.Month, int(date.month)):
			n += int64(date.left) + 1
		case !c.isDue(date):
			n++
		default:
			return n*day + int64(second), true
		}
	}
	return 0, false
}

// longestWait is how many days there can be between two dates of a spec: 29
// February is at most eight years away.
const longestWait = 9 * 366

// A date is a day of the calendar.
type date struct {
	month   time.Month
	day     int
	weekday int
	left    int // days that are left of the month
}

// dateOf returns the date of the n-th day since the epoch.
func dateOf(n int64) date {
	y, m, d := time.Unix(n*day, 0).UTC().Date()
	return date{month: m, day: d, weekday: int(((n+4)%7 + 7) % 7), left: daysIn(m, y) - d}
}

func daysIn(m time.Month, year int) int {
	switch m {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	default:
		return 31
	}
}

func (c cronSpec) isDue(d date) bool {
	if !has(c.Month, int(d.month)) {
		return false
	}
	dated, named := has(c.Dom, d.day), has(c.Dow, d.weekday)
	if c.eitherDay() {
		return dated || named
	}
	return dated && named
}

// eitherDay reports whether one of the day fields is enough: both leave days out,
// so neither has a *, a ? or a */1. Vixie's cron wants both fields for a */2.
func (c cronSpec) eitherDay() bool { return c.Dom&starBit == 0 && c.Dow&starBit == 0 }

// timeOfDay returns the first matching second of a day that is not before from.
func (c cronSpec) timeOfDay(from int) (second int, ok bool) {
	h, m, s := from/3600, from/60%60, from%60
	if has(c.Hour, h) {
		if has(c.Minute, m) {
			if next, ok := bitFrom(c.Second, s, 59); ok {
				return h*3600 + m*60 + next, true
			}
		}
		if next, ok := bitFrom(c.Minute, m+1, 59); ok {
			first, ok := bitFrom(c.Second, 0, 59)
			return h*3600 + next*60 + first, ok
		}
	}
	if next, ok := bitFrom(c.Hour, h+1, 23); ok {
		minute, some := bitFrom(c.Minute, 0, 59)
		first, ok := bitFrom(c.Second, 0, 59)
		return next*3600 + minute*60 + first, ok && some
	}
	return 0, false
}

func has(field uint64, value int) bool { return field&(1<<uint(value)) != 0 }

// bitFrom returns the first value of a field from one on, up to the last.
func bitFrom(field uint64, value, last int) (int, bool) {
	if value > last {
		return 0, false
	}
	value += bits.TrailingZeros64(field &^ starBit >> uint(value))
	return value, value <= last
}

// never reports whether no date of any year matches.
func (c cronSpec) never() bool {
	everyDay := c.eitherDay() && c.Dow != 0 // either field is enough
	dated := false
	for month := time.January; month <= time.December; month++ {
		if c.Month&(1<<uint(month)) == 0 {
			continue
		}
		longest := daysIn(month, 2000) // a leap year
		for day := 1; day <= longest; day++ {
			dated = dated || c.Dom&(1<<uint(day)) != 0
		}
	}
	return !dated && !everyDay
}
