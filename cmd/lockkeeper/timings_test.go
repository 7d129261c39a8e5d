package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/timings"
	"github.com/lockkeeper/lockkeeper/priority"
)

func TestWhatTheDaemonMeasuresIsInItsStateDirectoryAtTheEnd(t *testing.T) {
	// given
	dir := filepath.Join(t.TempDir(), "state")
	observe, stop := measure(dir, slog.New(slog.DiscardHandler))
	about := lockguard.Subject{At: time.Now(), ID: "1", Identity: priority.Identity{Owner: "compact"}, Scope: "cluster/orders"}

	// when
	observe(t.Context(), lockguard.Event{Subject: about, Notice: lockguard.Acquired{}})
	observe(t.Context(), lockguard.Event{Subject: about, Notice: lockguard.Released{Held: time.Minute}})
	stop()

	// then
	stats, problems := timings.Read(dir)
	require.Empty(t, problems)
	seen := stats[timings.Key{Owner: "compact", Scope: "cluster/orders"}]
	require.NotNil(t, seen)
	require.Equal(t, time.Minute, seen.Hold.Max())
}

func TestDaemonGoesOnWithoutItsStateDirectory(t *testing.T) {
	// given
	var log bytes.Buffer
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for _, dir := range []string{"", filepath.Join(file, "state")} {
		// when
		observe, stop := measure(dir, slog.New(slog.NewTextHandler(&log, nil)))

		// then
		require.Nil(t, observe)
		stop()
	}
	require.Contains(t, log.String(), "nothing is measured for lockkeeper jobs advise")
}
