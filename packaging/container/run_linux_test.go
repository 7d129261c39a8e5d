package container

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	containerRole = "play-container"
	patience      = time.Minute // how long a test waits for what must come
	user          = 65532
)

// playContainer becomes process 1 of a container: args are its root, the directory that is
// mounted at /etc/lockkeeper there, the working directory, and the command. Without a root
// it has the file system of this machine. It returns only if something is wrong.
func playContainer(args []string) error {
	dir, etc, work, argv := args[0], args[1], args[2], args[3:]
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if dir == "" {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return fmt.Errorf("mount /proc: %w", err)
		}
		if err := dropRights(); err != nil {
			return err
		}
		return fmt.Errorf("execute %s: %w", argv[0], unix.Exec(argv[0], argv, os.Environ()))
	}
	locked, err := flagsOf(dir)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{dir, dir, "", unix.MS_BIND},
		{etc, filepath.Join(dir, "etc/lockkeeper"), "", unix.MS_BIND},
		{"proc", filepath.Join(dir, "proc"), "proc", 0},
		{"", dir, "", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | locked},
	} {
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.to, err)
		}
	}
	if err := errors.Join(unix.Chroot(dir), unix.Chdir(work)); err != nil {
		return err
	}
	if err := os.WriteFile("/file", nil, 0o600); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("the root can be written: %w", err)
	}
	if err := becomeUser(); err != nil {
		return err
	}
	path := ""
	for _, variable := range os.Environ() {
		if value, is := strings.CutPrefix(variable, "PATH="); is {
			path = value
		}
	}
	program := filepath.Join(path, argv[0])
	return fmt.Errorf("execute %s: %w", program, unix.Exec(program, argv, os.Environ()))
}

// dropRights are those of a namespace that was not made by root: see start.
func dropRights() error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// becomeUser gives all rights away. Without root, the namespace has this user from the start.
func becomeUser() error {
	if os.Getuid() == user {
		return dropRights()
	}
	return errors.Join(unix.Setgroups(nil), unix.Setresgid(user, user, user), unix.Setresuid(user, user, user))
}

// flagsOf are those of a mount that a user who is not root must keep.
func flagsOf(dir string) (flags uintptr, err error) {
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil {
		return 0, err
	}
	for st, ms := range map[int64]uintptr{
		unix.ST_NODEV: unix.MS_NODEV, unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_NOSUID: unix.MS_NOSUID,
		unix.ST_NOATIME: unix.MS_NOATIME, unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if is.Flags&st != 0 {
			flags |= ms
		}
	}
	return flags, nil
}

// A process is process 1 of a container.
type process struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *process) await(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.String(), text) }, patience, 5*time.Millisecond, "waiting for %q in:\n%s", text, p)
}

// signalUntil repeats a signal, as the daemon takes two of one second for one.
func (p *process) signalUntil(t *testing.T, sig syscall.Signal, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = p.cmd.Process.Signal(sig)
		return strings.Contains(p.String(), text)
	}, patience, 100*time.Millisecond, "waiting for %q in:\n%s", text, p)
}

func (p *process) exitCode() int {
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// start needs root, or a kernel that lets users make namespaces, as Linux distributions do by
// default. env is all of the environment.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command("/proc/self/exe", append([]string{containerRole}, args...)...)}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		p.cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		p.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: uid, Size: 1}}
		p.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: gid, Size: 1}}
		p.cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT}
	}
	err := p.cmd.Start()
	if errors.Is(err, unix.EPERM) {
		t.Skip("the image runs in namespaces, which cannot be made here: give the container the capability SYS_ADMIN")
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// A box is the image, unpacked, with a configuration.
type box struct {
	dir, etc string
	config   v1.Config
}

func unpack(t *testing.T, configuration string) *box {
	t.Helper()
	o := options(t)
	o.Architectures, o.compiled = []string{runtime.GOARCH}, map[string]string{runtime.GOARCH: program(t)}
	index, err := Build(t.Context(), o)
	require.NoError(t, err)
	image := images(t, index)["linux/"+runtime.GOARCH]
	file, err := image.ConfigFile()
	require.NoError(t, err)
	b := &box{dir: t.TempDir(), etc: t.TempDir(), config: file.Config}
	eachFile(t, image, func(h *tar.Header, r io.Reader) {
		name := filepath.Join(b.dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.Mkdir(name, h.FileInfo().Mode().Perm()))
			return
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, data, h.FileInfo().Mode().Perm()))
	})
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "proc"), 0o755)) // a runtime makes it
	for dir := b.dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	require.NoError(t, os.Chmod(b.etc, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.etc, "lockkeeper.yaml"), []byte(configuration), 0o644))
	return b
}

// run starts the entrypoint with the image's command, or with another one.
func (b *box) run(t *testing.T, command ...string) *process {
	t.Helper()
	if len(command) == 0 {
		command = b.config.Cmd
	}
	args := append([]string{b.dir, b.etc, b.config.WorkingDir}, b.config.Entrypoint...)
	return start(t, b.config.Env, append(args, command...)...)
}

