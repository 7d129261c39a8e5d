package daemons

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

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
	cancelled  = "cancelled" // the context of the work has ended; detail: its cause
	cleaningUp = "cleaning up"
	cleanedUp  = "cleaned up"
)

func (m mark) String() string {
	return fmt.Sprintf("%s  %-9s %-8s %s  %s %s", m.At.Format("15:04:05.000"), m.Daemon, m.Job, m.Instant.Format("15:04:05"), m.What, m.Detail)
}

// A chronicle is what happened in all daemons of a test.
type chronicle struct {
	t     *testing.T
	mu    sync.Mutex
	marks []mark
}

func newChronicle(t *testing.T) *chronicle {
	t.Helper()
	c := &chronicle{t: t}
	t.Cleanup(func() {
		if t.Failed() {
			marks := c.all()
			t.Logf("end of the chronicle (%d marks):\n%v", len(marks), marks[max(0, len(marks)-200):])
		}
	})
	return c
}

func (c *chronicle) add(m mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks = append(c.marks, m)
}

// all returns what has happened so far.
func (c *chronicle) all() []mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.marks)
}

// next waits for the first mark of a kind after a moment, and returns it.
func (c *chronicle) next(after time.Time, job, what string) (found mark) {
	c.t.Helper()
	harness.Eventually(c.t, func() bool {
		marks := c.all()
		i := slices.IndexFunc(marks, func(m mark) bool { return m.Job == job && m.What == what && m.At.After(after) })
		if i >= 0 {
			found = marks[i]
		}
		return i >= 0
	}, "%s has %s", job, what)
	return found
}

// first waits for the first mark of a kind, and returns it.
func (c *chronicle) first(job, what string) mark {
	c.t.Helper()
	return c.next(time.Time{}, job, what)
}

// count returns how many marks of a kind there are.
func (c *chronicle) count(what string) (n int) {
	for _, m := range c.all() {
		if m.What == what {
			n++
		}
	}
	return n
}

// A logbook keeps what a daemon logs, as text, one record a line.
type logbook struct {
	harness.Output
	t *testing.T
}

func newLogbook(t *testing.T, name string) *logbook {
	t.Helper()
	l := &logbook{t: t}
	t.Cleanup(func() {
		if t.Failed() {
			lines := strings.Split(l.String(), "\n")
			t.Logf("end of the log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-100):], "\n"))
		}
	})
	return l
}

// lines returns the lines that have all the given parts, behind those that are skipped.
func (l *logbook) lines(skip int, parts ...string) (found []string) {
	for line := range strings.Lines(l.String()[skip:]) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			found = append(found, line)
		}
	}
	return found
}

// await waits for a line that has all the given parts, from a place on.
func (l *logbook) await(from int, parts ...string) {
	l.t.Helper()
	harness.Eventually(l.t, func() bool { return len(l.lines(from, parts...)) > 0 }, "%q is logged", parts)
}
