package timings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// ran is one run of the job.
func ran(s *Store, held time.Duration) { tell(&s.Recorder, "1").acquired(0).released(held, nil) }

func holds(stats Stats) uint64 {
	if s := stats[Key{"job", "s"}]; s != nil {
		return s.Hold.Count()
	}
	return 0
}

func TestTimingsSurviveARestart(t *testing.T) {
	// given
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	first := open(t, dir)
	ran(first, time.Minute)
	require.NoError(t, first.Close())

	// when
	second := open(t, dir)
	ran(second, time.Hour)

	// then
	require.Equal(t, first.Name(), second.Name())
	require.EqualValues(t, 2, holds(second.Stats()))
	require.NoError(t, second.Close())
	stats, problems := Read(dir)
	require.Empty(t, problems)
	require.Equal(t, second.Stats(), stats)
}

func TestProcessesThatShareADirectoryAreAddedUp(t *testing.T) {
	// given
	dir, other := t.TempDir(), t.TempDir()
	stores := []*Store{open(t, dir), open(t, dir), open(t, other)}
	require.NotEqual(t, stores[0].Name(), stores[1].Name())

	// when
	for _, s := range stores {
		ran(s, time.Minute)
		require.NoError(t, s.Close())
	}

	// then
	stats, problems := Read(dir, other)
	require.Empty(t, problems)
	require.EqualValues(t, 3, holds(stats))
}

func TestTimingsAreSavedOnceAMinuteIfThereIsAnythingNew(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		// given
		s := open(t, dir)
		ran(s, time.Minute)

		// when
		time.Sleep(saveEvery + time.Second)

		// then
		stats, _ := Read(dir)
		require.EqualValues(t, 1, holds(stats))

		// when
		require.NoError(t, os.Remove(s.Name()))
		time.Sleep(10 * saveEvery)

		// then
		require.NoFileExists(t, s.Name())
	})
}

func TestTornFileIsMovedAsideAndMeasuringBeginsAnew(t *testing.T) {
	whole := writtenFile(t)
	for _, size := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		t.Run(fmt.Sprintf("after %d bytes", size), func(t *testing.T) {
			// given
			dir := t.TempDir()
			s := open(t, dir)
			require.NoError(t, s.Close())
			require.NoError(t, os.WriteFile(s.Name(), whole[:size], 0o600))
			var log bytes.Buffer

			// when
			_, problems := Read(dir)
			again, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
			require.NoError(t, err)
			ran(again, time.Minute)
			require.NoError(t, again.Close())

			// then
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], s.Name())
			require.Contains(t, log.String(), "moved aside")
			require.FileExists(t, s.Name()+".corrupt")
			stats, problems := Read(dir)
			require.Empty(t, problems)
			require.EqualValues(t, 1, holds(stats))
		})
	}
}

func TestFileOfAnotherKindIsNoFileOfTimings(t *testing.T) {
	for _, text := range []string{`{}`, `{"version":2}`, `[]`, `{"version":1,"series":[{"weeks":{"now":{}}}]}`, `{"version":1,"series":[{"weeks":{"3":null}}]}`} {
		name := filepath.Join(t.TempDir(), "timings-a-1.json")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := readFile(name)
		require.ErrorIs(t, err, errCorrupt, text)
	}
}

// Opening a pipe without a writer blocks, perhaps for ever.
func TestPipeIsNotWaitedFor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	_, err := readFile(name)
	require.ErrorIs(t, err, errCorrupt)
	require.ErrorContains(t, err, "no regular file")
}

// A crash between the steps of a save leaves the file as it was before.
func TestCrashWhileSavingLeavesTheLastFile(t *testing.T) {
	// given
	dir := t.TempDir()
	s := open(t, dir)
	ran(s, time.Minute)
	require.NoError(t, s.Close())

	// when
	require.NoError(t, os.WriteFile(s.Name()+".new", []byte(`{"version":1,"ser`), 0o600))

	// then
	stats, problems := Read(dir)
	require.Empty(t, problems)
	require.EqualValues(t, 1, holds(stats))
	again := open(t, dir)
	ran(again, time.Minute)
	require.NoError(t, again.Close())
	require.EqualValues(t, 2, holds(again.Stats()))
	require.NoFileExists(t, s.Name()+".new")
}

func TestSaveThatFailsIsTriedAgain(t *testing.T) {
	// given
	dir := t.TempDir()
	s := open(t, dir)
	ran(s, time.Minute)
	require.NoError(t, os.Mkdir(s.Name(), 0o700)) // nothing can be renamed to it
	require.NoError(t, os.WriteFile(filepath.Join(s.Name(), "full"), nil, 0o600))

	// when
	require.Error(t, s.save())
	require.NoError(t, os.RemoveAll(s.Name()))
	require.NoError(t, s.save())

	// then
	stats, _ := Read(dir)
	require.EqualValues(t, 1, holds(stats))
}

func TestFilesOfProcessesThatAreGoneAreRemoved(t *testing.T) {
	// given
	dir := t.TempDir()
	alive := open(t, dir)
	ran(alive, time.Minute)
	require.NoError(t, alive.save())
	gone := filepath.Join(dir, "timings-old-1.json")
	require.NoError(t, os.WriteFile(gone, writtenFile(t), 0o600))
	long := time.Now().Add(-weeks * 7 * 24 * time.Hour)
	for _, name := range []string{gone, alive.Name()} {
		require.NoError(t, os.Chtimes(name, long, long))
	}

	// when
	open(t, dir)

	// then
	require.NoFileExists(t, gone)
	require.FileExists(t, alive.Name())
}

// Ten thousand jobs, each with four histograms of a hundred runs, take some MiB.
func TestTenThousandJobsAreAFewMiB(t *testing.T) {
	// given
	var r Recorder
	for run := range 100 {
		spread := time.Duration(1000+7*run) * time.Millisecond
		tell(&r, "1").acquired(spread).asked("outranked").after(spread).released(spread, nil)
	}
	for job := range 9_999 {
		r.ledger[Key{fmt.Sprintf("job-%d", job), "cluster/orders/resource/users"}] = r.ledger[Key{"job", "s"}]
	}
	taking := time.Now()
	l, _, _ := r.take()
	t.Logf("copied in %s", time.Since(taking))
	name := filepath.Join(t.TempDir(), "timings-a-1.json")

	// when
	began := time.Now()
	require.NoError(t, writeFile(name, l, time.Now()))

	// then
	info, err := os.Stat(name)
	require.NoError(t, err)
	t.Logf("%d KiB, written in %s", info.Size()>>10, time.Since(began))
	require.Less(t, info.Size(), int64(8<<20))
}

// writtenFile is what a store has written.
func writtenFile(t *testing.T) []byte {
	t.Helper()
	s := open(t, t.TempDir())
	ran(s, time.Minute)
	require.NoError(t, s.Close())
	text, err := os.ReadFile(s.Name())
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	return text
}
