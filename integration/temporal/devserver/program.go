package devserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Version is that of Temporal's program, of which the server is a part. It is the one in
// integration/temporalserver/go.mod.
const Version = "1.5.1"

// Find returns the path of Temporal's program: $TEMPORAL_CLI, and only when that is unset the one that `make setup`
// builds, lockkeeper/temporal-<version> in $XDG_CACHE_HOME or ~/.cache. The error says what to do.
func Find() (string, error) {
	if named := os.Getenv("TEMPORAL_CLI"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "",
				fmt.Errorf("devserver: TEMPORAL_CLI=%s cannot be run: correct it, or unset it to use what `make setup` builds: %w",
					named, err)
		}
		return path, nil
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath(filepath.Join(cache, "lockkeeper", "temporal-"+Version))
	if err != nil {
		return "", fmt.Errorf("devserver: no Temporal server here: run `make setup`, "+
			"or set TEMPORAL_CLI to Temporal's program `temporal`: %w", err)
	}
	return path, nil
}

// cacheDir is the same place as scripts/setup.sh writes to.
func cacheDir() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir, nil
	}
	home := os.Getenv("HOME")
	if home == "" {
		return "",
			errors.New("devserver: neither XDG_CACHE_HOME nor HOME is set: set TEMPORAL_CLI to Temporal's program `temporal`")
	}
	return filepath.Join(home, ".cache"), nil
}
