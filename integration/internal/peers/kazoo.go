package peers

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FindKazoo returns a Python that has Kazoo: Debian's, else the one on PATH.
func FindKazoo(t *testing.T) string {
	t.Helper()
	var tried []string
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.CommandContext(t.Context(), python, "-c", "import kazoo.client").CombinedOutput()
		if err == nil {
			return python
		}
		tried = append(tried, fmt.Sprintf("%s: %v %s", python, err, lastLine(string(out))))
	}
	require.FailNow(t, "no Python with Kazoo here: run `make setup`, which installs Debian's python3-kazoo; "+
		"on other systems install kazoo 2.8 or later for the python3 on PATH", "tried:\n%s", strings.Join(tried, "\n"))
	return ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
