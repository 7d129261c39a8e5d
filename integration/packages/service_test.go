package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// impatient lets systemd miss a sign of life soon.
const impatient = "[Service]\nWatchdogSec=4\nRestartSec=0\n"

func TestUnitDoesWhatSystemdAsks(t *testing.T) {
	m := boot(t)
	deb := build(t, earlier)
	m.fetch(deb)
	m.run("dpkg -i lockkeeper_" + earlier + "_" + architecture(deb) + ".deb")
	m.run("mkdir -p /etc/systemd/system/lockkeeper.service.d")
	m.write("/etc/systemd/system/lockkeeper.service.d/impatient.conf", impatient)
	m.run("systemctl daemon-reload")
	server, root := zookeeper.Server(t), zkserver.Root(t)
	configure := func(jobs string) {
		m.write("/etc/lockkeeper/lockkeeper.yaml", fmt.Sprintf("version: 1\nzookeeper: {servers: %q, root: %s}\njobs:\n%s", server.Addr(), root, jobs))
	}
	const idle = "  idle: {schedule: manual, run: [\"true\"]}\n"

	// Run in this order, on one machine.
	t.Run("a file that is wrong is not tried again", m.in(func() {
		configure("  idle: {}\n")
		_, code := m.do("systemctl start lockkeeper")
		require.Equal(m.t, 1, code)
		require.Equal(m.t, "failed", m.property(daemonUnit, "ActiveState"))
		require.Equal(m.t, "78", m.property(daemonUnit, "ExecMainStatus"))
		require.Equal(m.t, "0", m.property(daemonUnit, "NRestarts"))
	}))
	t.Run("it starts without ZooKeeper", m.in(func() {
		m.write("/etc/lockkeeper/lockkeeper.yaml", "version: 1\nzookeeper: {servers: \"127.0.0.1:1\"}\njobs:\n"+idle)
		m.run("systemctl start lockkeeper")
		require.Equal(m.t, "active", m.property(daemonUnit, "ActiveState"))
		require.Contains(m.t, m.property(daemonUnit, "StatusText"), "ZooKeeper: unreachable")
		m.run("systemctl stop lockkeeper")
	}))
	t.Run("a reload returns when the file is in force", m.in(func() {
		configure(idle)
		m.run("systemctl start lockkeeper")
		for n := range 10 {
			configure(idle + strings.Repeat("  more: {schedule: manual, run: [\"true\"]}\n", (n+1)%2))
			m.run("systemctl reload lockkeeper")
			require.Contains(m.t, m.property(daemonUnit, "StatusText"), []string{"2 jobs, ", "1 job, "}[n%2])
		}
		configure("  idle: {}\n")
		_, code := m.do("systemctl reload lockkeeper")
		require.Equal(m.t, 1, code, "the file is wrong")
		require.Contains(m.t, m.property(daemonUnit, "StatusText"), "1 job, ")
		require.Equal(m.t, "active", m.property(daemonUnit, "ActiveState"))
	}))
	t.Run("a daemon that stands still is restarted", m.in(func() {
		configure(idle)
		m.run("systemctl reload lockkeeper")
		before := m.property(daemonUnit, "MainPID")
		m.run("systemctl kill --kill-whom=main -s STOP lockkeeper")
		harness.Eventually(m.t, func() bool {
			pid := m.property(daemonUnit, "MainPID")
			return pid != before && pid != "0" && m.property(daemonUnit, "ActiveState") == "active"
		}, "systemd has restarted it")
		require.Contains(m.t, m.run("journalctl --no-pager -u lockkeeper"), "Watchdog timeout")
	}))
	t.Run("a stop lets jobs finish", m.in(func() {
		configure("  long: {schedule: '@every 1s', run: [sh, -c, 'trap \"echo signalled >>told\" TERM; touch began; sleep 3; touch finished']}\n")
		m.run("systemctl reload lockkeeper")
		harness.Eventually(m.t, func() bool {
			return m.try("ls /var/lib/private/lockkeeper/began") == "/var/lib/private/lockkeeper/began\n"
		}, "the job runs")
		m.run("rm -f /var/lib/private/lockkeeper/finished; systemctl stop lockkeeper")
		require.Equal(m.t, "success", m.property(daemonUnit, "Result"))
		require.Equal(m.t, "began\nfinished\n", m.run("ls /var/lib/private/lockkeeper"))
	}))
	t.Run("jobs end with a daemon that is killed", m.in(func() {
		configure("  long: {schedule: '@every 1s', run: [sleep, '1234']}\n")
		m.run("systemctl start lockkeeper")
		harness.Eventually(m.t, func() bool { return m.try("pgrep -fx 'sleep 1234'") != "" }, "the job runs")
		job := strings.TrimSpace(m.run("pgrep -fx 'sleep 1234'"))
		m.run("systemctl kill --kill-whom=main -s KILL lockkeeper")
		harness.Eventually(m.t, func() bool { return !strings.Contains(m.try("pgrep -fx 'sleep 1234'"), job) }, "the job has ended")
		configure(idle)
		m.run("systemctl restart lockkeeper")
	}))
	t.Run("a drop-in gives jobs more", m.in(func() {
		override, err := os.ReadFile(filepath.Join("testdata", "override.conf"))
		require.NoError(m.t, err)
		m.write("/etc/systemd/system/lockkeeper.service.d/override.conf", string(override))
		m.run("mkdir -m 1777 /srv/orders; umask 077; echo ann:s3cret >/etc/lockkeeper/zookeeper.digest; systemctl daemon-reload")
		m.write("/etc/lockkeeper/lockkeeper.yaml", fmt.Sprintf("version: 1\nzookeeper: {servers: %q, root: %s-b, auth: {digest_file: '${CREDENTIALS_DIRECTORY}/zookeeper.digest'}}\n"+
			"jobs: {a: {schedule: '@every 1s', run: [sh, -c, 'touch /srv/orders/written; touch /srv/denied || touch /srv/orders/denied']}}\n", server.Addr(), root))
		m.run("systemctl restart lockkeeper")
		harness.Eventually(m.t, func() bool { return m.try("ls /srv/orders") == "denied\nwritten\n" }, "the job writes where it may")
	}))
	t.Run("unused scopes are removed", m.in(func() {
		configure(idle)
		m.run("systemctl start lockkeeper-gc.service")
		require.Equal(m.t, "success", m.property("lockkeeper-gc.service", "Result"))
	}))
}

// in is a part of a test on the machine.
func (m *machine) in(part func()) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		whole := m.t
		defer func() { m.t = whole }()
		m.t = t
		part()
	}
}
