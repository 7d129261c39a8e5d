package orders

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRestorePutsBackWhatWasChanged(t *testing.T) {
	set := create(t)
	before, err := readDir(set.path(dataDir))
	require.NoError(t, err)
	change := begin(t, set, 5)
	require.NoError(t, change.Move(7, 900, 100))
	rewrite(t, change, "03.txt", "04.txt")

	files, err := set.Restore(5)

	require.NoError(t, err)
	require.Equal(t, 4, files)
	after, err := readDir(set.path(dataDir))
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.True(t, verify(t, set).Sound())
	files, err = set.Restore(5)
	require.NoError(t, err)
	require.Zero(t, files, "there is nothing left to restore")
}

func TestCommittedChangeIsNotRestored(t *testing.T) {
	set := create(t)
	compact(t, set, 5)

	files, err := set.Restore(5)

	require.NoError(t, err)
	require.Zero(t, files)
	require.Equal(t, 2, verify(t, set).Generation)
}

func TestNextJobPutsBackWhatADeadOneLeft(t *testing.T) {
	for name, next := range map[string]func(*testing.T, *Set){
		"a writer":                     func(t *testing.T, set *Set) { compact(t, set, 6) },
		"a backup":                     func(t *testing.T, set *Set) { backUp(t, set, 6) },
		"a backup after one that died": func(t *testing.T, set *Set) { beginBackup(t, set, 6); backUp(t, set, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			set := create(t)
			rewrite(t, begin(t, set, 5), "03.txt", "04.txt") // and dies
			next(t, set)
			require.Empty(t, verify(t, set).Problems)
		})
	}
}

func TestSettlingPutsBackWhatADeadOneLeftAndKeepsTheRest(t *testing.T) {
	set := create(t)
	compact(t, set, 5)
	backUp(t, set, 6)
	rewrite(t, begin(t, set, 7), "03.txt", "04.txt") // and dies
	want := 2 + 1

	require.NoError(t, os.WriteFile(set.path(backupsDir, "backup-000002.tar"+partialSuffix), []byte("half of it"), 0o600))
	require.False(t, verify(t, set).Sound())
	files, err := set.Settle()

	require.NoError(t, err)
	require.Equal(t, want, files)
	report := verify(t, set)
	require.Empty(t, report.Problems)
	require.Equal(t, 2, report.Generation)
	require.Equal(t, 1, report.Backups)
}

func TestNewestBackupsAreKept(t *testing.T) {
	set := create(t)
	var names []string
	for token := range int64(backupsKept + 2) {
		names = append(names, backUp(t, set, token+1))
	}

	kept, err := set.backups()

	require.NoError(t, err)
	require.Equal(t, names[2:], kept)
	require.Empty(t, verify(t, set).Problems)
	entries, err := os.ReadDir(set.path(backupsDir))
	require.NoError(t, err)
	require.Len(t, entries, 2*backupsKept, "with their checksums")
}

func TestDirectoryOfSomebodyElseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "theirs"), 0o755))

	_, err := Create(dir)

	require.EqualError(t, err, "create the data set: "+dir+" is not empty; name a new directory")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestCopyOfTheOldFilesThatIsNotCompleteIsNotRestored(t *testing.T) {
	set := create(t)
	require.NoError(t, os.Mkdir(set.path(undoDraftDir), 0o755))
	require.NoError(t, os.WriteFile(set.path(undoDraftDir, "00.txt"), []byte("half of it"), 0o600))

	compact(t, set, 5)

	require.Empty(t, verify(t, set).Problems)
}

func TestWriterWithAnOlderTokenIsRefused(t *testing.T) {
	set := create(t)
	late := begin(t, set, 5)
	rewrite(t, late, "03.txt")
	correct(t, set, 9, 7, 900, 100) // took the lock
	want := verify(t, set)

	for name, write := range map[string]func() error{
		"write":   func() error { return late.Write("04.txt", nil) },
		"commit":  func() error { return late.Commit() },
		"restore": func() error { _, err := set.Restore(5); return err },
		"begin":   func() error { _, err := set.Begin("late", 5); return err },
		"backup":  func() error { _, err := set.BeginBackup(5); return err },
		"discard": func() error { _, err := set.Discard(5); return err },
	} {
		var fenced *FencedError
		require.ErrorAs(t, write(), &fenced, name)
		require.Equal(t, FencedError{Token: 5, Latest: 9}, *fenced, name)
	}
	require.Equal(t, want, verify(t, set))
	require.True(t, want.Sound())
}
