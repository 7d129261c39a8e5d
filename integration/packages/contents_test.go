package packages

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	listed = regexp.MustCompile(`^(\S+) (\S+) +\d+ \S+ \S+ \.(\S+)$`) // mode, owner, path
	page   = regexp.MustCompile(`^/usr/share/man/man1/lockkeeper[a-z-]*\.1\.gz$`)
	varies = regexp.MustCompile(`(?m)^ *(Version|Installed-Size|Architecture): .*\n`)
)

func TestContentsOfThePackageAreTheseFiles(t *testing.T) {
	t.Parallel()
	deb := build(t, earlier)
	var text strings.Builder
	pages := false
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", deb)) {
		file := listed.FindStringSubmatch(strings.TrimSpace(line))
		require.NotNil(t, file, line)
		if page.MatchString(file[3]) { // one for each command
			if file[3] = "/usr/share/man/man1/lockkeeper*.1.gz"; pages {
				continue
			}
			pages = true
		}
		_, _ = fmt.Fprintf(&text, "%s %s %s\n", file[1], file[2], file[3])
	}
	for _, name := range []string{"conffiles", "control"} {
		_, _ = fmt.Fprintf(&text, "\n%s:\n%s", name, varies.ReplaceAllString(output(t, "dpkg-deb", "--info", deb, name), ""))
	}
	golden(t, "contents.txt", text.String())
}

func TestSameCommitMakesTheSamePackage(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile(build(t, earlier))
	require.NoError(t, err)
	second, err := os.ReadFile(buildInto(t, earlier, t.TempDir()))
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(first), sha256.Sum256(second), "the packages differ")
}

func TestProgramOfThePackageNeedsNoLibraryAndAcceptsTheSample(t *testing.T) {
	t.Parallel()
	root := unpack(t, build(t, earlier))
	program := filepath.Join(root, "usr/bin/lockkeeper")
	headers, err := exec.CommandContext(t.Context(), "ldd", program).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(headers), "not a dynamic executable")
	require.Contains(t, output(t, program, "config", "validate", "-f", filepath.Join(root, "etc/lockkeeper/lockkeeper.yaml")), "is valid: 1 job\n")
}
