package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// BenchmarkEmbedded: the embedded server, inside the test's process as tests use
// it and in one of its own, and Apache's, without a disk to wait for: cycles of
// create and delete, start, memory.
func BenchmarkEmbedded(b *testing.B) {
	program := filepath.Join(b.TempDir(), "embedded")
	out, err := exec.Command("go", "build", "-o", program, "./embedded").CombinedOutput()
	require.NoError(b, err, string(out))
	begin := time.Now()
	apache := zkserver.Start(b, zkserver.WithOptimisingCompiler(), zkserver.WithHeap(1024))
	apacheStart := time.Since(begin)
	warm(b, apache.Addr())

	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			own := func(client int) string { return fmt.Sprintf("own-%d-%d", clients, client) }
			for b.Loop() {
				embedded := startEmbedded(b, program)
				inside := zktest.RunT(b)
				medians := rates(b, "", clients, own, nothing,
					at("inside", inside.Addr()), at("embedded", embedded.addr), at("apache", apache.Addr()))
				b.ReportMetric(medians["inside"]/medians["apache"], "x_inside/apache")
				b.ReportMetric(medians["embedded"]/medians["apache"], "x_embedded/apache")
				b.ReportMetric(medians["apache"], "apache-cycles/s")
				b.ReportMetric(float64(resident(b, embedded.pid))/(1<<20), "embedded-MiB")
				b.ReportMetric(float64(resident(b, apache.PID()))/(1<<20), "apache-MiB")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			var starts []time.Duration
			var idle uint64
			for range 21 {
				embedded := startEmbedded(b, program)
				starts = append(starts, embedded.start)
				idle = resident(b, embedded.pid)
			}
			slices.Sort(starts)
			b.ReportMetric(float64(starts[len(starts)/2])/1e6, "embedded-ms")
			b.ReportMetric(float64(apacheStart)/1e6, "apache-ms")
			b.ReportMetric(float64(idle)/(1<<20), "embedded-idle-MiB")
			b.ReportMetric(0, "ns/op")
		}
	})
}

// at is create and delete on one server.
func at(name, addr string) contestant {
	return contestant{name, func(t testing.TB, _ string, clients int) func(int, string, func()) error {
		return rawCycles(t, addr, clients)
	}}
}

type embeddedProcess struct {
	addr  string
	pid   int
	start time.Duration // until it served
}

func startEmbedded(b *testing.B, program string) embeddedProcess {
	b.Helper()
	command := exec.Command(program)
	stdin, err := command.StdinPipe()
	require.NoError(b, err)
	stdout, err := command.StdoutPipe()
	require.NoError(b, err)
	command.Stderr = os.Stderr
	require.NoError(b, command.Start())
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	var addr string
	var start int64
	_, err = fmt.Fscanln(stdout, &addr, &start)
	require.NoError(b, err)
	return embeddedProcess{addr: addr, pid: command.Process.Pid, start: time.Duration(start)}
}

// resident returns the memory of a process, in bytes.
func resident(b *testing.B, pid int) uint64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseUint(strings.Fields(value)[0], 10, 64)
			require.NoError(b, err)
			return kib << 10
		}
	}
	require.FailNow(b, "no VmRSS", "process %d", pid)
	return 0
}
