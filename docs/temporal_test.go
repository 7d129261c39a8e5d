package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of what is tested with Temporal has each line once, and names tests
// that there are, where it says that they are.
func TestTableOfTemporalScenariosNamesOnlyTestsThatThereAre(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(read(t, "../integration/temporal/README.md"), "\n## What is tested\n")
	require.True(t, found)
	all := everyTest(t)
	suites := map[string]string{
		"integration": "integration/temporal", "peers": "integration/temporal/peers", "temporal": "temporal", "temporaltesting": "temporal/temporaltesting",
	}
	rows := regexp.MustCompile(`(?m)^\|(S\d+)\|.*\|(.*)\|$`).FindAllStringSubmatch(table, -1)
	require.Len(t, rows, strings.Count(table, "\n|S"))
	for i, row := range rows {
		require.Equal(t, fmt.Sprintf("S%d", i+1), row[1])
		for part := range strings.SplitSeq(row[2], "; ") {
			suite, names, _ := strings.Cut(part, ": ")
			require.Contains(t, suites, suite, row[1])
			tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(names, -1)
			require.NotEmpty(t, tests, row[1])
			for _, name := range tests {
				require.Contains(t, all[name[1]], suites[suite], "%s: there is no %s in %s", row[1], name[1], suite)
			}
		}
	}
}
