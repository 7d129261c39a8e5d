package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// daemons are the instances of lockkeeper@.service that run on the machine.
var daemons = []string{"a", "b", "c"}

// secondly are three jobs that write down each of their ticks, one of them under a lock. By their policy no tick is skipped, however
// late it is.
const secondly = `version: 1
defaults: {overlap: allow-all, misfire: {policy: all, window: 10m}}
zookeeper: {servers: "%s", root: %s}
jobs:
  x: {schedule: "@every 1s", run: [sh, -c, 'echo $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>/var/log/lockkeeper@$INSTANCE/ticks'], locks: [{scope: jobs/x}]}
  y: {schedule: "@every 1s", run: [sh, -c, 'echo $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>/var/log/lockkeeper@$INSTANCE/ticks']}
  z: {schedule: "@every 1s", run: [sh, -c, 'echo $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>/var/log/lockkeeper@$INSTANCE/ticks']}
`

// A session is what an operator types on a machine, with the answers.
type session struct {
	*machine
	text strings.Builder
}

var unsteady = []struct{ what, as string }{
	{`(?m)^Processing triggers for .*\n`, ``}, // of packages that this system happens to have
	{`\d+ files and directories`, `N files and directories`},
	{`(since|at) [A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]+; [^\n]* ago`, `$1 …`},
	{`Main PID: \d+`, `Main PID: N`},
	{`\b\d run(s?)\b`, `N runs`},
	{`_(amd64|arm64)\.deb`, `_amd64.deb`},
}

// types runs a command and notes it with what it prints.
func (s *session) types(shell string) string {
	s.t.Helper()
	output := s.run(shell)
	s.text.WriteString("$ " + shell + "\n" + output)
	return output
}

func (s *session) String() string {
	text := s.text.String()
	for _, u := range unsteady {
		text = regexp.MustCompile(u.what).ReplaceAllString(text, u.as)
	}
	return text
}

func TestPackageIsInstalledUpgradedAndPurgedUnderSystemd(t *testing.T) {
	debs := []string{build(t, earlier), build(t, later)}
	m := boot(t)
	s := &session{machine: m}
	for _, deb := range debs {
		m.fetch(deb)
	}
	before := m.changes()
	name := func(version string) string { return "lockkeeper_" + version + "_" + architecture(debs[0]) + ".deb" }

	// Given the package: nothing runs yet.
	s.types("dpkg -i " + name(earlier))
	require.Equal(t, "disabled", strings.TrimSpace(m.try("systemctl is-enabled lockkeeper.service")))
	require.Equal(t, "inactive", m.property("lockkeeper.service", "ActiveState"))
	s.types("lockkeeper config validate -f /etc/lockkeeper/lockkeeper.yaml")

	// And three daemons with jobs that tick each second.
	server, root := zookeeper.Server(t), zkserver.Root(t)
	for _, d := range daemons {
		m.write("/etc/lockkeeper/"+d+".yaml", fmt.Sprintf(secondly, server.Addr(), root))
	}
	s.types("systemctl enable --now --quiet lockkeeper@a lockkeeper@b lockkeeper@c")
	m.ticked(3)
	harness.Eventually(t, func() bool { return strings.HasSuffix(m.property("lockkeeper@a.service", "StatusText"), "connected") }, "the daemon has sent its status")
	s.types("systemctl show -p ActiveState,SubState,StatusText lockkeeper@a")

	// When one is killed, systemd starts it again.
	killed := m.property("lockkeeper@b.service", "MainPID")
	m.quiet()
	s.types("systemctl kill --kill-whom=main -s KILL lockkeeper@b")
	harness.Eventually(t, func() bool {
		pid := m.property("lockkeeper@b.service", "MainPID")
		return pid != killed && pid != "0" && m.property("lockkeeper@b.service", "ActiveState") == "active"
	}, "systemd starts the daemon again")
	require.Equal(t, "1", m.property("lockkeeper@b.service", "NRestarts"))
	m.ticked(3)

	// When the package is upgraded, they drain and restart one after the other.
	cursor := m.cursor()
	pids := m.pids()
	s.types("dpkg -i " + name(later))
	for d, pid := range m.pids() {
		require.NotEqual(t, pids[d], pid, "%s has restarted", d)
	}
	require.Equal(t, []string{"a draining", "a stopped", "a starts", "b draining", "b stopped", "b starts", "c draining", "c stopped", "c starts"}, m.journal(cursor))
	s.types("systemctl is-active lockkeeper@a lockkeeper@b lockkeeper@c")
	m.ticked(3)

	// When the package is removed, they stop, and a purge leaves nothing.
	s.types("dpkg --remove lockkeeper")
	once := m.ticks()
	require.Empty(t, m.try("pgrep -a lockkeeper"), "a process is left")
	s.types("dpkg --purge lockkeeper")
	require.Empty(t, m.try("systemctl list-units --plain --no-legend 'lockkeeper*'"))
	require.Equal(t, before, m.changes())
	for _, job := range []string{"x", "y", "z"} {
		balance(t, stateOf(t, server, root, job), once[job])
	}
	golden(t, "session.txt", s.String())
}

