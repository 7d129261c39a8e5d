package jobs

import "sync"

// DefaultTail is how much a Tail keeps by default: 64 KiB.
const DefaultTail = 64 << 10

// Tail keeps the end of what is written to it. Its memory is bounded, it takes
// all there is and it never blocks, so that a chatty command neither fills the
// memory nor stands still. It is safe for concurrent use.
type Tail struct {
	limit int

	mu      sync.Mutex
	kept    []byte // a ring once it is full
	oldest  int    // where the ring begins
	dropped int64
}

// NewTail returns a Tail that keeps the last limit bytes: DefaultTail if limit
// is not positive.
func NewTail(limit int) *Tail {
	if limit <= 0 {
		limit = DefaultTail
	}
	return &Tail{limit: limit}
}

// Write takes all of p. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if over := len(p) - t.limit; over > 0 {
		p = p[over:]
		t.dropped += int64(over)
	}
	room := min(t.limit-len(t.kept), len(p))
	t.kept = append(t.kept, p[:room]...)
	p = p[room:]
	t.dropped += int64(len(p))
	for len(p) > 0 {
		k := copy(t.kept[t.oldest:], p)
		p = p[k:]
		t.oldest = (t.oldest + k) % t.limit
	}
	return n, nil
}

// String returns what is kept, oldest first. It may begin inside a line.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept[t.oldest:]) + string(t.kept[:t.oldest])
}

// Dropped returns how many bytes were written before those that are kept.
func (t *Tail) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