// healthy runs the image's health check, with more flags.
func (b *box) healthy(t *testing.T, flags ...string) (code int, said string) {
	t.Helper()
	test := b.config.Healthcheck.Test
	require.Equal(t, "CMD", test[0])
	p := start(t, b.config.Env, append([]string{b.dir, b.etc, b.config.WorkingDir}, append(test[1:], flags...)...)...)
	return p.exitCode(), p.String()
}

// ownAddress is one that no other process of this machine uses: of the network 127.0.0.0/8, and with
// a port that the kernel gives to no process.
func ownAddress() string {
	return fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254), 20_000+rand.IntN(10_000))
}

func zookeeper(t *testing.T) string {
	t.Helper()
	server, err := zktest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server.Addr()
}

func TestImageSaysItsVersion(t *testing.T) {
	p := unpack(t, "").run(t, "version")
	require.Zero(t, p.exitCode(), p)
	require.True(t, strings.HasPrefix(p.String(), "lockkeeper v"+version+"\n"), p)
}

func TestDaemonOfTheImageBecomesHealthyAndDrains(t *testing.T) {
	b := unpack(t, fmt.Sprintf(`
version: 1
zookeeper: {servers: %q}
metrics: {listen: %q}
defaults: {timezone: Europe/Berlin} # the image has no time zones but the program's
jobs: {call: {schedule: "@daily", run: {http: {url: "http://127.0.0.1:1/"}}, locks: [{scope: a}]}}
`, zookeeper(t), ownAddress()))
	code, said := b.healthy(t)
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "no answer")

	daemon := b.run(t)
	require.Eventually(t, func() bool { code, said = b.healthy(t, "--ready"); return code == 0 }, patience, 10*time.Millisecond, "%s\n%s", said, daemon)
	require.Equal(t, "ready\n", said)
	code, said = b.healthy(t)
	require.Zero(t, code, said)
	require.Equal(t, "alive: ok, ZooKeeper connected\n", said)

	require.NoError(t, daemon.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, daemon.exitCode(), daemon)
	require.Contains(t, daemon.String(), "lockkeeper stopped")
}

// children are the states and names of the children of a process.
func children(t *testing.T, pid int) (all []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range stats {
		stat, _ := os.ReadFile(name) // it may have ended
		before, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			all = append(all, fields[0]+" "+before)
		}
	}
	return all
}

// The first signal drains, the second cancels, the third stops at once: through process 1 as
// without it.
func TestThreeSignalsToProcessOneAreThoseOfTheDaemon(t *testing.T) {
	etc := t.TempDir()
	file := filepath.Join(etc, "lockkeeper.yaml")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`
version: 1
zookeeper: {servers: %q}
drain: {finish: 1h, cancel: 1h}
jobs:
  deaf:
    schedule: "@every 1s"
    run: {command: [sh, -c, "trap '' TERM; (setsid true &); touch %s/begun; while :; do sleep 0.05; done"]}
    locks: [{scope: a, lease_timeout: 2h, cleanup_timeout: 1h}]
`, zookeeper(t), etc)), 0o600))
	daemon := start(t, os.Environ(), "", "", "", program(t), "run", "-f", file)
	require.Eventually(t, func() bool { _, err := os.Stat(etc + "/begun"); return err == nil }, patience, 5*time.Millisecond, "%s", daemon)
	require.Eventually(t, func() bool { return len(children(t, daemon.cmd.Process.Pid)) == 1 }, patience, 5*time.Millisecond,
		"process 1 has the program alone, and has reaped what the job has left behind: %s", children(t, daemon.cmd.Process.Pid))
	daemon.signalUntil(t, syscall.SIGTERM, "draining")
	daemon.signalUntil(t, syscall.SIGTERM, "cancelling what runs")
	daemon.signalUntil(t, syscall.SIGTERM, "stopping at once")
	require.Equal(t, 128+15, daemon.exitCode(), daemon)
}

func TestWrapperAsProcessOneGivesItsCommandTheSignalAndTheTime(t *testing.T) {
	env := append(os.Environ(), "LOCKKEEPER_ZK="+zookeeper(t))
	wrapper := start(t, env, "", "", "", program(t), "exec", "--scope", "a", "--", "sh", "-c",
		`trap 'echo cleans up; exit 3' TERM; (setsid true &); echo begun; while :; do sleep 0.05; done`)
	wrapper.await(t, "begun")
	require.NoError(t, wrapper.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, wrapper.exitCode(), wrapper)
	require.Contains(t, wrapper.String(), "cleans up")

	ended := start(t, env, "", "", "", program(t), "exec", "--scope", "a", "--", "sh", "-c", "exit 3")
	require.Equal(t, 3, ended.exitCode(), ended)
}
