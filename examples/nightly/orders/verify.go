package orders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Report is what Verify found.
type Report struct {
	Generation  int      // of the data set
	Orders      int      // that are there
	Cents       int      // that they cost in all
	Corrections int      // that were committed
	Backups     int      // that were finished
	Problems    []string // what is corrupted; none is good news
}

// Sound reports whether nothing is corrupted.
func (r Report) Sound() bool { return len(r.Problems) == 0 }

// Verify reads everything: the data set and all its backups. There must be no
// writers meanwhile. The error says that it could not read; what is wrong with
// the content is in the Report.
func (s *Set) Verify() (Report, error) {
	var r Report
	files, err := readDir(s.path(dataDir))
	if err != nil {
		return r, fmt.Errorf("verify the data set: %w", err)
	}
	live := check(files)
	r.Generation, r.Orders, r.Cents, r.Corrections = live.generation, live.orders, live.cents, live.corrections
	r.Problems = live.problems

	switch _, err := os.Stat(s.path(undoDir)); {
	case err == nil:
		r.add("a change was left half done: %s is still there", undoDir)
	case !errors.Is(err, fs.ErrNotExist):
		return r, fmt.Errorf("verify the data set: %w", err)
	}
	return r, s.verifyBackups(&r)
}

func (s *Set) verifyBackups(r *Report) error {
	entries, err := os.ReadDir(s.path(backupsDir))
	if err != nil {
		return fmt.Errorf("verify the backups: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch filepath.Ext(name) {
		case partialSuffix:
			r.add("backup %s was left half done", name)
		case ".tar":
			r.Backups++
			files, err := readBackup(s.path(backupsDir, name))
			if err != nil {
				r.add("backup %s cannot be used: %v", name, err)
				continue
			}
			if problems := check(files).problems; len(problems) > 0 {
				r.add("backup %s cannot be used: %s%s", name, problems[0], more(len(problems)-1))
			}
		}
	}
	return nil
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

func (r *Report) add(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// contents is what check found in a data set.
type contents struct {
	generation  int
	orders      int
	cents       int
	corrections int
	problems    []string
}

func (c *contents) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// check compares the files of a data set with one another.
func check(files map[string][]byte) *contents {
	c := &contents{}
	var m manifest
	if err := json.Unmarshal(files[manifestName], &m); err != nil {
		c.add("%s cannot be read: %v", manifestName, err)
	}
	c.generation = m.Generation
	want := c.checkJournal(files[journalName], m)

	found := make(map[int]Record)
	for i := range segments {
		name := segmentName(i)
		if m.Segments[name] != checksum(files[name]) {
			c.add("segment %s is not the one that %s names", name, manifestName)
		}
		s, err := decodeSegment(files[name])
		if err != nil {
			c.add("segment %s: %v", name, err)
			continue
		}
		if s.generation > m.Generation {
			c.add("segment %s is of generation %d, which was never committed", name, s.generation)
		}
		for _, r := range Latest(s.records) {
			if segmentOf(r.Order) != name {
				c.add("order %06d is in segment %s", r.Order, name)
			}
			found[r.Order] = r
		}
	}
	c.checkOrders(found, want)
	return c
}

// checkJournal returns what every order should be.
func (c *contents) checkJournal(data []byte, m manifest) []Record {
	want := make([]Record, Count)
	for i := range want {
		want[i] = Record{Order: i, Version: 1, Cents: firstPrice(i)}
	}
	entries, err := decodeJournal(data)
	if err != nil {
		c.add("%s: %v", journalName, err)
	}
	var last entry
	for _, e := range entries {
		if e.Generation != last.Generation+1 {
			c.add("%s: generation %d of %s comes after generation %d of %s",
				journalName, e.Generation, e.Job, last.Generation, last.Job)
		}
		if e.Token < last.Token {
			c.add("%s: token %d of %s comes after token %d of %s", journalName, e.Token, e.Job, last.Token, last.Job)
		}
		last = e
		for _, correction := range e.Corrections {
			if correction.Order < 0 || correction.Order >= len(want) {
				c.add("%s: there is no order %06d", journalName, correction.Order)
				continue
			}
			want[correction.Order].Version++
			want[correction.Order].Cents += correction.Cents
			c.corrections++
		}
	}
	if last.Generation != m.Generation {
		c.add("%s ends with generation %d, %s has %d", journalName, last.Generation, manifestName, m.Generation)
	}
	return want
}

func (c *contents) checkOrders(found map[int]Record, want []Record) {
	c.orders = len(found)
	total := 0
	var missing []int
	for _, w := range want {
		total += w.Cents
		f, ok := found[w.Order]
		switch {
		case !ok:
			missing = append(missing, w.Order)
		case f.Version < w.Version:
			c.add("order %06d has lost a correction: it costs %d and should cost %d", w.Order, f.Cents, w.Cents)
		case f != w:
			c.add("order %06d costs %d (version %d) and should cost %d (version %d)",
				w.Order, f.Cents, f.Version, w.Cents, w.Version)
		}
	}
	if len(missing) > 0 {
		c.add("order %06d is missing%s", missing[0], more(len(missing)-1))
	}
	for _, order := range slices.Sorted(maps.Keys(found)) {
		c.cents += found[order].Cents
		if order >= len(want) {
			c.add("order %06d should not be there", order)
		}
	}
	if c.cents != total {
		c.add("all orders cost %d and should cost %d", c.cents, total)
	}
}

func readDir(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}
