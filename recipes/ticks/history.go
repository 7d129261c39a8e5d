package ticks

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// tickHistory is how the last ticks of a job ended, newest last.
type tickHistory []tickLine

// tickLine is one entry, as it is written, as it is understood, or both: most
// pass through a daemon unread.
type tickLine struct {
	raw  []byte   // nil: not written like this yet
	note *endNote // nil: not read yet
}

// What tells about a line without reading it: inside a string the quotes are
// escaped.
var (
	endedKey = []byte(`"ended":`)
	ownerKey = []byte(`"who":`)
)

func splitHistory(data []byte) (h tickHistory) {
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSuffix(line, []byte{'\n'}); len(line) > 0 {
			h = append(h, tickLine{raw: line})
		}
	}
	return h
}

// read understands an entry. One that cannot be read has no owner.
func (l *tickLine) read() *endNote {
	if l.note == nil {
		var n endNote
		if json.Unmarshal(l.raw, &n) != nil {
			n = endNote{}
		}
		l.note = &n
	}
	return l.note
}

func (l *tickLine) written() []byte {
	if l.raw == nil {
		l.raw = znode.Encode(l.note)
	}
	return l.raw
}

// trim keeps the newest ones, n of them.
func (h *tickHistory) trim(n int) { *h = (*h)[max(0, len(*h)-n):] }

func (h tickHistory) newest() *endNote {
	if len(h) == 0 {
		return nil
	}
	return h[len(h)-1].read()
}

// findContender returns the entry of a run, or nil.
func (h tickHistory) find(id string) *endNote {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].note == nil && !bytes.Contains(h[i].raw, []byte(id)) {
			continue
		}
		if n := h[i].read(); n.ID == id {
			return n
		}
	}
	return nil
}

// stamp fills in when those have ended that do not say it: the last write's.
func (h tickHistory) stamp(mtime int64) {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].note == nil && bytes.Contains(h[i].raw, endedKey) {
			return
		}
		if n := h[i].read(); n.EndedAt == 0 {
			n.EndedAt = mtime
			h[i].raw = nil
		}
	}
}

// owners returns the numbers of those that it is about.
func (h tickHistory) owners() map[int]bool {
	used := make(map[int]bool)
	for i := range h {
		if n := h[i].note; n != nil {
			used[n.Owner] = true
			continue
		}
		if _, rest, ok := bytes.Cut(h[i].raw, ownerKey); ok {
			end := slices.IndexFunc(rest, func(b byte) bool { return b < '0' || b > '9' })
			number, _ := strconv.Atoi(string(rest[:max(0, end)]))
			used[number] = true
		}
	}
	return used
}

// size is how long it is, written.
func (h tickHistory) size() (n int) {
	for i := range h {
		n += len(h[i].written()) + 1
	}
	return n
}

func (h tickHistory) appendTo(data []byte) []byte {
	data = slices.Grow(data, h.size())
	for i := range h {
		data = append(append(data, '\n'), h[i].written()...)
	}
	return data
}
