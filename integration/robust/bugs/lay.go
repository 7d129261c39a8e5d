package bugs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// A Bug is what somebody may get wrong.
type Bug struct {
	Name    string         // a word
	What    string         // is wrong, and what follows from that
	Quiet   bool           // it shows where few contend for a lock, and hardly in a crowd
	Tempo   float64        // by how much clients work longer than in other hunts; 0: as long
	Lanes   int            // faults at a time; 0: as in other hunts
	Kinds   []nemesis.Kind // the faults that provoke it; nil: those of all hunts
	Patches []Patch
}

// A Patch replaces text that a file of the repository has exactly once.
type Patch struct {
	File     string // from the root of the repository
	Old, New string
}

// Lay makes the file for go build -overlay that plants these bugs, with what it
// needs, in dir.
func Lay(dir string, planted ...Bug) (overlay string, err error) {
	root := Root()
	texts := make(map[string]string)
	for _, b := range planted {
		for _, p := range b.Patches {
			text, ok := texts[p.File]
			if !ok {
				original, err := os.ReadFile(filepath.Join(root, p.File))
				if err != nil {
					return "", fmt.Errorf("bug %s: %w", b.Name, err)
				}
				text = string(original)
			}
			if n := strings.Count(text, p.Old); n != 1 {
				return "", fmt.Errorf("bug %s: %s has the text to be replaced %d times: change integration/robust/bugs with the product\n%s", b.Name, p.File, n, p.Old)
			}
			texts[p.File] = strings.Replace(text, p.Old, p.New, 1)
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

// Root is the root of the repository that this package was built from.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}
