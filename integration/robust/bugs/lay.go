package bugs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// A Bug is what somebody may get wrong.
type Bug struct {
	Name    string         // a word
	What    string         // is wrong, and what follows from that
	Quiet   bool           // it shows where few contend for a lock, and hardly in a crowd
	Tempo   float64        // by how much clients work longer than in other hunts; 0: as long
	Readers int            // percentage of requests that are shared; 0: as in other hunts
	Calm    int            // percentage of requests that nobody outranks, with a long lease
	Lanes   int            // faults at a time; 0: as in other hunts
	Tick    time.Duration  // of the servers; 0: as in other hunts
	Session time.Duration  // timeout; 0: as in other hunts
	Kinds   []nemesis.Kind // the faults that provoke it; nil: those of all hunts
	Patches []Patch
}

// A Patch replaces text that a package has exactly once, in whatever file.
type Patch struct {
	Package  string // its directory, from the root of the repository
	Old, New string
}

// Lay makes the file for go build -overlay that plants these bugs, with what it
// needs, in dir.
func Lay(dir string, planted ...Bug) (overlay string, err error) {
	root := Root()
	sources := make(map[string]map[string]string) // by package and path
	texts := make(map[string]string)              // those that are changed
	for _, b := range planted {
		for _, p := range b.Patches {
			files := sources[p.Package]
			if files == nil {
				if files, err = read(root, p.Package); err != nil {
					return "", fmt.Errorf("bug %s: %w", b.Name, err)
				}
				sources[p.Package] = files
			}
			n, in := 0, ""
			for file, text := range files {
				if k := strings.Count(text, p.Old); k > 0 {
					n, in = n+k, file
				}
			}
			if n != 1 {
				return "", fmt.Errorf("bug %s: package %s has the text to be replaced %d times: change integration/robust/bugs with the product\n%s", b.Name, p.Package, n, p.Old)
			}
			files[in] = strings.Replace(files[in], p.Old, p.New, 1)
			texts[in] = files[in]
		}
	}
	replace := make(map[string]string)
	for file, text := range texts {
		laid := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(laid, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = laid
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// read returns the sources of a package, without its tests, by their paths from the
// root.
func read(root, pkg string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[pkg+"/"+filepath.Base(path)] = string(text)
	}
	return files, nil
}

// Root is the root of the repository that this package was built from.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}
