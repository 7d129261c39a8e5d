package orders

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
)

// A Correction changes what one order costs.
type Correction struct {
	Order int
	Cents int // to add
}

// An entry of the journal is one committed change of the data set.
type entry struct {
	Generation  int
	Token       int64 // of the lock; 0 without one
	Job         string
	Corrections []Correction
}

// String returns the line that stands for e in the journal.
func (e entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d token=%d %s", e.Generation, e.Token, e.Job)
	for _, c := range e.Corrections {
		fmt.Fprintf(&b, " %06d:%+d", c.Order, c.Cents)
	}
	return b.String()
}

func parseEntry(line string) (entry, error) {
	fields := strings.Fields(line)
	var e entry
	if len(fields) < 3 {
		return entry{}, fmt.Errorf("%q is no entry of a journal", line)
	}
	e.Job = fields[2]
	if _, err := fmt.Sscanf(fields[0]+" "+fields[1], "%d token=%d", &e.Generation, &e.Token); err != nil {
		return entry{}, fmt.Errorf("%q is no entry of a journal", line)
	}
	for _, field := range fields[3:] {
		var c Correction
		if _, err := fmt.Sscanf(field, "%d:%d", &c.Order, &c.Cents); err != nil {
			return entry{}, fmt.Errorf("%q is no entry of a journal", line)
		}
		e.Corrections = append(e.Corrections, c)
	}
	if e.String() != line {
		return entry{}, fmt.Errorf("%q is no entry of a journal", line)
	}
	return e, nil
}

func decodeJournal(data []byte) ([]entry, error) {
	var entries []entry
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		e, err := parseEntry(lines.Text())
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
