package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// notifySocket is the socket of a service manager that is none.
type notifySocket struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func listenForNotices(t *testing.T) *notifySocket {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") //nolint:usetesting // t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &notifySocket{t: t, path: filepath.Join(dir, "s")}
	s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// next returns the next message that the expression matches; those before it are dropped, unless they match one of not.
func (s *notifySocket) next(want string, not ...string) string {
	s.t.Helper()
	require.NoError(s.t, s.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	var seen []string
	for buffer := make([]byte, 4096); ; {
		n, err := s.conn.Read(buffer)
		require.NoError(s.t, err, "no message matches %s; there were %q", want, seen)
		message := string(buffer[:n])
		if regexp.MustCompile(want).MatchString(message) {
			return message
		}
		for _, unwanted := range not {
			require.NotRegexp(s.t, unwanted, message)
		}
		seen = append(seen, message)
	}
}

// daemonUnder starts a daemon as a service manager does. end waits until it has ended.
func daemonUnder(t *testing.T, s *notifySocket, file string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	var out sharedText
	cmd = exec.CommandContext(t.Context(), "lockkeeper", "run", "-f", file)
	// A sign of life a second: the socket has room for some ten messages that are not read yet.
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=6000000", "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	require.NoError(t, cmd.Start())
	end = sync.OnceFunc(func() { _ = cmd.Wait() })
	t.Cleanup(func() {
		end()
		if t.Failed() {
			t.Logf("the daemon printed:\n%s", out.String())
		}
	})
	return cmd, end
}

func write(t *testing.T, file, format string, args ...any) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600))
}

func TestServiceManagerIsToldWhatTheDaemonDoes(t *testing.T) {
	t.Parallel()
	// Given a daemon whose job writes down its environment.
	zk, s, dir := zktest.RunT(t), listenForNotices(t), t.TempDir()
	file, output := filepath.Join(dir, "lockkeeper.yaml"), filepath.Join(dir, "environment")
	config := "version: 1\nzookeeper: {servers: " + zk.Addr() + "}\njobs:\n" +
		"  a: {schedule: \"@every 1s\", run: [sh, -c, 'env >" + output + ".new && mv " + output + ".new " + output + "']}\n"
	write(t, file, "%s", config)
	d, end := daemonUnder(t, s, file)

	// Then it says that it is ready, and goes on to say that it lives.
	require.Regexp(t, `^READY=1\nSTATUS=1 job, \d runs?; ZooKeeper: (connected|unreachable)$`, s.next("READY=1"))
	s.next("^WATCHDOG=1$")
	s.next("^WATCHDOG=1$")
	require.Eventually(t, func() bool {
		s.next("^WATCHDOG=1$") // so that there is room for what comes
		_, err := os.Stat(output)
		return err == nil
	}, time.Minute, time.Millisecond, "the job has run")
	environment, err := os.ReadFile(output)
	require.NoError(t, err)
	require.NotRegexp(t, "NOTIFY_SOCKET|WATCHDOG_", string(environment), "what is for the daemon is not for its jobs")

	// When the file has changed, its new jobs are there as soon as the reload is over.
	write(t, file, "%s", config+"  b: {schedule: manual, run: [\"true\"]}\n")
	require.NoError(t, d.Process.Signal(syscall.SIGHUP))
	require.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=\d+\n`, s.next("RELOADING=1", "READY=1"))
	require.Contains(t, s.next("READY=1", "STOPPING=1"), "STATUS=2 jobs, ")

	// When it is wrong, the status says so.
	write(t, file, "%s", config+"  c: {}\n")
	require.NoError(t, d.Process.Signal(syscall.SIGHUP))
	s.next("RELOADING=1")
	require.Regexp(t, "STATUS=2 jobs, .*the file was refused", s.next("READY=1"))

	// When it drains, it says for how long at most: 30s + 30s + 10s, and the margin.
	require.NoError(t, d.Process.Signal(syscall.SIGTERM))
	require.Regexp(t, `^STOPPING=1\nEXTEND_TIMEOUT_USEC=100000000\nSTATUS=draining; 2 jobs, `, s.next("STOPPING=1"))
	end()
	require.Equal(t, 0, d.ProcessState.ExitCode())
}

func TestDaemonIsReadyForItsServiceManagerBeforeZooKeeperAnswers(t *testing.T) {
	t.Parallel()
	s, file := listenForNotices(t), filepath.Join(t.TempDir(), "lockkeeper.yaml")
	write(t, file, "version: 1\nzookeeper: {servers: \"127.0.0.1:1\"}\njobs: {a: {schedule: manual, run: [\"true\"]}}\n")
	d, _ := daemonUnder(t, s, file)
	require.Contains(t, s.next("READY=1"), "ZooKeeper: unreachable")
	s.next("^WATCHDOG=1$")
	require.NoError(t, d.Process.Signal(syscall.SIGTERM))
	s.next("STOPPING=1")
}

func TestDaemonThatCannotUseItsFileIsNeverReady(t *testing.T) {
	t.Parallel()
	s, file := listenForNotices(t), filepath.Join(t.TempDir(), "lockkeeper.yaml")
	write(t, file, "version: 2\n")
	d, end := daemonUnder(t, s, file)
	end()
	require.Equal(t, exitConfig, d.ProcessState.ExitCode())
	require.NoError(t, s.conn.SetReadDeadline(time.Now()))
	_, err := s.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "there is a message")
}

func TestLoopThatStandsStillGivesNoSignOfLife(t *testing.T) {
	t.Parallel()
	s := listenForNotices(t)
	var log sharedText
	alive := false
	m := &serviceManager{
		log: slog.New(slog.NewTextHandler(&log, nil)), socket: &net.UnixAddr{Name: s.path, Net: "unixgram"},
		daemon: &runningDaemon{alive: func() bool { return alive }},
	}
	m.beat()
	m.send("STATUS=behind it")
	s.next("STATUS=behind it", "WATCHDOG=1")
	require.Contains(t, log.String(), "stands still")
	alive = true
	m.beat()
	s.next("^WATCHDOG=1$")
}

func TestServiceManagerThatReadsNothingHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := listenForNotices(t)
	m := &serviceManager{log: slog.New(slog.DiscardHandler), socket: &net.UnixAddr{Name: s.path, Net: "unixgram"}}
	// It has room for some hundred messages.
	for !m.failing {
		m.send("STATUS=once more")
	}
}

func TestSignsOfLifeComeSoOftenThatOneMayFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for watchdog, want := range map[time.Duration]time.Duration{time.Minute: 10 * time.Second, 5: 0, 0: 0} {
			begin := time.Now()
			_, beat, stop := (&serviceManager{watchdog: watchdog}).ticks()
			if want == 0 {
				require.Nil(t, beat, "%d", watchdog)
			} else {
				require.Equal(t, want, (<-beat).Sub(begin))
			}
			stop()
		}
	})
}

func TestServiceManagerThatIsGoneIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log sharedText
	m := &serviceManager{log: slog.New(slog.NewTextHandler(&log, nil)), socket: &net.UnixAddr{Name: "/nonexistent", Net: "unixgram"}}
	m.send("READY=1")
	m.send("READY=1")
	require.Equal(t, 1, strings.Count(log.String(), "is not told"))
}
