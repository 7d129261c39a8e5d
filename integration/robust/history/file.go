package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Writer appends events to the file of one process. It may be used by any
// goroutine.
type Writer struct{ file *os.File }

// Create opens the file of a process, which must not exist.
func Create(path string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Writer{file}, nil
}

// Write appends one event, with one write(2).
func (w *Writer) Write(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if _, err := w.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// A Reader reads the files of a directory as they grow.
type Reader struct {
	dir  string
	read map[string]int64 // bytes of each file
	torn map[string]bool  // files whose last line is not complete
	all  []Event
}

// NewReader returns a reader of the files *.jsonl in dir.
func NewReader(dir string) *Reader {
	return &Reader{dir: dir, read: make(map[string]int64), torn: make(map[string]bool)}
}

// Events returns all events so far, in the order of their stamps. A line that is
// not complete yet is left for the next call.
func (r *Reader) Events() ([]Event, error) {
	files, err := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for _, path := range files {
		if err := r.follow(path); err != nil {
			return nil, fmt.Errorf("history: %s: %w", path, err)
		}
	}
	Sort(r.all)
	return slices.Clone(r.all), nil
}

// Torn returns the names of those files, without the extension, whose last line is
// not complete: their processes were ended while they wrote.
func (r *Reader) Torn() (names []string) {
	for path, torn := range r.torn {
		if torn {
			names = append(names, strings.TrimSuffix(filepath.Base(path), ".jsonl"))
		}
	}
	slices.Sort(names)
	return names
}

func (r *Reader) follow(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	fresh := make([]byte, info.Size()-r.read[path])
	if _, err := file.ReadAt(fresh, r.read[path]); err != nil && len(fresh) > 0 {
		return err
	}
	for {
		line, rest, complete := bytes.Cut(fresh, []byte("\n"))
		if !complete {
			r.torn[path] = len(fresh) > 0
			return nil
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("after %d bytes: %w", r.read[path], err)
		}
		r.all = append(r.all, e)
		r.read[path] += int64(len(line)) + 1
		fresh = rest
	}
}

// Sort puts events into the order of their stamps.
func Sort(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}
