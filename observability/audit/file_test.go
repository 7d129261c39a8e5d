package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileThatOthersCanChangeOrChooseIsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		require.NoError(t, os.Chmod(name, mode))
		return name
	}
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	require.NoError(t, os.Symlink(at("target", 0o600), link))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), dangling))
	for name, want := range map[string]string{
		link:             link + " is a symbolic link: anyone who can change it chooses what is written; name the file that it leads to",
		dangling:         dangling + " is a symbolic link: anyone who can change it chooses what is written; name the file that it leads to",
		at("all", 0o666): filepath.Join(dir, "all") + " is writable by all users (-rw-rw-rw-), so that it shows nothing; save it elsewhere, see who has changed it, then chmod 600 " + filepath.Join(dir, "all"),
	} {
		_, err := New(Config{Trail: &fakeTrail{}, File: name})
		require.EqualError(t, err, "audit: the file for records cannot be used: "+want)
	}
	require.NoFileExists(t, filepath.Join(dir, "nowhere"))

	// while one that is for a group to read, or not there, is taken
	for _, name := range []string{at("group", 0o640), filepath.Join(dir, "new")} {
		require.NoError(t, newAuditor(t, Config{Trail: &fakeTrail{}, File: name}).Close(t.Context()))
	}
	made, err := os.Stat(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), made.Mode())
}

func TestLinkInTheNameOfAFileThatWasRotatedIsNotFollowed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	f := &file{name: name}
	require.NoError(t, f.open())
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, nil, 0o600))

	// when
	require.NoError(t, os.Rename(name, name+".1"))
	require.NoError(t, os.Symlink(elsewhere, name))
	f.mu.Lock()
	err := f.follow()
	f.mu.Unlock()

	// then
	require.ErrorContains(t, err, "is a symbolic link")
	require.NoError(t, f.close())
}