// architecture is that of a package, by its name.
func architecture(deb string) string {
	name := strings.TrimSuffix(filepath.Base(deb), ".deb")
	return name[strings.LastIndex(name, "_")+1:]
}

// ticks are how often each tick has run, by job and instant.
func (m *machine) ticks() map[string]map[string]int {
	m.t.Helper()
	all := map[string]map[string]int{"x": {}, "y": {}, "z": {}}
	for _, d := range daemons {
		text, err := os.ReadFile(m.file("/var/log/private/lockkeeper@" + d + "/ticks"))
		if os.IsNotExist(err) {
			continue // it has run none
		}
		require.NoError(m.t, err)
		for line := range strings.Lines(string(text)) {
			job, instant, _ := strings.Cut(strings.TrimSpace(line), " ")
			at, err := time.Parse(time.RFC3339, instant)
			require.NoError(m.t, err, line)
			all[job][at.UTC().Format(time.RFC3339)]++
		}
	}
	return all
}

// ticked waits until each job has run n times more.
func (m *machine) ticked(n int) {
	m.t.Helper()
	before := m.ticks()
	harness.Eventually(m.t, func() bool {
		for job, instants := range m.ticks() {
			if len(instants) < len(before[job])+n {
				return false
			}
		}
		return true
	}, "each job ticks %d times", n)
}

// quiet waits until all jobs have just run: the next tick is most of a second away.
func (m *machine) quiet() {
	m.t.Helper()
	harness.Eventually(m.t, func() bool {
		now := time.Now().UTC()
		instant, all := now.Truncate(time.Second).Format(time.RFC3339), m.ticks()
		return now.Nanosecond() < 500_000_000 && all["x"][instant] > 0 && all["y"][instant] > 0 && all["z"][instant] > 0
	}, "all jobs have run in this second")
}

// pids are the daemons' process ids.
func (m *machine) pids() map[string]string {
	m.t.Helper()
	pids := map[string]string{}
	for _, d := range daemons {
		pids[d] = m.property("lockkeeper@"+d+".service", "MainPID")
	}
	return pids
}

// cursor is where the journal ends.
func (m *machine) cursor() string {
	m.t.Helper()
	_, cursor, found := strings.Cut(m.run("journalctl --no-pager -q -n 1 --show-cursor"), "-- cursor: ")
	require.True(m.t, found)
	return strings.TrimSpace(cursor)
}

var milestone = regexp.MustCompile(`msg="(?:lockkeeper (starts|stopped)|(draining);)`)

// journal is how the daemons began and ended since then.
func (m *machine) journal(cursor string) (all []string) {
	m.t.Helper()
	m.run("journalctl --sync")
	for line := range strings.SplitSeq(m.run("journalctl --no-pager -q -o short-full --output-fields=_SYSTEMD_UNIT,MESSAGE -o export --after-cursor '"+cursor+"'"), "\n\n") {
		if found := milestone.FindStringSubmatch(line); found != nil {
			_, unit, _ := strings.Cut(line, "_SYSTEMD_UNIT=lockkeeper@")
			unit, _, _ = strings.Cut(unit, ".service")
			all = append(all, unit+" "+found[1]+found[2])
		}
	}
	return all
}

func stateOf(t *testing.T, server *zkserver.Server, root, job string) ticks.State {
	t.Helper()
	client := harness.NewClient(t, lock.Config{Servers: []string{server.Addr()}, Root: root})
	state, err := client.TickLedger("").State(t.Context(), job)
	require.NoError(t, err)
	return state
}

// balance compares what the ledger has of a job's ticks with what has run: each tick once, but for one that was cut short
// with the daemon that was killed, those that a drain has ended before their work began, and those that a busy machine was
// late for.
func balance(t *testing.T, state ticks.State, once map[string]int) {
	t.Helper()
	counts := state.Counts
	t.Logf("%s: %d ticks: %+v; %d have run", state.Job, counts.Total(), counts, len(once))
	instants := int64(state.Last.Sub(state.Begins)/time.Second) + 1
	require.Equal(t, instants, counts.Total(), "each tick has one outcome: %+v", counts)
	for instant, n := range once {
		require.Equal(t, 1, n, "%s at %s", state.Job, instant)
	}
	cut, drained := counts.Interrupted+counts.Lost, counts.Skipped[string(scheduler.SkipDraining)]
	require.LessOrEqual(t, cut, int64(1), "one may be cut short by the kill: %+v", counts)
	late := counts.Skipped[string(scheduler.SkipLock)] + counts.Skipped[string(scheduler.SkipUnavailable)] // on a busy machine
	require.Equal(t, instants, counts.Ran+cut+drained+late, "every tick has run: %+v", counts)
	require.LessOrEqual(t, counts.Ran, int64(len(once)))
	require.LessOrEqual(t, int64(len(once)), counts.Ran+cut)
	require.Empty(t, state.Runs)
	require.Empty(t, state.Waiting)
}
