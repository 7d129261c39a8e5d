package timings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	version  = 1
	maxBytes = 256 << 20 // of a file; 10,000 jobs take a few MiB
)

// A fileJSON is a ledger in a file.
type fileJSON struct {
	Version int          `json:"version"`
	Saved   time.Time    `json:"saved"`
	Series  []seriesJSON `json:"series"`
}

type seriesJSON struct {
	Owner string             `json:"owner"`
	Scope string             `json:"scope"`
	Weeks map[string]*Series `json:"weeks"`
}

// writeFile replaces the file with the given name, whole or not at all, also
// when the machine loses its power.
func writeFile(name string, l ledger, now time.Time) (err error) {
	file := fileJSON{Version: version, Saved: now.UTC().Truncate(time.Second), Series: make([]seriesJSON, 0, len(l))}
	for _, key := range l.keys() {
		s := seriesJSON{key.Owner, key.Scope, make(map[string]*Series, len(l[key]))}
		for week, series := range l[key] {
			s.Weeks[strconv.FormatInt(week, 10)] = series
		}
		file.Series = append(file.Series, s)
	}
	data, err := json.Marshal(file)
	if err != nil {
		return err
	}
	temporary := name + ".new" // no other process writes it: the slot is ours
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
		}
	}()
	if err := writeSynced(temporary, data); err != nil {
		return err
	}
	if err := os.Rename(temporary, name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

func writeSynced(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the rename last. Not every system can.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	_ = dir.Sync()
	return nil
}

// errCorrupt is why a file that can be read cannot be used.
var errCorrupt = errors.New("it is no file of timings")

// readFile reads a ledger. It returns an error that wraps errCorrupt, or that of
// the file system.
func readFile(name string) (ledger, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file", errCorrupt) // a pipe without a reader would block for ever
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%w: it is larger than %d MiB", errCorrupt, maxBytes>>20)
	}
	var file fileJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if file.Version != version {
		return nil, fmt.Errorf("%w of version %d but of version %d", errCorrupt, version, file.Version)
	}
	l := make(ledger, len(file.Series))
	for _, s := range file.Series {
		for text, series := range s.Weeks {
			week, err := strconv.ParseInt(text, 10, 64)
			if err != nil || series == nil {
				return nil, fmt.Errorf("%w: %q is no week", errCorrupt, text)
			}
			if into := l.at(Key{s.Owner, s.Scope}, week); into != nil {
				into.Merge(*series)
			}
		}
	}
	return l, nil
}
