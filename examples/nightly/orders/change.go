package orders

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// A Change rewrites segments in place. Until it is committed, Restore puts
// everything back.
type Change struct {
	set     *Set
	job     string
	token   int64
	old     manifest
	written map[string]string // segment to SHA-256
	moves   []Correction
}

// Begin starts a change for a job under the token of its lock, 0 without one.
// It first puts back what a predecessor left half done that died.
func (s *Set) Begin(job string, token int64) (*Change, error) {
	if _, err := s.Restore(token); err != nil {
		return nil, err
	}
	c := &Change{set: s, job: job, token: token, written: make(map[string]string)}
	if err := s.fenced(token, c.keepOld); err != nil {
		return nil, fmt.Errorf("begin to change the data set: %w", err)
	}
	return c, nil
}

// keepOld copies all that may be changed, so that it can be put back. The copy
// counts once it has its name.
func (c *Change) keepOld() error {
	draft := c.set.path(undoDraftDir)
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	if err := os.CopyFS(draft, os.DirFS(c.set.path(dataDir))); err != nil {
		return err
	}
	data, err := os.ReadFile(c.set.path(undoDraftDir, manifestName))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &c.old); err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	return os.Rename(draft, c.set.path(undoDir))
}

// Segments returns the names of all segments, sorted.
func (c *Change) Segments() []string { return slices.Sorted(maps.Keys(c.old.Segments)) }

// Read returns what is in a segment.
func (c *Change) Read(name string) ([]Record, error) {
	data, err := os.ReadFile(c.set.path(dataDir, name))
	if err != nil {
		return nil, err
	}
	content, err := decodeSegment(data)
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", name, err)
	}
	return content.records, nil
}

// Write replaces what is in a segment, at once and for all readers.
func (c *Change) Write(name string, records []Record) error {
	data := segment{generation: c.old.Generation + 1, records: records}.encode()
	err := c.set.fenced(c.token, func() error { return os.WriteFile(c.set.path(dataDir, name), data, 0o644) })
	if err != nil {
		return fmt.Errorf("write segment %s: %w", name, err)
	}
	c.written[name] = checksum(data)
	return nil
}

// Move takes cents off the price of one order and adds them to another, so that
// the sum of all orders stays the same: a new version of each.
func (c *Change) Move(from, to, cents int) error {
	for _, correction := range []Correction{{Order: from, Cents: -cents}, {Order: to, Cents: cents}} {
		if err := c.correct(correction); err != nil {
			return fmt.Errorf("correct order %06d: %w", correction.Order, err)
		}
		c.moves = append(c.moves, correction)
	}
	return nil
}

func (c *Change) correct(correction Correction) error {
	name := segmentOf(correction.Order)
	records, err := c.Read(name)
	if err != nil {
		return err
	}
	for _, r := range Latest(records) {
		if r.Order == correction.Order {
			r.Version++
			r.Cents += correction.Cents
			return c.Write(name, append(records, r))
		}
	}
	return fmt.Errorf("segment %s does not have it", name)
}

// Commit makes the change final: it is the next generation.
func (c *Change) Commit() error {
	next := manifest{Generation: c.old.Generation + 1, Segments: maps.Clone(c.old.Segments)}
	maps.Copy(next.Segments, c.written)
	line := entry{Generation: next.Generation, Token: c.token, Job: c.job, Corrections: c.moves}.String() + "\n"
	err := c.set.fenced(c.token, func() error {
		if err := os.WriteFile(c.set.path(dataDir, manifestName), next.encode(), 0o644); err != nil {
			return err
		}
		if err := appendFile(c.set.path(dataDir, journalName), line); err != nil {
			return err
		}
		return c.set.forget()
	})
	if err != nil {
		return fmt.Errorf("commit generation %d: %w", next.Generation, err)
	}
	return nil
}

// Restore puts everything back that was changed and not committed, and returns
// how many files that were. It does nothing when there is no such change.
func (s *Set) Restore(token int64) (files int, err error) {
	err = s.fenced(token, func() error {
		files, err = s.restore()
		return err
	})
	if err != nil {
		return files, fmt.Errorf("restore the data set: %w", err)
	}
	return files, nil
}

func (s *Set) restore() (files int, err error) {
	old, err := readDir(s.path(undoDir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		now, err := os.ReadFile(s.path(dataDir, name))
		if err == nil && bytes.Equal(now, old[name]) {
			continue
		}
		if err := os.WriteFile(s.path(dataDir, name), old[name], 0o644); err != nil {
			return files, err
		}
		files++
	}
	return files, s.forget()
}

// Settle does what the next writer would do first: it puts back or discards
// what a writer has left half done, and returns how many files that were.
// Call it only without writers.
func (s *Set) Settle() (files int, err error) {
	latest, err := s.latestToken()
	if err != nil {
		return 0, fmt.Errorf("settle the data set: %w", err)
	}
	changed, err := s.Restore(latest)
	if err != nil {
		return changed, err
	}
	discarded, err := s.Discard(latest)
	return changed + discarded, err
}

// forget drops the old files, at one moment.
func (s *Set) forget() error {
	if err := os.RemoveAll(s.path(undoDraftDir)); err != nil {
		return err
	}
	err := os.Rename(s.path(undoDir), s.path(undoDraftDir))
	if errors.Is(err, fs.ErrNotExist) { // another process has restored or committed: Verify will tell
		return nil
	}
	return errors.Join(err, os.RemoveAll(s.path(undoDraftDir)))
}

func appendFile(name, line string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, file.Close())
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
