package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// A Machine is what a run was measured on: facts, a line each.
type Machine struct {
	Facts [][2]string
}

func (m *Machine) add(name, value string) {
	if value != "" {
		m.Facts = append(m.Facts, [2]string{name, value})
	}
}

// describe looks at this machine, and measures its disk.
func describe(ctx context.Context, tools Tools) (Machine, error) {
	var m Machine
	m.add("processors",
		fmt.Sprintf("%d × %s, shared by servers and contestants", runtime.NumCPU(), field("/proc/cpuinfo", "model name")))
	m.add("memory", field("/proc/meminfo", "MemTotal"))
	m.add("kernel", strings.TrimSpace(read("/proc/sys/kernel/osrelease")))
	m.add("load before", strings.Join(first(strings.Fields(read("/proc/loadavg")), 3), " "))
	took, where, err := syncTime()
	if err != nil {
		return m, err
	}
	m.add("fsync of 4 KiB",
		fmt.Sprintf("%.2f ms on disk (median of 100, in %s)", float64(took.Microseconds())/1000, where))
	m.add("Go", runtime.Version())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if slices.Contains([]string{
				"github.com/go-zookeeper/zk", "go.etcd.io/etcd/client/v3", "github.com/go-redsync/redsync/v4",
			}, module.Path) {
				m.add(module.Path, module.Version)
			}
		}
	}
	if in, err := zkserver.Find(); err == nil {
		m.add("Java", line(ctx, in.Java, "-version"))
		m.add("ZooKeeper", version(in.Jar))
	}
	if tools.Missing["java"] == nil {
		m.add("Curator", version(tools.java.Jar("curator-recipes")))
	}
	if tools.Missing["python"] == nil && tools.python != "" {
		m.add("Kazoo", line(ctx, tools.python, "-c",
			"import kazoo.version, platform; print(kazoo.version.__version__, 'on Python', platform.python_version())"))
	}
	if tools.Missing[string(Etcd)] == nil && tools.etcd != "" {
		m.add("etcd", line(ctx, tools.etcd, "--version"))
	}
	if tools.Missing[string(Redis)] == nil && tools.redis != "" {
		m.add("Redis", line(ctx, tools.redis, "--version"))
	}
	return m, nil
}

// pressure says how long, since the machine was started, somebody on it was ready to run and had no processor.
func pressure() time.Duration {
	_, rest, _ := strings.Cut(read("/proc/pressure/cpu"), "total=")
	var micros int64
	_, _ = fmt.Sscan(rest, &micros)
	return time.Duration(micros) * time.Microsecond
}

// syncTime measures how long the disk takes to make 4 KiB last.
func syncTime() (took time.Duration, dir string, err error) {
	file, err := os.CreateTemp("", "lockkeeper-fsync-")
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer file.Close()
	block := make([]byte, 4096)
	var all []time.Duration
	for i := range 100 {
		start := time.Now()
		if _, err := file.WriteAt(block, int64(i)*4096); err != nil {
			return 0, "", err
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return 0, "", err
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all[len(all)/2], filepath.Dir(file.Name()), nil
}

func read(path string) string {
	text, _ := os.ReadFile(path) // where there is none, nothing is said
	return string(text)
}

func field(path, name string) string {
	for l := range strings.Lines(read(path)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func first(words []string, n int) []string { return words[:min(n, len(words))] }

// version returns the name of a jar with its version: Debian has the one without it, and a link with it beside.
func version(jar string) string {
	others, _ := filepath.Glob(strings.TrimSuffix(jar, ".jar") + "-[0-9]*.jar")
	return filepath.Base(append(others, jar)[0])
}

// line returns the first line that a program prints.
func line(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return ""
	}
	l, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return l
}
