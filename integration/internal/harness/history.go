package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// logLines is how many lines of a log are printed at most: the last ones.
const logLines = 200

// History is what happened in a test, in order and with the time since its start. It is printed when the test
// fails. Its methods may be called from any goroutine.
type History struct {
	start time.Time
	mu    sync.Mutex
	lines []string
}

// NewHistory returns an empty history that is printed at the end of t if t has failed by then.
func NewHistory(t testing.TB) *History {
	l := &History{start: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what happened:\n%s", l)
		}
	})
	return l
}

// Add writes a line about who.
func (l *History) Add(who, format string, args ...any) {
	line := fmt.Sprintf("%9.3fs %-12s %s", time.Since(l.start).Seconds(), who, fmt.Sprintf(format, args...))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// String returns the last lines.
func (l *History) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-logLines):], "\n")
}
