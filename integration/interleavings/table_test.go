package interleavings

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table in doc.go has a line for each interleaving, and names only tests
// that there are.
func TestTableOfInterleavingsIsComplete(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("doc.go")
	require.NoError(t, err)

	// given the tests that there are
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	tests := make(map[string]bool)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
		}
	}

	// then those of the table are among them
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(table), -1) {
		require.True(t, tests[name], "there is no %s", name)
	}

	// and each interleaving has its line
	for n := range 38 {
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^//\t *%d  (Test|none: )`, n+1))
		require.Len(t, line.FindAll(table, -1), 1, "interleaving %d", n+1)
	}
}
