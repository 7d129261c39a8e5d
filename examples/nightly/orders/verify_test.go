package orders

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewDataSetIsSound(t *testing.T) {
	set := create(t)

	report := verify(t, set)

	require.Empty(t, report.Problems)
	require.Equal(t, 1, report.Generation)
	require.Equal(t, Count, report.Orders)
}

func TestJobsOneAfterTheOtherKeepTheDataSetSound(t *testing.T) {
	set := create(t)
	sum := verify(t, set).Cents

	backUp(t, set, 2)
	correct(t, set, 3, 7, 900, 550)
	correct(t, set, 4, 7, 8, 1)
	compact(t, set, 5)
	backUp(t, set, 6)
	correct(t, set, 7, 8, 7, 100)

	report := verify(t, set)
	require.Empty(t, report.Problems)
	require.Equal(t, Report{Generation: 5, Orders: Count, Cents: sum, Corrections: 6, Backups: 2}, report)
}

func TestCompactionKeepsTheNewestVersionOnly(t *testing.T) {
	set := create(t)
	correct(t, set, 1, 7, 8, 100)
	correct(t, set, 2, 7, 8, 100)

	compact(t, set, 3)

	files, err := readDir(set.path(dataDir))
	require.NoError(t, err)
	s, err := decodeSegment(files[segmentOf(7)])
	require.NoError(t, err)
	require.Len(t, s.records, ordersEach)
	require.Equal(t, Record{Order: 7, Version: 3, Cents: firstPrice(7) - 200}, s.records[7])
}

func TestBackupDuringACompactionIsNoticed(t *testing.T) {
	set := create(t)
	backup, err := set.BeginBackup(0)
	require.NoError(t, err)
	files := backup.Files()
	add(t, backup, files[:5]...)

	compact(t, set, 0)

	add(t, backup, files[5:]...)
	require.NoError(t, backup.Finish())
	problems := verify(t, set).Problems
	require.Len(t, problems, 1, "the data set itself is sound")
	require.Contains(t, problems[0], "cannot be used: journal.txt ends with generation 2, manifest.json has 1")
}

func TestEveryKindOfDamageIsNoticed(t *testing.T) {
	edit := func(name, old, replacement string) func(*testing.T, *Set) {
		return func(t *testing.T, set *Set) {
			data, err := os.ReadFile(set.path(dataDir, name))
			require.NoError(t, err)
			require.Contains(t, string(data), old)
			changed := strings.Replace(string(data), old, replacement, 1)
			require.NoError(t, os.WriteFile(set.path(dataDir, name), []byte(changed), 0o600))
		}
	}
	tests := map[string]struct {
		damage func(*testing.T, *Set)
		want   string
	}{
		"changed price":      {edit("00.txt", "v1 1000 ", "v1 1001 "), "segment 00.txt: \"000000 v1 1001 #eadfefee\" does not match its checksum"},
		"missing line":       {edit("00.txt", Record{Order: 3, Version: 1, Cents: firstPrice(3)}.String()+"\n", ""), "order 000003 is missing"},
		"line twice":         {edit("00.txt", "generation 2\n", "generation 2\n"+Record{Order: 3, Version: 1, Cents: 1111}.String()+"\n"), "segment 00.txt is not the one"},
		"order elsewhere":    {edit("01.txt", "generation 2\n", "generation 2\n"+Record{Order: 3, Version: 9, Cents: 1}.String()+"\n"), "order 000003 is in segment 01.txt"},
		"unknown order":      {edit("11.txt", "generation 2\n", "generation 2\n"+Record{Order: 1200, Version: 1, Cents: 1}.String()+"\n"), "order 001200 should not be there"},
		"later generation":   {edit("00.txt", "generation 2\n", "generation 9\n"), "segment 00.txt is of generation 9"},
		"no generation":      {edit("00.txt", "generation 2\n", ""), "segment 00.txt: it begins with"},
		"journal cut":        {edit(journalName, "2 token=5 compact\n", ""), "journal.txt ends with generation 1"},
		"generation twice":   {edit(journalName, "2 token=5 compact", "1 token=5 compact"), "generation 1 of compact comes after generation 1 of create"},
		"journal garbled":    {edit(journalName, "compact", ""), "is no entry of a journal"},
		"journal of another": {edit(journalName, "compact", "hotfix 000003:+1"), "order 000003 has lost a correction"},
		"older token":        {edit(journalName, "1 token=0 create", "1 token=6 create"), "token 5 of compact comes after token 6 of create"},
		"manifest garbled":   {edit(manifestName, "{", ""), "manifest.json cannot be read"},
		"change left":        {func(t *testing.T, s *Set) { begin(t, s, 6) }, "a change was left half done"},
		"backup left":        {func(t *testing.T, s *Set) { beginBackup(t, s, 6) }, ".partial was left half done"},
		"backup damaged": {func(t *testing.T, s *Set) {
			name := backUp(t, s, 6)
			require.NoError(t, os.WriteFile(name, []byte("no tar file"), 0o600))
		}, "cannot be used: it does not match its checksum"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set := create(t)
			compact(t, set, 5)
			require.Empty(t, verify(t, set).Problems)

			test.damage(t, set)

			require.Contains(t, strings.Join(verify(t, set).Problems, "\n"), test.want)
		})
	}
}

func create(t *testing.T) *Set {
	t.Helper()
	set, err := Create(t.TempDir())
	require.NoError(t, err)
	return set
}

func verify(t *testing.T, set *Set) Report {
	t.Helper()
	report, err := set.Verify()
	require.NoError(t, err)
	require.Equal(t, len(report.Problems) == 0, report.Sound())
	return report
}

func begin(t *testing.T, set *Set, token int64) *Change {
	t.Helper()
	change, err := set.Begin("test", token)
	require.NoError(t, err)
	return change
}

func rewrite(t *testing.T, change *Change, names ...string) {
	t.Helper()
	for _, name := range names {
		records, err := change.Read(name)
		require.NoError(t, err)
		require.NoError(t, change.Write(name, Latest(records)))
	}
}

func compact(t *testing.T, set *Set, token int64) {
	t.Helper()
	change, err := set.Begin("compact", token)
	require.NoError(t, err)
	rewrite(t, change, change.Segments()...)
	require.NoError(t, change.Commit())
}

func correct(t *testing.T, set *Set, token int64, from, to, cents int) {
	t.Helper()
	change, err := set.Begin("hotfix", token)
	require.NoError(t, err)
	require.NoError(t, change.Move(from, to, cents))
	require.NoError(t, change.Commit())
}

func beginBackup(t *testing.T, set *Set, token int64) *Backup {
	t.Helper()
	backup, err := set.BeginBackup(token)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backup.Close()) })
	return backup
}

func add(t *testing.T, backup *Backup, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, backup.Add(name))
	}
}

func backUp(t *testing.T, set *Set, token int64) (name string) {
	t.Helper()
	backup := beginBackup(t, set, token)
	add(t, backup, backup.Files()...)
	require.NoError(t, backup.Finish())
	return backup.name
}
