package orders

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	segments      = 12
	ordersEach    = 100 // orders in each segment
	manifestName  = "manifest.json"
	journalName   = "journal.txt"
	dataDir       = "data"
	undoDir       = "undo"
	undoDraftDir  = "undo.draft" // not complete, so that nothing has been changed yet
	backupsDir    = "backups"
	fenceName     = "fence"
	partialSuffix = ".partial"
)

// Count is how many orders there are. Their numbers begin at 0.
const Count = segments * ordersEach

// Set is the data set in one directory.
type Set struct{ dir string }

// Open returns the data set in dir, which Create has made.
func Open(dir string) *Set { return &Set{dir: dir} }

// Create makes a new data set in dir, which must be empty or missing.
func Create(dir string) (*Set, error) {
	s := &Set{dir: dir}
	if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil,
			fmt.Errorf("create the data set: %w", cmp.Or(err, fmt.Errorf("%s is not empty; name a new directory", dir)))
	}
	for _, name := range []string{dataDir, backupsDir} {
		if err := os.MkdirAll(s.path(name), 0o755); err != nil {
			return nil, fmt.Errorf("create the data set: %w", err)
		}
	}
	m := manifest{Generation: 1, Segments: make(map[string]string)}
	files := make(map[string][]byte)
	for i := range segments {
		var records []Record
		for n := range ordersEach {
			order := i*ordersEach + n
			records = append(records, Record{Order: order, Version: 1, Cents: firstPrice(order)})
		}
		name := segmentName(i)
		files[name] = segment{generation: 1, records: records}.encode()
		m.Segments[name] = checksum(files[name])
	}
	files[manifestName] = m.encode()
	files[journalName] = []byte(entry{Generation: 1, Job: "create"}.String() + "\n")
	for name, data := range files {
		if err := os.WriteFile(s.path(dataDir, name), data, 0o644); err != nil {
			return nil, fmt.Errorf("create the data set: %w", err)
		}
	}
	return s, nil
}

// Dir returns the directory that the data set is in.
func (s *Set) Dir() string { return s.dir }

func (s *Set) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

func segmentName(i int) string { return fmt.Sprintf("%02d.txt", i) }

// segmentOf returns the segment that an order belongs to.
func segmentOf(order int) string { return segmentName(order / ordersEach) }

// firstPrice is what an order costs before any change: Verify needs no other
// record of how it all began.
func firstPrice(order int) int { return 1000 + order*37%9000 }

// manifest says what the segments of one generation are.
type manifest struct {
	Generation int               `json:"generation"`
	Segments   map[string]string `json:"segments"` // name to SHA-256
}

func (m manifest) encode() []byte {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // it holds numbers and texts only
	}
	return append(data, '\n')
}
