package nightly

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// width is how many columns everything fits into.
const width = 80

// A printer writes for people.
type printer struct {
	palette

	out  io.Writer
	err  error           // of the first write that failed; nothing is written after it
	gone func(err error) // is called with it
}

func newPrinter(out io.Writer, colour bool, gone func(error)) *printer {
	return &printer{palette: palette{on: colour}, out: out, gone: gone}
}

func (p *printer) printf(format string, args ...any) {
	if p.err != nil {
		return
	}
	if _, p.err = fmt.Fprintf(p.out, format, args...); p.err != nil {
		p.gone(p.err)
	}
}

// failure returns why not all of it was written.
func (p *printer) failure() error {
	if p.err != nil {
		return fmt.Errorf("tell what happens: %w", p.err)
	}
	return nil
}

// fold breaks text into lines of at most room columns. All but the first begin
// with indent blanks, which do not count.
func fold(text string, room, indent int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
