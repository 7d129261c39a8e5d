package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list of promises names, for each promise of the page on safety, only tests that there are, where it
// says that they are. Both pages name only files, suites and sources that there are.
func TestSafetyNamesOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	page := read(t, "safety.md") + read(t, "../integration/promises.md")
	everywhere := everyTest(t)
	var missing []string
	miss := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }

	// then each test is in the package that it is said to be in
	promises, listed := map[string]int{}, map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\|(P\d+)\|`).FindAllStringSubmatch(page, -1) {
		promises[row[1]]++
	}
	for _, entry := range regexp.MustCompile(`(?m)^- \*\*(P\d+)\*\* .*\n((?:  .*\n)+)`).FindAllStringSubmatch(page, -1) {
		listed[entry[1]]++
		for part := range strings.SplitSeq(strings.TrimPrefix(entry[2], "  - "), "\n  - ") {
			dir, names, _ := strings.Cut(part, ": ")
			found := regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(names, -1)
			if len(found) == 0 {
				miss("%s: no test in %q", entry[1], part)
			}
			for _, name := range found {
				if !slices.Contains(everywhere[name[1]], dir) {
					miss("%s: %s in %s", entry[1], name[1], dir)
				}
			}
		}
	}
	require.NotEmpty(t, promises)
	require.Equal(t, promises, listed, "tests of each promise")

	// so is whatever else is named
	for _, code := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page, -1) {
		switch name := code[1]; {
		case regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`).MatchString(name):
			if everywhere[name] == nil {
				miss("%s", name)
			}
		case isPath(name):
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				miss("%s", name)
			}
		}
	}
	for name := range everywhere {
		if strings.HasPrefix(name, "Fuzz") && !strings.Contains(page, "`"+name+"`") {
			miss("%s is not named", name)
		}
	}

	// and the page that compares uses each source that it lists, and no other
	told, used := map[string]bool{}, map[string]bool{}
	comparison := read(t, "comparison.md")
	for _, source := range regexp.MustCompile(`(?m)^- ([A-Z]\d+): .*\]\(http`).FindAllStringSubmatch(comparison, -1) {
		told[source[1]] = true
	}
	for _, source := range regexp.MustCompile(`\[([A-Z]\d+)\]`).FindAllStringSubmatch(comparison, -1) {
		used[source[1]] = true
	}
	require.NotEmpty(t, told)
	require.Equal(t, told, used)

	require.Empty(t, missing, strings.Join(missing, "\n"))
}

// isPath reports whether that is a path of the repository: its first part is.
func isPath(name string) bool {
	if strings.HasPrefix(name, "bin/") || strings.HasPrefix(name, "dist/") {
		return false // what runs leave there
	}
	first, rest, found := strings.Cut(name, "/")
	if !found || rest == "" || !regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+$`).MatchString(name) {
		return false
	}
	info, err := os.Stat(filepath.Join("..", first))
	return err == nil && info.IsDir()
}

// isHidden reports whether that is a directory such as git's own, in which files come and go.
func isHidden(entry fs.DirEntry) bool {
	return entry.IsDir() && len(entry.Name()) > 2 && entry.Name()[0] == '.'
}

// everyTest is the directories of each test and fuzz target.
func everyTest(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case isHidden(entry):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel("..", filepath.Dir(path))
		for line := range strings.Lines(read(t, path)) {
			rest, found := strings.CutPrefix(line, "func ")
			name, _, _ := strings.Cut(rest, "(")
			if found && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")) {
				all[name] = append(all[name], filepath.ToSlash(dir))
			}
		}
		return err
	}))
	return all
}
