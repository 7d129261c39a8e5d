package docs

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The comment of a package says what it is for, the one idea and an example, in 25 lines; that of recipes has the map of its rooms.
func TestPackageCommentsAreShort(t *testing.T) {
	t.Parallel()
	seen := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && isHidden(entry):
			return fs.SkipDir
		case err != nil || entry.IsDir() || entry.Name() != "doc.go":
			return err
		}
		seen++
		most := 25
		if filepath.ToSlash(path) == "../recipes/doc.go" {
			most = 35
		}
		if lines := strings.Count("\n"+read(t, path), "\n//"); lines > most {
			t.Errorf("%s: %d lines of comment, %d at most; the rest belongs to the comment of a type, or into a page", path, lines, most)
		}
		return nil
	}))
	require.Greater(t, seen, 60)
}
