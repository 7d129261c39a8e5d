package main

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"
)

// What is written to a terminal. Each line is put where it belongs, and none goes
// on to the next one: a terminal that thinks otherwise of the width of a character
// spoils that line alone.
const (
	topEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J" // another screen, no cursor, no wrapping
	topLeave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
	topBegin = "\x1b[?2026h" // show what follows at once
	topEnd   = "\x1b[?2026l"
)

// A topTerminal is a terminal that is drawn on.
type topTerminal struct {
	in, out *os.File
	was     *term.State
	shown   []string // the lines that are there; nil: not known
	closed  sync.Once
}

// openTopTerminal takes the terminal over, until close.
func openTopTerminal(in, out *os.File) (*topTerminal, error) {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be taken over: %w; use --once", err)
	}
	t := &topTerminal{in: in, out: out, was: was}
	t.enter()
	return t, nil
}

// enter makes the terminal one to draw on; also after another process had it.
func (t *topTerminal) enter() {
	_, _ = term.MakeRaw(int(t.in.Fd()))
	_, _ = t.out.WriteString(topEnter) // if it fails, so does drawing
	t.forget()
}

// close leaves the terminal as it was.
func (t *topTerminal) close() {
	t.closed.Do(func() {
		_, _ = t.out.WriteString(topLeave)
		_ = term.Restore(int(t.in.Fd()), t.was)
	})
}

// forget has everything be drawn again.
func (t *topTerminal) forget() { t.shown = nil }

func (t *topTerminal) size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(t.out.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return usualColumns, 24
	}
	return columns, lines
}

// draw writes the lines that are not there yet.
func (t *topTerminal) draw(lines []string) error {
	var b bytes.Buffer
	b.WriteString(topBegin)
	if t.shown == nil {
		b.WriteString("\x1b[2J")
	}
	empty := b.Len()
	for i := range max(len(lines), len(t.shown)) {
		line := ""
		if i < len(lines) {
			line = lines[i]
		}
		if t.shown != nil && i < len(t.shown) && t.shown[i] == line {
			continue
		}
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[K%s", i+1, line)
	}
	t.shown = append([]string{}, lines...)
	if b.Len() == empty && empty == len(topBegin) {
		return nil
	}
	b.WriteString(topEnd)
	if _, err := t.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("the terminal cannot be written to any more: %w", err)
	}
	return nil
}
