package devserver

import (
	"bytes"
	"strings"
	"sync"
)

// journalSize bounds what is remembered of a server's output.
const journalSize = 1 << 20

// journal keeps the end of what a server has written.
type journal struct {
	mu      sync.Mutex
	text    []byte
	dropped int // bytes
}

func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, text...)
	if excess := len(j.text) - journalSize; excess > 0 {
		j.text, j.dropped = bytes.Clone(j.text[excess:]), j.dropped+excess
	}
	return len(text), nil
}

// position is for since.
func (j *journal) position() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped + len(j.text)
}

// since returns what is remembered of the text after a position, at most so many lines.
func (j *journal) since(position, lines int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text[max(0, position-j.dropped):]
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
