//go:build release

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	first   = flag.String("first", "", "directory with a release")
	second  = flag.String("second", "", "directory with another build of it")
	version = flag.String("version", "", "its version")
	update  = flag.Bool("update", false, "write testdata anew")
)

var platforms = []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"}

func TestBytesOfTwoBuildsAreTheSameInARelease(t *testing.T) {
	names := files(t, *first)
	require.Equal(t, names, files(t, *second))
	for _, name := range names {
		require.Equal(t, sum(t, filepath.Join(*first, name)), sum(t, filepath.Join(*second, name)), name)
	}
}

func TestChecksumsAreOfAllFilesOfARelease(t *testing.T) {
	sums := "lockkeeper_" + *version + "_SHA256SUMS"
	text, err := os.ReadFile(filepath.Join(*first, sums))
	require.NoError(t, err)
	var named []string
	for line := range strings.Lines(string(text)) {
		want, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, found, line)
		require.Equal(t, want, sum(t, filepath.Join(*first, name)), name)
		named = append(named, name)
	}
	slices.Sort(named)
	require.Equal(t, slices.DeleteFunc(files(t, *first), func(name string) bool { return name == sums }), named)
	for _, arch := range []string{"amd64", "arm64"} {
		require.True(t, slices.ContainsFunc(named, func(name string) bool { return strings.HasSuffix(name, "_"+arch+".deb") }), "%s has no package", arch)
	}
}

func TestContentsOfTheArchivesOfARelease(t *testing.T) {
	golden := filepath.Join("testdata", "archive.txt")
	for _, platform := range platforms {
		dir := "lockkeeper_" + *version + "_" + platform + "/"
		var got strings.Builder
		pages := 0
		for _, entry := range entries(t, platform) {
			name, ok := strings.CutPrefix(entry.Name, dir)
			require.True(t, ok, entry.Name)
			require.Equal(t, "root root", entry.Uname+" "+entry.Gname, name)
			if strings.HasPrefix(name, "man/man1/lockkeeper") && strings.HasSuffix(name, ".1") { // one for each command
				if pages++; pages > 1 {
					continue
				}
				name = "man/man1/lockkeeper*.1"
			}
			got.WriteString(entry.FileInfo().Mode().String() + " " + name + "\n")
		}
		require.Greater(t, pages, 50)
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got.String(), platform)
	}
}

// What go version -m lists is what is linked.
func TestBillsOfMaterialsListWhatIsLinkedInARelease(t *testing.T) {
	for _, platform := range platforms {
		linked := program(t, platform)
		require.True(t, bytes.Contains(linked, []byte("v"+*version)), "the program does not know its version")
		info, err := buildinfo.Read(bytes.NewReader(linked))
		require.NoError(t, err)
		require.NotEmpty(t, setting(info, "vcs.revision"))
		want := []string{}
		for _, m := range info.Deps {
			want = append(want, m.Path+" "+m.Version)
		}
		slices.Sort(want)

		var bom struct {
			Metadata   struct{ Component struct{ Version string } }
			Components []struct{ Name, Version string }
		}
		text, err := os.ReadFile(filepath.Join(*first, "lockkeeper_"+*version+"_"+platform+".cdx.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &bom))
		var got []string
		for _, c := range bom.Components {
			if c.Name != "std" {
				got = append(got, c.Name+" "+c.Version)
			}
		}
		slices.Sort(got)
		require.Equal(t, want, got, platform)
		require.Equal(t, len(want)+1, len(bom.Components), "the standard library is a component")
		require.Equal(t, "v"+*version, bom.Metadata.Component.Version)
	}
}

func TestPackagesHaveTheProgramOfTheArchivesOfARelease(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		debs, err := filepath.Glob(filepath.Join(*first, "*_"+arch+".deb"))
		require.NoError(t, err)
		require.Len(t, debs, 1)
		dir := t.TempDir()
		out, err := exec.Command("dpkg-deb", "--extract", debs[0], dir).CombinedOutput()
		require.NoError(t, err, string(out))
		packaged, err := os.ReadFile(filepath.Join(dir, "usr/bin/lockkeeper"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(program(t, "linux_"+arch), packaged), arch)
	}
}

func setting(info *buildinfo.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range all {
		require.True(t, f.Type().IsRegular(), f.Name())
		names = append(names, f.Name())
	}
	return names
}

// walk reads the archive of a platform.
func walk(t *testing.T, platform string, look func(h *tar.Header, r io.Reader)) {
	t.Helper()
	file, err := os.Open(filepath.Join(*first, "lockkeeper_"+*version+"_"+platform+".tar.gz"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		look(h, r)
	}
}

func entries(t *testing.T, platform string) (all []*tar.Header) {
	t.Helper()
	walk(t, platform, func(h *tar.Header, _ io.Reader) { all = append(all, h) })
	slices.SortFunc(all, func(a, b *tar.Header) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func program(t *testing.T, platform string) (text []byte) {
	t.Helper()
	walk(t, platform, func(h *tar.Header, r io.Reader) {
		if strings.HasSuffix(h.Name, "/lockkeeper") {
			var err error
			text, err = io.ReadAll(r)
			require.NoError(t, err)
		}
	})
	return text
}
