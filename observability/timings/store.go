package timings

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	prefix = "timings-"
	suffix = ".json"

	// saveEvery is how much a crash can lose.
	saveEvery = time.Minute

	// maxProcesses is how many processes of one machine share a directory.
	maxProcesses = 64
)

// A Store is a Recorder that keeps what it measures in a file.
type Store struct {
	Recorder

	name   string
	slot   *os.File
	logger *slog.Logger
	stop   chan struct{}
	over   chan struct{}
	warned bool // that there are more than maxSeries
	closed sync.Once
}

// Open takes a file in dir, which is made if need be, and goes on with what is in
// it. Its name has that of the machine and a number in it: processes that share
// dir have a file each, and a process that is started again finds the one of
// its predecessor. Files whose process has not come back for five weeks are
// removed. A file that cannot be understood is moved aside, with a warning.
//
// The file is written once a minute, if there is anything new, and by Close. A
// failed write is logged to logger; nil is slog.Default().
func Open(dir string, logger *slog.Logger) (*Store, error) {
	if logger == nil {
		logger = slog.Default()
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("timings are not kept: %w; name a directory that this user can write to", err)
	}
	removeOld(dir)
	slot, name, err := takeSlot(dir)
	if err != nil {
		return nil, fmt.Errorf("timings are not kept: %w; name a directory that this user can write to", err)
	}
	s := &Store{name: name, slot: slot, logger: logger, stop: make(chan struct{}), over: make(chan struct{})}
	s.load()
	go s.saveNowAndThen()
	return s, nil
}

// Name is that of the file.
func (s *Store) Name() string { return s.name }

// Close writes the file for the last time. What is observed after it is not kept.
func (s *Store) Close() error {
	err := error(nil)
	s.closed.Do(func() {
		close(s.stop)
		<-s.over
		err = errors.Join(s.save(), s.slot.Close())
	})
	return err
}

// Read adds up the files of several directories. What cannot be read is left out,
// and told in problems.
func Read(dirs ...string) (stats Stats, problems []error) {
	stats = Stats{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, entry := range entries {
			if !isFile(entry.Name()) {
				continue
			}
			name := filepath.Join(dir, entry.Name())
			l, err := readFile(name)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
				continue
			}
			l.forget(time.Now())
			stats.Merge(l.stats())
		}
	}
	return stats, problems
}

func (s *Store) load() {
	l, err := readFile(s.name)
	switch {
	case err == nil:
		s.ledger = l
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errCorrupt):
		aside := s.name + ".corrupt"
		s.logger.Warn("a file of timings is moved aside; measuring begins anew",
			"file", s.name, "aside", aside, "error", err, "rename_error", os.Rename(s.name, aside))
	default:
		s.logger.Warn("a file of timings cannot be read; measuring begins anew", "file", s.name, "error", err)
	}
}

func (s *Store) saveNowAndThen() {
	defer close(s.over)
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			if err := s.save(); err != nil {
				s.logger.Warn("timings are not saved; it is tried again in a minute", "file", s.name, "error", err)
			}
		}
	}
}

func (s *Store) save() error {
	l, full, changed := s.take()
	if full && !s.warned {
		s.warned = true
		s.logger.Warn("there are too many jobs and scopes to measure them all", "measured", maxSeries)
	}
	if !changed {
		return nil
	}
	if err := writeFile(s.name, l, time.Now()); err != nil {
		s.mu.Lock()
		s.changed = true
		s.mu.Unlock()
		return err
	}
	return nil
}

func isFile(name string) bool {
	return strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix)
}

// takeSlot returns the name of the first file that no other process has, and
// what keeps it from the others until it is closed or the process has ended.
func takeSlot(dir string) (slot *os.File, name string, err error) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator {
			return '_'
		}
		return r
	}, host)
	for n := 1; n <= maxProcesses; n++ {
		name = filepath.Join(dir, fmt.Sprintf("%s%s-%d%s", prefix, host, n, suffix))
		slot, err = lockFile(name + ".lock")
		if err == nil || !errors.Is(err, errTaken) {
			return slot, name, err
		}
	}
	return nil, "", fmt.Errorf("%d processes keep their timings in %s already", maxProcesses, dir)
}

var errTaken = errors.New("another process has it")

// removeOld removes the files of processes that are gone for good. What is left of
// them is too old to count.
func removeOld(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasPrefix(entry.Name(), prefix) || time.Since(info.ModTime()) < weeks*7*24*time.Hour {
			continue
		}
		data, _, _ := strings.Cut(entry.Name(), suffix)
		lock := filepath.Join(dir, data+suffix+".lock")
		slot, err := lockFile(lock)
		if err != nil {
			continue // its process lives
		}
		_ = os.Remove(filepath.Join(dir, entry.Name()))
		_ = os.Remove(lock)
		_ = slot.Close()
	}
}
