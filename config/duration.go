package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// units are the words people write for the units that durations have.
var units = map[string]struct {
	unit   string
	factor int // of unit
}{
	"ms": {"ms", 1}, "msec": {"ms", 1}, "msecs": {"ms", 1}, "millis": {"ms", 1}, "millisecond": {"ms", 1},
	"milliseconds": {"ms", 1},
	"s":            {"s", 1}, "sec": {"s", 1}, "secs": {"s", 1}, "second": {"s", 1}, "seconds": {"s", 1}, "": {"s", 1},
	"m": {"m", 1}, "min": {"m", 1}, "mins": {"m", 1}, "minute": {"m", 1}, "minutes": {"m", 1},
	"h": {"h", 1}, "hr": {"h", 1}, "hrs": {"h", 1}, "hour": {"h", 1}, "hours": {"h", 1},
	"d": {"h", 24}, "day": {"h", 24}, "days": {"h", 24},
	"w": {"h", 7 * 24}, "week": {"h", 7 * 24}, "weeks": {"h", 7 * 24},
}

// parseDuration reads a duration as Go writes it, for example 30s or 1h30m.
// When it cannot, what and instead say why.
func parseDuration(text string) (d time.Duration, what, instead string) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, "", ""
	}
	instead = `write it like "30s", "5m" or "1h30m"`
	if meant := meantDuration(text); meant != "" {
		instead = fmt.Sprintf("write %q", meant)
	}
	return 0, quote(text) + " is not a duration", instead
}

// meantDuration guesses what "30 seconds", "1d" or "30" stands for; "" when
// there is nothing to guess.
func meantDuration(text string) string {
	var b strings.Builder
	rest := strings.ToLower(strings.TrimSpace(text))
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		if err != nil {
			return ""
		}
		rest = strings.TrimLeft(rest[digits:], " _-")
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit, known := units[rest[:letters]]
		if !known || letters == 0 && (b.Len() > 0 || rest != "") {
			return ""
		}
		fmt.Fprintf(&b, "%d%s", n*unit.factor, unit.unit)
		rest = strings.TrimLeft(rest[letters:], " ,_-")
	}
	if _, err := time.ParseDuration(b.String()); err != nil {
		return ""
	}
	return b.String()
}
