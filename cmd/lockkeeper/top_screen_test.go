package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
)

// A screen is a terminal as a person has it: it obeys what the program writes, and
// complains of what it does not know.
type screen struct {
	keys, tty *os.File // the person's end, and the program's

	mu       sync.Mutex
	cells    [][]string
	row, col int
	other    bool // the other screen is shown
	hidden   bool // the cursor is
	noWrap   bool
	written  strings.Builder
	unknown  []string
	rest     []byte
	resized  bool // and not drawn anew
	over     chan struct{}
}

func newScreen(t *testing.T, columns, lines int) *screen {
	t.Helper()
	keys, tty, err := pty.Open()
	require.NoError(t, err)
	s := &screen{keys: keys, tty: tty, over: make(chan struct{})}
	s.resize(t, columns, lines)
	go func() {
		defer close(s.over)
		b := make([]byte, 1<<16)
		for {
			n, err := keys.Read(b)
			s.write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_, _ = io.WriteString(keys, "\r") // readers of keys in this process end
		_ = tty.Close()
		<-s.over
		_ = keys.Close()
	})
	return s
}

func (s *screen) resize(t *testing.T, columns, lines int) {
	t.Helper()
	s.mu.Lock()
	s.cells, s.resized = make([][]string, lines), true
	for i := range s.cells {
		s.cells[i] = make([]string, columns)
	}
	s.mu.Unlock()
	require.NoError(t, pty.Setsize(s.keys, &pty.Winsize{Rows: uint16(lines), Cols: uint16(columns)}))
}

func (s *screen) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Write(b)
	s.rest = append(s.rest, b...)
	for len(s.rest) > 0 {
		n := s.obey(s.rest)
		if n == 0 {
			return
		}
		s.rest = s.rest[n:]
	}
}

// obey obeys what comes first, and returns how long it was; 0: it goes on.
func (s *screen) obey(b []byte) int {
	switch c := b[0]; {
	case c == 0x1b:
		return s.sequence(b)
	case c == '\r':
		s.col = 0
		return 1
	case c == '\n':
		s.row++
		return 1
	case c < ' ' || c == 0x7f:
		s.unknown = append(s.unknown, fmt.Sprintf("%q", c))
		return 1
	case !utf8.FullRune(b):
		return 0
	}
	r, n := utf8.DecodeRune(b)
	width := lettering.ColumnsOf(r)
	if s.row < len(s.cells) {
		line := s.cells[s.row]
		switch {
		case width == 0 && s.col > 0:
			line[s.col-1] += string(r)
		case s.col+width <= len(line):
			line[s.col] = string(r)
			if width == 2 {
				line[s.col+1] = "\x00"
			}
		case s.other && !s.resized:
			s.unknown = append(s.unknown, fmt.Sprintf("%q beyond the right edge of line %d", r, s.row+1))
		}
	} else if s.other && !s.resized {
		s.unknown = append(s.unknown, fmt.Sprintf("%q below the last line", r))
	}
	s.col += width
	return n
}

func (s *screen) sequence(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != '[' {
		s.unknown = append(s.unknown, fmt.Sprintf("%q", b[:2]))
		return 2
	}
	end := 2
	for end < len(b) && (b[end] < 0x40 || b[end] > 0x7e) {
		end++
	}
	if end == len(b) {
		return 0
	}
	params, last := string(b[2:end]), b[end]
	switch {
	case last == 'm':
	case last == 'H':
		row, col, _ := strings.Cut(params, ";")
		s.row, _ = strconv.Atoi(row)
		s.col, _ = strconv.Atoi(col)
		s.row, s.col = s.row-1, s.col-1
	case last == 'K' && params == "":
		if s.row < len(s.cells) {
			clear(s.cells[s.row][min(s.col, len(s.cells[s.row])):])
		}
	case last == 'J' && params == "2":
		s.resized = false
		for _, line := range s.cells {
			clear(line)
		}
	case (last == 'h' || last == 'l') && params == "?1049":
		s.other = last == 'h'
	case (last == 'h' || last == 'l') && params == "?25":
		s.hidden = last == 'l'
	case (last == 'h' || last == 'l') && params == "?7":
		s.noWrap = last == 'l'
	case (last == 'h' || last == 'l') && params == "?2026":
	default:
		s.unknown = append(s.unknown, fmt.Sprintf("%q", b[:end+1]))
	}
	return end + 1
}

// text is what is to be seen.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, cells := range s.cells {
		var b strings.Builder
		for _, c := range cells {
			switch c {
			case "":
				b.WriteByte(' ')
			case "\x00":
			default:
				b.WriteString(c)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return strings.Join(lines, "\n")
}

// all is what was written to it.
func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

func (s *screen) press(t *testing.T, keys string) {
	t.Helper()
	_, err := io.WriteString(s.keys, keys)
	require.NoError(t, err)
}

// shows waits until all of that is to be seen.
func (s *screen) shows(t *testing.T, texts ...string) {
	t.Helper()
	s.until(t, fmt.Sprintf("it does not show %q", texts), func(seen string) bool {
		for _, text := range texts {
			if !strings.Contains(seen, text) {
				return false
			}
		}
		return true
	})
}

func (s *screen) hides(t *testing.T, text string) {
	t.Helper()
	s.until(t, fmt.Sprintf("it still shows %q", text), func(seen string) bool { return !strings.Contains(seen, text) })
}

func (s *screen) until(t *testing.T, otherwise string, ok func(seen string) bool) {
	t.Helper()
	if !s.eventually(func() bool { return ok(s.text()) }) {
		require.Fail(t, otherwise, s.text())
	}
}

func (s *screen) eventually(ok func() bool) bool {
	late := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			return ok()
		}
	}
	return true
}

// A sitting is the program in front of a person.
type sitting struct {
	*screen
	process *exec.Cmd
	before  term.State
	exit    chan error
}

// sit starts the program on a terminal.
func sit(t *testing.T, columns, lines int, env []string, args ...string) *sitting {
	t.Helper()
	s := &sitting{screen: newScreen(t, columns, lines), process: exec.Command("lockkeeper", args...), exit: make(chan error, 1)}
	was, err := term.GetState(int(s.tty.Fd()))
	require.NoError(t, err)
	s.before = *was
	s.process.Env = append(append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "LC_ALL=C.UTF-8", "COLUMNS=", "GORACE=atexit_sleep_ms=0"), env...)
	s.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // a terminal of its own, which tells it of sizes
	s.process.Stdin, s.process.Stdout, s.process.Stderr = s.tty, s.tty, s.tty
	require.NoError(t, s.process.Start())
	t.Cleanup(func() { _ = s.process.Process.Kill() })
	go func() { s.exit <- s.process.Wait() }()
	return s
}

// leaves waits for the end of the program, which has to leave the terminal as it
// was.
func (s *sitting) leaves(t *testing.T, code int) {
	t.Helper()
	select {
	case <-s.exit:
		require.Equal(t, code, s.process.ProcessState.ExitCode(), s.text())
	case <-time.After(time.Minute):
		require.Fail(t, "it does not end", s.text())
	}
	s.restored(t, s.before)
}

func (s *screen) restored(t *testing.T, before term.State) {
	t.Helper()
	now, err := term.GetState(int(s.tty.Fd()))
	require.NoError(t, err)
	require.Equal(t, before, *now, "modes of the terminal")
	require.True(t, s.eventually(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.other && !s.hidden && !s.noWrap
	}), "the screen, its cursor and its wrapping are as before")
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.unknown)
}
