package config

import (
	"fmt"
	"strconv"
	"strings"
)

// sizes are the units of sizes; the longest ones first.
var sizes = []struct {
	unit  string
	bytes int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"B", 1},
	{"", 1},
}

// largestSize bounds what a job keeps in memory for a run.
const largestSize = 1 << 30

// aSize is a number of bytes.
var aSize = of[int]{kind: kind{what: "size", scalar: ofSize}, read: func(r *reader, v value) (int, bool) {
	return r.size(v)
}}

// size reads a number of bytes, for example 64KiB; at least one.
func (d *decoder) size(v value) (int, bool) {
	const instead = "write a size such as 64KiB"
	s, ok := d.scalar(v, instead)
	if !ok {
		return 0, false
	}
	digits := s.text[:len(s.text)-len(strings.TrimLeft(s.text, "0123456789"))]
	n, err := strconv.ParseInt(digits, 10, 64)
	unit := strings.TrimSpace(s.text[len(digits):])
	for _, known := range sizes {
		if err != nil || unit != known.unit {
			continue
		}
		switch {
		case n < 1:
			d.problem(v, s.quoted()+" is nothing", "write a size such as 64KiB, or leave it out")
		case n > largestSize/known.bytes:
			d.problem(v, s.quoted()+" is too much", fmt.Sprintf("write %dMiB or less", largestSize>>20))
		default:
			return int(n * known.bytes), true
		}
		return 0, false
	}
	d.problem(v, s.quoted()+" is not a size", instead)
	return 0, false
}
