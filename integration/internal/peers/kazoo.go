package peers

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FindKazoo returns a Python that has Kazoo: Debian's, else the one on PATH.
func FindKazoo(t *testing.T) string {
	t.Helper()
	python, err := LocateKazoo(t.Context())
	require.NoError(t, err)
	return python
}

// LocateKazoo is FindKazoo for programs. The error says what to do.
func LocateKazoo(ctx context.Context) (python string, err error) {
	var tried []string
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.CommandContext(ctx, python, "-c", "import kazoo.client").CombinedOutput()
		if err == nil {
			return python, nil
		}
		tried = append(tried, fmt.Sprintf("%s: %v %s", python, err, lastLine(string(out))))
	}
	return "", fmt.Errorf("no Python with Kazoo here: run `make setup`, which installs Debian's python3-kazoo; "+
		"on other systems install kazoo 2.8 or later for the python3 on PATH; tried:\n%s", strings.Join(tried, "\n"))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
