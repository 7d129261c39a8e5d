package words

import (
	"fmt"
	"strings"
	"time"
)

// Duration writes 10m where Go writes 10m0s. time.ParseDuration reads both.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Units writes a duration in its two largest units, down to seconds, with space
// between them: 6m12s, 3h5m, 4d2h.
func Units(d time.Duration, space string) string {
	const day = 24 * time.Hour
	large, small, units := time.Minute, time.Second, [2]string{"m", "s"}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d >= day:
		large, small, units = day, time.Hour, [2]string{"d", "h"}
	case d >= time.Hour:
		large, small, units = time.Hour, time.Minute, [2]string{"h", "m"}
	}
	text := fmt.Sprintf("%d%s", d/large, units[0])
	if rest := d % large / small; rest != 0 {
		text += fmt.Sprintf("%s%d%s", space, rest, units[1])
	}
	return text
}
