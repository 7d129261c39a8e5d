package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock/model"
)

func TestTablesAreWrittenIntoTheDocument(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "model.md")
	const before = `# The model

<!-- guards -->
| guard | kind | states | steps | where |
|---|---|---|---|---|
| an old one | safety | 1 | 1 | there |
<!-- end -->

Between.

<!-- configurations -->
| configuration | states | steps | seconds |
|---|---|---|---|
<!-- end -->

After.
`
	require.NoError(t, os.WriteFile(file, []byte(before), 0o600))

	var rows tables
	rows.missed(model.Report{
		Config: "two clients", Without: model.Without(model.VersionInT1), States: 1234567, Violation: "it breaks", Kind: "safety", Trace: []string{"a", "b"},
	})
	rows.redundant(model.Without(model.VersionInT10), "another stands in")
	rows.visited(model.Report{Config: "two clients", States: 999, Depth: 7, Took: 1600 * time.Millisecond})
	require.NoError(t, rows.write(file))

	const after = `# The model

<!-- guards -->
| guard | kind | states | steps | where |
|---|---|---|---|---|
| v in T1 | safety | 1,234,567 | 2 | two clients: it breaks |
| v in T10 | not found | | | another stands in |
<!-- end -->

Between.

<!-- configurations -->
| configuration | states | steps | seconds |
|---|---|---|---|
| two clients | 999 | 7 | 2 |
<!-- end -->

After.
`
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, after, string(got))
}

func TestTablesWithoutAPlaceAreAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "model.md")
	require.NoError(t, os.WriteFile(file, []byte("# Nothing here\n"), 0o600))
	require.ErrorContains(t, new(tables).write(file), "no table after <!-- guards -->")
}
