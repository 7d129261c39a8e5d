package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// The second build finds in the cache what does not depend on where it is: what does, is built anew, and differs.
func TestProgramIsTheSameWhereverItIsBuilt(t *testing.T) {
	t.Parallel()
	short, long := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "a", "longer", "path")
	copySources(t, short, long)

	first, second := build(t, short), build(t, long)

	require.Equal(t, sum(t, first), sum(t, second), "two builds differ: something in them depends on the path")
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		out, err := exec.Command(first, "version").Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "lockkeeper v1.2.3\n")
	}
}

// build builds what the sources in a directory are, and returns the file.
func build(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lockkeeper")
	cmd := exec.Command("bash", "scripts/build.sh", "1.2.3", "linux", "amd64", file)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=") // those of the script alone
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return file
}

// copySources copies what the program is built from.
func copySources(t *testing.T, into ...string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,GoFiles,EmbedFiles,Module", "./cmd/lockkeeper")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := cmd.Output()
	require.NoError(t, err)
	files := []string{"go.mod", "go.sum", "scripts/build.sh"}
	base, err := filepath.Abs(root)
	require.NoError(t, err)
	base, err = filepath.EvalSymlinks(base)
	require.NoError(t, err)
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                 string
			GoFiles, EmbedFiles []string
			Module              *struct{ Main bool }
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		dir, err := filepath.Rel(base, p.Dir)
		require.NoError(t, err)
		for _, name := range append(p.GoFiles, p.EmbedFiles...) {
			files = append(files, filepath.Join(dir, name))
		}
	}
	for _, dir := range into {
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			file := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, text, 0o644))
		}
	}
}

func sum(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	all := sha256.Sum256(text)
	return hex.EncodeToString(all[:])
}
