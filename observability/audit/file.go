package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A file has the audit trail as lines of JSON. Most lines are records as they
// are in ZooKeeper, byte by byte: see opstore.AuditRecord.Line. Others say what
// is missing between two of them, or are records that are not in ZooKeeper.
type file struct {
	name   string
	logger *slog.Logger

	mu     sync.Mutex
	f      *os.File // nil: closed
	ours   bool     // no other process ships to it
	closed bool
}

// Lines that are no records of the chain.
type (
	// unchainedLine: ZooKeeper did not answer when this was put on record.
	unchainedLine struct {
		Unchained bool `json:"unchained"`
		opstore.AuditRecord
	}

	// gapLine: these were removed from ZooKeeper before they could be shipped.
	gapLine struct {
		Gap gap `json:"gap"`
	}
	gap struct {
		From int64     `json:"from"`
		To   int64     `json:"to"`
		At   time.Time `json:"at"`
	}

	// brokenLine: what comes next does not continue the line before, because the
	// trail in ZooKeeper was tampered with, or begun anew.
	brokenLine struct {
		Broken broken `json:"broken"`
	}
	broken struct {
		Seq   int64              `json:"seq"`
		Fault opstore.AuditFault `json:"fault"`
		Why   string             `json:"why"`
		At    time.Time          `json:"at"`
	}
)

func openFile(name string, logger *slog.Logger) (*file, error) {
	f := &file{name: name, logger: logger}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f, f.open()
}

// open opens the file anew. The caller holds mu.
func (f *file) open() error {
	if f.f != nil {
		_ = f.f.Close()
	}
	f.f, f.ours = nil, false
	if f.closed {
		return os.ErrClosed
	}
	if info, err := os.Lstat(f.name); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf(
			"%s is a symbolic link: anyone who can change it chooses what is written; name the file that it leads to", f.name)
	}
	opened, err := os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_RDWR|noFollow, 0o600)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file", f.name)
	case info.Mode()&0o002 != 0:
		err = fmt.Errorf("%s is writable by all users (%s), so that it shows nothing; save it elsewhere, "+
			"see who has changed it, then chmod 600 %s", f.name, info.Mode(), f.name)
	}
	if err != nil {
		_ = opened.Close()
		return err
	}
	f.f = opened
	return nil
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.f == nil {
		return nil
	}
	err := errors.Join(f.f.Sync(), f.f.Close())
	f.f, f.ours = nil, false
	return err
}

// follow opens the file that has the name now, if somebody has renamed or removed
// the one that is open. The caller holds mu.
func (f *file) follow() error {
	if f.f != nil {
		there, err := os.Stat(f.name)
		open, errOpen := f.f.Stat()
		if err == nil && errOpen == nil && os.SameFile(there, open) {
			return nil
		}
		_ = f.f.Sync()
	}
	return f.open()
}

// take reports whether no other process ships to the file: then none will until
// it is closed or renamed.
func (f *file) take() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.follow(); err != nil {
		return false, err
	}
	return f.takeLocked()
}

func (f *file) takeLocked() (bool, error) {
	if f.ours {
		return true, nil
	}
	err := lockFile(f.f)
	if errors.Is(err, errTaken) {
		return false, nil
	}
	f.ours = err == nil
	return f.ours, err
}

// errTaken: another process ships to the file.
var errTaken = errors.New("another process writes it")

// ship adds a line, unless another process ships to the file by now.
func (f *file) shipLine(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.follow(); err != nil {
		return err
	}
	if ours, err := f.takeLocked(); err != nil {
		return err
	} else if !ours {
		return errTaken
	}
	return f.write(line)
}

// note writes a line before it returns, whichever process ships the file.
func (f *file) note(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.follow(); err != nil {
		return err
	}
	if err := f.write(line); err != nil {
		return err
	}
	return f.f.Sync()
}

// write appends one line, with one call: several processes may do so. One that
// died in the middle of a line left it without an end.
func (f *file) write(line []byte) error {
	line = append(bytes.Clone(line), '\n')
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size > 0 {
		var last [1]byte
		if _, err := f.f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err = f.f.Write(line)
	return err
}

// last returns the newest record of the chain in the file.
func (f *file) last() (r opstore.AuditRecord, found bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return r, false, os.ErrClosed
	}
	info, err := f.f.Stat()
	if err != nil {
		return r, false, err
	}
	const step = 1 << 20 // more than any record
	for tail, size := int64(step), info.Size(); ; tail *= 8 {
		from := max(0, size-tail)
		text, err := io.ReadAll(io.NewSectionReader(f.f, from, size-from))
		if err != nil {
			return r, false, err
		}
		for len(text) > 0 {
			begin := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte{'\n'}), '\n') + 1
			if begin > 0 || from == 0 {
				if r, err := opstore.ParseAuditRecord(bytes.TrimSuffix(text[begin:], []byte{'\n'})); err == nil {
					return r, true, nil
				}
			}
			text = text[:begin]
		}
		if from == 0 {
			return r, false, nil
		}
	}
}
