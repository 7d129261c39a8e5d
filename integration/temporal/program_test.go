package temporal_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// binary is the directory of the program, built by the first test that wants it.
var binary string

var build = sync.OnceValue(func() (err error) {
	if binary, err = os.MkdirTemp("", "lockkeeper-temporal-"); err != nil {
		return err
	}
	_, err = harness.Build(binary)
	return err
})

// withoutProgram removes the program when the tests are over.
func withoutProgram(run func() int) int {
	defer func() {
		if binary != "" {
			_ = os.RemoveAll(binary)
		}
	}()
	return run()
}

// programs is a directory with configurations, the credentials of the daemons and of ana, who is the operator, and the
// environment of programs that share the root of a fixture.
type programs struct {
	*fixture
	dir      string
	env      []string
	operator string // ana
	daemons  string
	observer *lock.Client // a daemon's
}

func newPrograms(t *testing.T) *programs {
	t.Helper()
	p := &programs{fixture: newFixture(t), dir: t.TempDir()}
	p.write("daemons", "daemons:secret\n")
	p.write("ana", "ana:secret\n")
	p.env = append(os.Environ(), "COLUMNS=160", "LOCKKEEPER_ZK="+p.Server.Addr(), "LOCKKEEPER_ROOT="+p.Root,
		"LOCKKEEPER_ZK_DIGEST_FILE="+filepath.Join(p.dir, "daemons"))
	for file, is := range map[string]*string{"ana": &p.operator, "daemons": &p.daemons} {
		*is, _, _ = strings.Cut(strings.TrimSpace(p.run(0, "config", "operator", "--zk-digest-file", file)), "\n")
	}
	p.env = append(p.env, "LOCKKEEPER_ZK_OPERATORS="+p.operator, "LOCKKEEPER_ZK_CONTENDERS="+p.daemons)
	p.run(0, "init", "--zk-digest-file", "ana")
	p.observer = p.daemonClient()
	return p
}

func (p *programs) write(name, text string) {
	p.Helper()
	require.NoError(p, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
}

func (p *programs) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(text)
}

func (p *programs) command(args ...string) *exec.Cmd {
	p.Helper()
	require.NoError(p, build())
	cmd := exec.Command(filepath.Join(binary, "lockkeeper"), args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// run runs a command that ends with a code, and returns what it writes.
func (p *programs) run(code int, args ...string) string {
	p.Helper()
	var out bytes.Buffer
	p.wait(code, &out, &out, args...)
	return out.String()
}

// listed runs a command that lists something, and returns it as JSON.
func (p *programs) listed(args ...string) string {
	p.Helper()
	var out, problems bytes.Buffer
	p.wait(0, &out, &problems, append(args, "-o", "json")...)
	return out.String()
}

func (p *programs) wait(code int, out, problems *bytes.Buffer, args ...string) {
	p.Helper()
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = out, problems
	started, err := process.Start(cmd)
	require.NoError(p, err)
	harness.Eventually(p, func() bool { return !started.Alive() }, "%s ends", args)
	require.Equal(p, code, cmd.ProcessState.ExitCode(), "%s\n%s%s", args, out, problems)
}

// daemonClient is that of a daemon.
func (p *programs) daemonClient() *lock.Client {
	p.Helper()
	return p.Client(func(cfg *lock.Config) {
		cfg.Auth = &lock.Digest{User: "daemons", Password: "secret"}
		cfg.Operators, cfg.Contenders = []string{p.operator}, []string{p.daemons}
	})
}

// daemon starts a process that runs jobs.
func (p *programs) daemon(args ...string) *harness.Daemon {
	p.Helper()
	return harness.StartDaemon(p, p.command(append([]string{"run"}, args...)...))
}
