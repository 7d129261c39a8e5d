package zktest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

func TestDataDirKeepsNodesAndSessions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	first, err := Start(DataDir(dir), TTL())
	require.NoError(t, err)
	c := dial(t, first)
	c.create("/a", zkwire.Persistent)
	c.create("/a/n-", zkwire.EphemeralSequential)
	_, _ = c.do(zkwire.OpCreate, "/null", []byte(nil), tree.OpenACL, zkwire.Persistent)
	_, _ = c.do(zkwire.OpCreateTTL, "/brief", []byte{}, tree.OpenACL, zkwire.TTL, int64(1000))
	before, zxid := first.Tree("/"), first.Zxid()
	require.NoError(t, first.Close())

	second := RunT(t, DataDir(dir), TTL())

	require.Equal(t, before, second.Tree("/"))
	require.Equal(t, zxid, second.Zxid())
	require.Equal(t, c.session, c.reopen(second))
	require.Equal(t, "/a/n-0000000001", c.create("/a/n-", zkwire.EphemeralSequential), "the count goes on")
	require.NotEqual(t, c.session, dial(t, second).session)
	require.True(t, second.Expire(c.session))
	require.Len(t, second.Tree("/a"), 1, "it knows whose nodes these were")
}

func TestDataDirIsWrittenWhileTheServerRuns(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe(), DataDir(dir))
		require.NoError(t, s.Create("/a", nil))
		<-time.After(saveEvery)
		synctest.Wait()
		text, err := os.ReadFile(filepath.Join(dir, "zktest.json"))
		require.NoError(t, err)
		require.Contains(t, string(text), `"/a"`)
		require.NoError(t, s.Create("/b", nil))
		<-time.After(saveEvery)
		synctest.Wait()
		text, err = os.ReadFile(filepath.Join(dir, "zktest.json"))
		require.NoError(t, err)
		require.Contains(t, string(text), `"/b"`)
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing but the lock is left lying about")
}

func TestNumbersOfTransactionsAreNotGivenAgainAfterACrash(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	var lost int64
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe(), DataDir(dir))
		require.NoError(t, s.Create("/saved", nil))
		<-time.After(saveEvery)
		synctest.Wait()
		text, err := os.ReadFile(filepath.Join(dir, "zktest.json"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(crashed, "zktest.json"), text, 0o600))
		require.NoError(t, s.Create("/lost", nil))
		lost = s.Zxid()
	})
	first := firstSnapshot(t)
	require.Contains(t, first, `"clean":false`, "a crash may come at once")
	s := RunT(t, DataDir(crashed))
	require.Len(t, s.Tree("/saved"), 1)
	require.Empty(t, s.Tree("/lost"))
	require.Greater(t, s.Zxid(), lost)
}

// firstSnapshot is what a server writes before it serves.
func firstSnapshot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	RunT(t, DataDir(dir))
	text, err := os.ReadFile(filepath.Join(dir, "zktest.json"))
	require.NoError(t, err)
	return string(text)
}

func TestStateThatCouldNotBeSavedIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe(), DataDir(dir))
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, s.Create("/a", nil))
		<-time.After(saveEvery)
		synctest.Wait()
		require.NoError(t, os.Mkdir(dir, 0o700))
		<-time.After(saveEvery)
		synctest.Wait()
		require.FileExists(t, filepath.Join(dir, "zktest.json"))
	})
}

func TestDamagedDataIsRefusedAndNotTouched(t *testing.T) {
	for name, text := range map[string]string{
		"no json":    "{",
		"other form": `{"format":99}`,
		"no root":    `{"format":1,"tree":{"nodes":[]}}`,
		"orphan":     `{"format":1,"tree":{"nodes":[{"path":""},{"path":"/zookeeper"},{"path":"/a/b"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "zktest.json")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

			_, err := Start(DataDir(filepath.Dir(path)))

			refused := &DataDirError{}
			require.ErrorAs(t, err, &refused)
			require.Equal(t, filepath.Dir(path), refused.Dir)
			require.ErrorContains(t, err, "zktest.json")
			require.ErrorContains(t, err, "delete it")
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, text, string(left))
		})
	}
}

func TestDataDirBelongsToOneServerAtATime(t *testing.T) {
	dir := t.TempDir()
	first, err := Start(DataDir(dir))
	require.NoError(t, err)
	_, err = Start(DataDir(dir))
	require.ErrorContains(t, err, "zktest: data directory "+dir+": in use by another server")
	require.NoError(t, first.Close())
	RunT(t, DataDir(dir))
}

func TestCloseTellsThatTheStateCouldNotBeSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s, err := Start(DataDir(dir))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, s.Create("/a", nil))
	require.ErrorContains(t, s.Close(), "zktest: close: ")
}
