package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyRatiosAreKept(t *testing.T) {
	t.Parallel()
	kept := exec.CommandContext(t.Context(), "awk", "-f", "../../scripts/ratios.awk")
	kept.Stdin = strings.NewReader(`goos: linux
goarch: amd64
pkg: example.com/bench
cpu: Some CPU
BenchmarkOwn
BenchmarkOwn/tmpfs/clients=1-2         	       1	      1203 create+delete/s	         0.9200 x_create+delete	         1.250 x_zk.Lock
BenchmarkPreemption/disk-2 	       1	      2500 cancel_p50_µs	         8.900 t_cancel_p50
BenchmarkMemory-2 	       1	      1300 B/held
    own_test.go:70: x_said 1 x_more
BenchmarkOwn/tmpfs/clients=1-2         	       1	      1300 create+delete/s	         0.9400 x_create+delete	         1.260 x_zk.Lock
PASS
ok  	example.com/bench	3.000s
`)
	out, err := kept.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, `Unit x_create+delete better=higher
Unit x_zk.Lock better=higher
Unit t_cancel_p50 better=lower
goos: linux
goarch: amd64
pkg: example.com/bench
cpu: Some CPU
BenchmarkOwn/tmpfs/clients=1-2 1 0.9200 x_create+delete 1.250 x_zk.Lock
BenchmarkPreemption/disk-2 1 8.900 t_cancel_p50
BenchmarkOwn/tmpfs/clients=1-2 1 0.9400 x_create+delete 1.260 x_zk.Lock
`, string(out))
}

func TestResultsOfReleasesAreRatios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("results/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files, "the last run is kept")
	line := regexp.MustCompile(`^(Unit [xt]_\S+ better=(higher|lower)|(goos|goarch|pkg|cpu): .*|Benchmark\S+ \d+( [\d.e+-]+ [xt]_\S+)+)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), "\nBenchmark", file)
		for l := range strings.Lines(string(text)) {
			require.Regexp(t, line, strings.TrimSuffix(l, "\n"), file)
		}
	}
}
