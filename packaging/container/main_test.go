package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const version = "1.2.3"

// TestMain runs the tests, or plays process 1 of a container.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == containerRole {
		fmt.Fprintln(os.Stderr, "container:", playContainer(os.Args[2:]))
		os.Exit(100)
	}
	dir, err := os.MkdirTemp("", "lockkeeper-container-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	compiled = sync.OnceValues(func() (string, error) {
		file := filepath.Join(dir, "lockkeeper")
		return file, compileInto(context.Background(), file)
	})
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// compiled is the program of the image, compiled once.
var compiled func() (string, error)

func program(t *testing.T) string {
	t.Helper()
	file, err := compiled()
	require.NoError(t, err)
	return file
}

// compileInto runs the Dockerfile's build for this machine.
func compileInto(ctx context.Context, file string) error {
	recipe, err := Read(filepath.Join(root, "Dockerfile"), nil)
	if err != nil {
		return err
	}
	return (&Options{Root: root, Version: version}).compile(ctx, recipe, runtime.GOARCH, file)
}
