package bugs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// A Bug is what somebody may get wrong.
type Bug struct {
	Name    string         // a word
	Places  int            // markers in the product
	What    string         // is wrong, and what follows from that
	Quiet   bool           // it shows where few contend for a lock, and hardly in a crowd
	Tempo   float64        // by how much clients work longer than in other hunts; 0: as long
	Readers int            // percentage of requests that are shared; 0: as in other hunts
	Calm    int            // percentage of requests that no other outranks, with a long lease
	Lanes   int            // faults at a time; 0: as in other hunts
	Tick    time.Duration  // of the servers; 0: as in other hunts
	Session time.Duration  // timeout; 0: as in other hunts
	Kinds   []nemesis.Kind // the faults that provoke it; nil: those of all hunts
	Extra   string         // declarations that the package of the markers gets in a file of its own
	Imports []string       // of Extra
}

// marker is a line with a marker: the code before it, the bug, the code of the bug.
var marker = regexp.MustCompile(`(?m)^(.*?)[ \t]*// planted-bug ([^:\n]*):(.*)$`)

// Lay makes the file for go build -overlay that plants a bug, with what it needs, in dir.
func Lay(dir string, b Bug) (overlay string, err error) {
	changed, err := plant(b)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for path, text := range changed {
		laid := filepath.Join(dir, strconv.Itoa(len(replace))+"_"+filepath.Base(path))
		if err := os.WriteFile(laid, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = laid
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// plant returns the files that the bug changes or adds, by path.
func plant(b Bug) (changed map[string]string, err error) {
	marked, err := markedFiles()
	if err != nil {
		return nil, err
	}
	changed = make(map[string]string)
	places := 0
	for path, text := range marked {
		n := 0
		laid := marker.ReplaceAllStringFunc(text, func(line string) string {
			if part := marker.FindStringSubmatch(line); part[2] == b.Name {
				n++
				return part[3]
			}
			return line
		})
		if places += n; n == 0 {
			continue
		}
		changed[path] = laid
		if b.Extra != "" {
			changed[filepath.Join(filepath.Dir(path), "planted_bug.go")] = extra(laid, b)
		}
	}
	if places != b.Places {
		return nil,
			fmt.Errorf("the product has %d markers of bug %s, and should have %d: see package integration/robust/bugs",
				places, b.Name, b.Places)
	}
	return changed, nil
}

// extra returns the file that declares what a bug needs beside its places.
func extra(neighbour string, b Bug) string {
	var text strings.Builder
	text.WriteString(regexp.MustCompile(`(?m)^package \w+$`).FindString(neighbour) + "\n")
	for _, path := range b.Imports {
		fmt.Fprintf(&text, "import %q\n", path)
	}
	return text.String() + b.Extra
}

// markedFiles returns the product's files that have markers, by path.
func markedFiles() (map[string]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	return files, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && path != root && (name == "integration" || name == "testdata" || name[0] == '.'):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("// planted-bug ")) && marker.Match(text) { // to match all of it takes seconds
			files[path] = string(text)
		}
		return err
	})
}

// Root is the root of the repository: of the module that the working directory is in.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/lockkeeper/lockkeeper").Output()
	if err != nil {
		return "", fmt.Errorf("bugs: find the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
