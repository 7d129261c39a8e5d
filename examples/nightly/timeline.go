package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// width is how many columns everything fits into.
const width = 98

// settling is how long a step waits for earlier ones of other daemons.
const settling = 200 * time.Millisecond

// A timeline prints the steps of all daemons in the order in which they
// happened: their clocks are one, the machine's.
type timeline struct {
	out     io.Writer
	paint   palette
	start   time.Time
	pending []step
	steps   []step // printed
	holder  string // the run that has the lock, as far as printed
}

// follow prints steps until the channel is closed.
func (t *timeline) follow(steps <-chan step) {
	ticker := time.NewTicker(settling / 2)
	defer ticker.Stop()
	for {
		select {
		case s, ok := <-steps:
			if !ok {
				t.flush(time.Now().Add(time.Hour))
				return
			}
			t.pending = append(t.pending, s)
		case now := <-ticker.C:
			t.flush(now.Add(-settling))
		}
	}
}

// flush prints what happened before the given time.
func (t *timeline) flush(before time.Time) {
	slices.SortStableFunc(t.pending, func(a, b step) int { return a.At.Compare(b.At) })
	for len(t.pending) > 0 && t.pending[0].At.Before(before) {
		if t.pending[0].Kind == holding {
			t.finishHolder()
		}
		t.print(t.pending[0])
		t.pending = t.pending[1:]
	}
}

// finishHolder prints the end of the run that had the lock before. A release
// counts from when ZooKeeper has confirmed it, and the next holder may be the
// first to hear of that.
func (t *timeline) finishHolder() {
	end := slices.IndexFunc(t.pending, func(s step) bool { return s.Run == t.holder && s.Kind.ends() })
	if end < 0 {
		return
	}
	others := t.pending[:0:0]
	for i, s := range t.pending {
		if i <= end && s.Run == t.holder {
			t.print(s)
		} else {
			others = append(others, s)
		}
	}
	t.pending = others
}

func (t *timeline) print(s step) {
	if s.Kind == holding {
		t.holder = s.Run
	}
	t.steps = append(t.steps, s)
	_, _ = fmt.Fprintln(t.out, t.line(s))
}

func (t *timeline) line(s step) string {
	look := s.Kind.look()
	room := width - 36
	text := fmt.Sprintf("%6.1fs  %s  %-8s %s %s",
		s.At.Sub(t.start).Seconds(), s.Daemon, s.Job,
		t.paint.paint(look.style, fmt.Sprintf("%s %-11s", look.sign, s.Kind)),
		shorten(s.Text, room))
	return strings.TrimRight(text, " ")
}

func shorten(text string, room int) string {
	if runes := []rune(text); len(runes) > room {
		return string(runes[:room-1]) + "…"
	}
	return text
}
