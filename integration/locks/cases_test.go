package locks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of cases in doc.go names each case once, and only tests that there
// are.
func TestTableOfCasesIsComplete(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("doc.go")
	require.NoError(t, err)

	// given the tests that there are
	tests := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../helix/*_test.go", "../../recipes/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
				tests[string(match[1])] = true
			}
		}
	}

	// then those of the table are among them
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(table), -1) {
		require.True(t, tests[name], "there is no %s", name)
	}

	// and each case has its line
	for _, suite := range []struct {
		name string
		last int
	}{{"M", 9}, {"X", 3}, {"L", 2}, {"A", 2}, {"K", 15}, {"T", 5}, {"H", 9}, {"Z", 3}, {"N", 15}} {
		for n := range suite.last {
			line := regexp.MustCompile(fmt.Sprintf(`(?m)^//\t%s%d +(Test|none: )`, suite.name, n+1))
			require.Len(t, line.FindAll(table, -1), 1, "case %s%d", suite.name, n+1)
		}
	}
}
