package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list of scenarios names each case once, and only tests that there are, in
// the suite that it says.
func TestListOfScenariosIsComplete(t *testing.T) {
	t.Parallel()
	list, all := read(t, "../integration/scenarios.md"), everyTest(t)
	suites := map[string]string{"recipes/classic": "recipes/classic", "recipes/group": "recipes/group"}
	for _, suite := range []string{
		"integration/locks", "integration/helix", "integration/interleavings", "integration/steps", "integration/virtualtime", "integration/foreign", "integration/classic",
		"integration/polyglot", "integration/groups",
		"lockguard", "recipes/lock", "recipes/assignment",
	} {
		suites[filepath.Base(suite)] = suite
	}

	// then the tests that it names are there
	rows := regexp.MustCompile(`(?m)^\|([A-Z]*\d+)\|(.*)\|$`).FindAllStringSubmatch(list, -1)
	cases := make(map[string]int)
	for _, row := range rows {
		cases[row[1]]++
		for part := range strings.SplitSeq(row[2], "; ") {
			suite, names, found := strings.Cut(part, ": ")
			require.True(t, found, "case %s: %s", row[1], part)
			require.Contains(t, suites, suite, "case %s", row[1])
			for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(names, -1) {
				require.Contains(t, all[name[1]], suites[suite], "case %s: there is no %s in %s", row[1], name[1], suite)
			}
		}
	}

	// and each case has its line
	for suite, last := range map[string]int{
		"M": 9, "X": 3, "L": 2, "A": 2, "SM": 2, "ML": 2, "R": 8, "S": 14, "E": 15, "K": 30, "T": 5, "H": 9, "Z": 3, "N": 15,
	} {
		for n := 1; n <= last; n++ {
			require.Equal(t, 1, cases[fmt.Sprint(suite, n)], "case %s%d", suite, n)
		}
	}
	for n := 20; n <= 32; n++ {
		require.Equal(t, 1, cases[fmt.Sprint(n)], "Helix case %d", n)
	}
}
