package daemons

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for something that has to happen.
const patience = 60 * time.Second

// A mark is one thing that happened in a daemon. Children write marks as JSON.
type mark struct {
	At      time.Time `json:"at"`
	Daemon  string    `json:"daemon"`
	Job     string    `json:"job"`
	Instant time.Time `json:"instant"`
	What    string    `json:"what"`
	Detail  string    `json:"detail,omitempty"`
}

// What marks say.
const (
	began      = "began"
	ended      = "ended"
	cancelled  = "cancelled" // the context of the work has ended; detail: its cause
	cleaningUp = "cleaning up"
	cleanedUp  = "cleaned up"
	skipped    = "skipped" // detail: why
)

func (m mark) String() string {
	return fmt.Sprintf("%s  %-9s %-8s %s  %s %s", m.At.Format("15:04:05.000"), m.Daemon, m.Job, m.Instant.Format("15:04:05"), m.What, m.Detail)
}

// A chronicle is what happened in all daemons of a test.
type chronicle struct {
	t       *testing.T
	mu      sync.Mutex
	marks   []mark
	changed chan struct{} // closed with the next mark
}

func newChronicle(t *testing.T) *chronicle {
	t.Helper()
	c := &chronicle{t: t, changed: make(chan struct{})}
	t.Cleanup(func() {
		if t.Failed() {
			c.print()
		}
	})
	return c
}

func (c *chronicle) add(m mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks = append(c.marks, m)
	close(c.changed)
	c.changed = make(chan struct{})
}

// all returns what has happened so far.
func (c *chronicle) all() []mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.marks)
}

// await waits until something holds of what has happened.
func (c *chronicle) await(what string, holds func([]mark) bool) {
	c.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		reached, changed := holds(c.marks), c.changed
		c.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			require.FailNow(c.t, "it did not come to this in "+patience.String()+": "+what)
		}
	}
}

// first waits for the first mark of a kind, and returns it.
func (c *chronicle) first(daemon, job, what string) mark {
	c.t.Helper()
	return c.next(time.Time{}, daemon, job, what)
}

// next waits for the first mark of a kind after a moment, and returns it.
func (c *chronicle) next(after time.Time, daemon, job, what string) mark {
	c.t.Helper()
	var found mark
	c.await(fmt.Sprintf("%s of %s in %s", what, job, daemon), func(marks []mark) bool {
		i := slices.IndexFunc(marks, func(m mark) bool {
			return m.Daemon == daemon && m.Job == job && m.What == what && m.At.After(after)
		})
		if i >= 0 {
			found = marks[i]
		}
		return i >= 0
	})
	return found
}

// where returns the marks of a kind.
func where(marks []mark, is func(mark) bool) []mark {
	return slices.DeleteFunc(slices.Clone(marks), func(m mark) bool { return !is(m) })
}

// print shows the end of the chronicle.
func (c *chronicle) print() {
	const most = 200
	marks := c.all()
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	var b strings.Builder
	for _, m := range marks[max(0, len(marks)-most):] {
		fmt.Fprintln(&b, m)
	}
	c.t.Logf("end of the chronicle (%d marks):\n%s", len(marks), b.String())
}

// A logbook keeps what a daemon logs, as text, one record a line.
type logbook struct {
	t       *testing.T
	name    string
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

var _ io.Writer = (*logbook)(nil)

func newLogbook(t *testing.T, name string) *logbook {
	t.Helper()
	l := &logbook{t: t, name: name, changed: make(chan struct{})}
	t.Cleanup(func() {
		if t.Failed() {
			lines := strings.Split(l.String(), "\n")
			t.Logf("end of the log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-100):], "\n"))
		}
	})
	return l
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// len returns how much has been logged, as a place to look from.
func (l *logbook) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Len()
}

// await waits for a line that has all the given parts, from a place on.
func (l *logbook) await(from int, parts ...string) string {
	l.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		text, changed := l.text.String()[from:], l.changed
		l.mu.Unlock()
		if line, ok := find(text, parts); ok {
			return line
		}
		select {
		case <-changed:
		case <-deadline.C:
			require.FailNow(l.t, fmt.Sprintf("%s has not logged %q in %s", l.name, parts, patience))
		}
	}
}

// lines returns the lines that have all the given parts.
func (l *logbook) lines(parts ...string) []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if _, ok := find(line, parts); ok {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func find(text string, parts []string) (string, bool) {
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return strings.TrimSpace(line), true
		}
	}
	return "", false
}
