package packages

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// A machine is a Debian system whose init is systemd.
type machine struct {
	t    *testing.T
	dir  string
	init *exec.Cmd
	log  harness.Output
}

// boot starts a machine. It is gone at the end of the test, with all its processes and files.
func boot(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("systemd needs namespaces, which root alone may make: run it as root")
	}
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--cgroup", "true").Run(); err != nil {
		t.Skipf("systemd needs namespaces, which cannot be made here (%v): give the container the capability SYS_ADMIN", err)
	}
	m := &machine{t: t, dir: t.TempDir()}
	script, err := filepath.Abs(filepath.Join("testdata", "boot.sh"))
	require.NoError(t, err)
	cgroup := "lockkeeper-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(filepath.Dir(m.dir))
	m.init = exec.Command("bash", script, m.dir, cgroup)
	m.init.Stdout, m.init.Stderr = &m.log, &m.log
	m.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	require.NoError(t, m.init.Start())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the machine's journal:\n%s%s", m.try("journalctl --no-pager -o short-monotonic -n 60"), m.log.String())
		}
		_ = m.init.Process.Kill() // and with it all that runs there
		_ = m.init.Wait()
		removeCgroup(t, cgroup)
	})
	harness.Eventually(t, func() bool {
		return strings.TrimSpace(m.try("systemctl is-active machine.target")) == "active"
	}, "systemd has started: %s", &m.log)
	return m
}

// removeCgroup removes what systemd has made of a group of processes, all of which are gone.
func removeCgroup(t *testing.T, name string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if fields[2] != "cgroup2" {
			continue
		}
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(fields[1], name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs)
		harness.Eventually(t, func() bool { // the kernel may not know yet that they are empty
			dirs = slices.DeleteFunc(dirs, func(dir string) bool { return os.Remove(dir) == nil })
			return len(dirs) == 0
		}, "the group of processes %s is empty", name)
	}
}

// command is a shell's command there.
func (m *machine) command(ctx context.Context, shell string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(m.init.Process.Pid), "-m", "-p", "-u", "-i", "-C", "--",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=", "DEBIAN_FRONTEND=noninteractive", "HOME=/root",
		"sh", "-c", "cd /root; "+shell)
}

// do runs a command and returns its exit code and what it printed.
func (m *machine) do(shell string) (output string, code int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), 2*harness.Patience)
	defer cancel()
	cmd := m.command(ctx, shell)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	return out.String(), cmd.ProcessState.ExitCode()
}

// try runs a command that may fail.
func (m *machine) try(shell string) string {
	m.t.Helper()
	output, _ := m.do(shell)
	return output
}

// run runs a command that must not fail.
func (m *machine) run(shell string) string {
	m.t.Helper()
	output, code := m.do(shell)
	require.Zero(m.t, code, "%s\n%s", shell, output)
	return output
}

// property is what systemd says of a unit.
func (m *machine) property(unit, name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.run("systemctl show --value -P " + name + " '" + unit + "'"))
}

// file is where this system sees a file of the machine.
func (m *machine) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.init.Process.Pid), "root", name)
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(m.file(name), []byte(text), 0o644))
}

// fetch copies a package to the machine.
func (m *machine) fetch(deb string) {
	m.t.Helper()
	content, err := os.ReadFile(deb)
	require.NoError(m.t, err)
	m.write(filepath.Join("/root", filepath.Base(deb)), string(content))
}

// changes are the files that the machine has made, changed or removed since this system was shown to it, without the records of
// dpkg and of the manual's index, and without what stands in /root.
func (m *machine) changes() (all []string) {
	m.t.Helper()
	const list = `cd /run/changed && find . \( -path ./var/lib/dpkg -o -path ./var/cache/man -o -path ./root -o -path ./var/log/dpkg.log \) -prune -o -printf '%P:%M:%u:%l\n'`
	for line := range strings.Lines(m.run(list)) {
		path, mode, _ := strings.Cut(strings.TrimSpace(line), ":")
		if _, err := os.Stat(filepath.Join("/", path)); err == nil && strings.HasPrefix(mode, "d") {
			continue // something was written in it
		}
		all = append(all, path+":"+mode)
	}
	slices.Sort(all)
	return all
}
