package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// Clock writes a time of the servers.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Short writes a time for a column of times: without the day if that is
// today's, without the year if it is near.
func Short(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	const near = 300 * 24 * time.Hour
	switch distance := t.Sub(now).Abs(); {
	case distance > near:
		return t.Format("2006-01-02 15:04")
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format("15:04:05")
	}
	return t.Format("01-02 15:04:05")
}

// Relative says how far a time is from now.
func Relative(t, now time.Time) string {
	if t.After(now) {
		return "in " + Human(t.Sub(now))
	}
	return Human(now.Sub(t)) + " ago"
}

// Human writes a duration in its two largest units: 850ms, 6m12s, 3h5m, 4d2h.
func Human(d time.Duration) string {
	if d < time.Second {
		return max(d, 0).Round(time.Millisecond).String()
	}
	return words.Units(d, "")
}

// Earlier compares times; none comes last.
func Earlier(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(*b)
}
