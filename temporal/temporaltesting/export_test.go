package temporaltesting

import (
	"io/fs"
	"testing"
	"time"
)

// Hurry bounds what is waited for.
func (l *Locks) Hurry(patience time.Duration) { l.tracker.patience = patience }

// ReplayFile replays one file.
func ReplayFile(t *testing.T, histories fs.FS, file string, workflows ...Named) error {
	t.Helper()
	all := make([]any, len(workflows))
	for i, w := range workflows {
		all[i] = w
	}
	return replay(histories, file, all, New(t).Plugin())
}

// HistoryFiles lists what is replayed.
func HistoryFiles(t *testing.T, histories fs.FS) []string {
	t.Helper()
	files, err := historyFiles(histories)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
