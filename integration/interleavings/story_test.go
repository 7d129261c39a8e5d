package interleavings

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A story is what happened, printed when a test fails.
type story struct {
	start time.Time

	mu    sync.Mutex
	lines []string
}

func (s *story) tell(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%+9.3fs %-9s %s", time.Since(s.start).Seconds(), who, fmt.Sprintf(format, args...)))
}

func (s *story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lastLines(s.lines, 200)
}

func lastLines(lines []string, n int) string {
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
