package packages

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory is a system that is being made, as debootstrap and makers of images do: nothing runs there.
func TestPackageComesAndGoesWhereThereIsNoSystemd(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info", "var/log", "etc/systemd/system"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	dpkg := func(args ...string) string {
		return output(t, "dpkg", append([]string{
			"--root=" + root, "--log=" + filepath.Join(root, "var/log/dpkg.log"),
			"--force-script-chrootless", "--force-not-root", "--force-depends", "--force-bad-path",
		}, args...)...)
	}
	before := filesBelow(t, root)

	dpkg("--install", build(t, earlier))
	settings := filepath.Join(root, "etc/lockkeeper/lockkeeper.yaml")
	sample, err := os.ReadFile(settings)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(settings, append(sample, "# mine\n"...), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/lockkeeper/second.yaml"), sample, 0o644))

	// An upgrade and a removal keep what the operator wrote.
	dpkg("--install", build(t, later))
	require.Contains(t, output(t, "dpkg-query", "--admindir="+filepath.Join(root, "var/lib/dpkg"), "--show", "lockkeeper"), later)
	dpkg("--remove", "lockkeeper")
	kept, err := os.ReadFile(settings)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(kept), "# mine\n"))
	require.NoFileExists(t, filepath.Join(root, "usr/bin/lockkeeper"))

	// A purge leaves nothing: no configuration, no state, no enabled unit.
	for _, dir := range []string{"var/lib/private/lockkeeper", "var/lib/lockkeeper@second", "var/log/lockkeeper", "etc/systemd/system/multi-user.target.wants"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	require.NoError(t, os.Symlink("/usr/lib/systemd/system/lockkeeper@.service", filepath.Join(wants, "lockkeeper@second.service")))
	dpkg("--purge", "lockkeeper")
	require.NoError(t, os.Remove(wants), "something is left there")
	require.NoError(t, os.Remove(filepath.Join(root, "var/lib/private")), "something is left there")
	require.Equal(t, before, filesBelow(t, root))
}

// filesBelow are the paths below a directory, without dpkg's own records.
func filesBelow(t *testing.T, root string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, root); !strings.HasPrefix(name, "/var/lib/dpkg") && name != "/var/log/dpkg.log" {
			all = append(all, name)
		}
		return err
	}))
	return all
}
