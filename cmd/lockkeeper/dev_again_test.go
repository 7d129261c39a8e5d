package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramIsStartedAgainFromAnywhere(t *testing.T) {
	require.Equal(t, startAgain{program: "/opt/bin/lockkeeper"}, again("/opt/bin/lockkeeper", "/work", "/tmp"))
	require.Equal(t, startAgain{program: "'/opt/my tools/lockkeeper'"}, again("/opt/my tools/lockkeeper", "/work", "/tmp"))
	require.Equal(t, startAgain{program: "/srv/go-build7/lockkeeper"}, again("/srv/go-build7/lockkeeper", "/work", "/tmp"))
}

func TestWhatGoRunHasBuiltIsBuiltAgain(t *testing.T) {
	dir := t.TempDir()
	built := "/tmp/go-build2154/b001/exe/lockkeeper"

	require.Equal(t, startAgain{dir: dir, program: "go run github.com/lockkeeper/lockkeeper/cmd/lockkeeper"}, again(built, dir, "/tmp"))

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "cmd", "lockkeeper"), 0o755))
	require.Equal(t, startAgain{dir: dir, program: "go run ./cmd/lockkeeper"}, again(built, dir, "/tmp"))
}

func TestWordsAreQuotedForAShell(t *testing.T) {
	require.Equal(t, "/a/b-c.d:1,2", quote("/a/b-c.d:1,2"))
	require.Equal(t, "''", quote(""))
	require.Equal(t, `'$HOME'`, quote("$HOME"))
	require.Equal(t, `'it'\''s'`, quote("it's"))
}
