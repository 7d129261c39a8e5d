package otlp_test

import (
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
	"github.com/lockkeeper/lockkeeper/integration/observability/otlp"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A place is where the processes of a test meet.
type place struct {
	*testing.T
	dir string
	env []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, dir: t.TempDir()}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LOCKKEEPER_") && !strings.HasPrefix(v, "OTEL_") && !strings.HasPrefix(v, "TRACE") {
			p.env = append(p.env, v)
		}
	}
	p.env = append(p.env, "LOCKKEEPER_ZK="+shared.Server(t).Addr(), "LOCKKEEPER_ROOT="+testbed.Root(t))
	return p
}

// A run is one of the program.
type run struct {
	*process.Process
	cmd *exec.Cmd
	out *harness.Output
}

func (p *place) start(env []string, args ...string) *run {
	p.Helper()
	c := &run{cmd: exec.Command(program, args...), out: &harness.Output{}}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = p.dir, slices.Concat(p.env, env), c.out, c.out
	var err error
	c.Process, err = process.Start(c.cmd)
	require.NoError(p, err)
	p.Cleanup(func() { _ = c.Kill() })
	return c
}

// ends waits for the end, with an exit code.
func (p *place) ends(code int, c *run) {
	p.Helper()
	harness.Eventually(p, func() bool { return !c.Alive() }, "the end of %s", c.cmd.Args)
	require.Equal(p, code, c.cmd.ProcessState.ExitCode(), "%s\n%s", c.cmd.Args, c.out)
}

// stops asks a run to end, which succeeds.
func (p *place) stops(c *run) {
	p.Helper()
	require.NoError(p, c.Signal(syscall.SIGTERM))
	p.ends(0, c)
}

func (p *place) write(name, text string) {
	p.Helper()
	require.NoError(p, os.WriteFile(p.file(name), []byte(text), 0o600))
}

func (p *place) read(name string) string {
	p.Helper()
	text, err := os.ReadFile(p.file(name))
	require.NoError(p, err)
	return string(text)
}

func (p *place) file(name string) string { return filepath.Join(p.dir, name) }

// await waits until a file is there.
func (p *place) await(name string) {
	p.Helper()
	harness.Eventually(p, func() bool { _, err := os.Stat(p.file(name)); return err == nil }, "there is no %s", name)
}

// says waits until a run has written something.
func (p *place) says(c *run, text string) {
	p.Helper()
	harness.Eventually(p, func() bool { return strings.Contains(c.out.String(), text) }, "%s says %q", c.cmd.Args, text)
}

// spanOf is a filter for Receiver.Await.
func spanOf(name, owner string) func(otlp.Span) bool {
	return func(s otlp.Span) bool { return s.Name == name && s.Attributes["lockkeeper.owner"] == owner }
}

// requireLinks checks that each link leads to a span that has arrived, and that
// those which preempt know each other.
func requireLinks(t *testing.T, spans []otlp.Span) (roles map[string]int) {
	t.Helper()
	byID := map[string]otlp.Span{}
	for _, s := range spans {
		byID[s.Trace+s.ID] = s
	}
	roles = map[string]int{}
	for _, s := range spans {
		for _, l := range s.Links {
			to, ok := byID[l.Trace+l.ID]
			require.True(t, ok, "%s of %s has a link %s that leads nowhere", s.Name, s.Attributes["lockkeeper.owner"], l.Role)
			require.Equal(t, "lock.wait", to.Name, "links lead to waits, which end early")
			roles[l.Role]++
		}
	}
	return roles
}

const daemon = `version: 1
log: {level: debug, format: json}
jobs:
  compact:
    schedule: manual
    run:
      command: [sh, -c, 'echo "$TRACEPARENT" > child; touch working; trap "exit 0" TERM; while :; do sleep 0.05; done', secret-argument]
      cleanup: [sh, -c, 'touch cleaned']
    locks: [{scope: cluster/orders, priority: 1, cleanup_timeout: 30s}]
`

func TestAPreemptedJobIsOneTraceAndEachSideLinksToTheOther(t *testing.T) {
	t.Parallel()
	// given a daemon whose job holds a lock
	p, receiver := newPlace(t), otlp.Start(t)
	p.write("lockkeeper.yaml", daemon)
	holder := p.start(receiver.Env(), "run", "-f", "lockkeeper.yaml")
	p.ends(0, p.start(nil, "jobs", "run", "compact", "--reason", "test", "--within", "50s"))
	p.await("working")

	// when a command of another process takes that from it
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	preemptor := p.start(append(receiver.Env(), "TRACEPARENT="+parent), "exec", "--scope", "cluster/orders", "--priority", "9", "--owner", "hotfix",
		"--", "sh", "-c", `echo "$TRACEPARENT" > urgent`, "secret-argument")
	p.ends(0, preemptor)
	run := receiver.Await(t, "the run", func(s otlp.Span) bool { return s.Name == "job.run" })
	root := receiver.Await(t, "the command", func(s otlp.Span) bool { return s.Name == "lockkeeper.exec" })
	p.stops(holder)
	spans := receiver.Spans()

	// then every link leads to a span that has arrived, and they are on both sides
	roles := requireLinks(t, spans)
	require.Equal(t, map[string]int{"blocked_by": 1, "preempts": 1, "preempted_by": 1, "acquired_by": 2, "follows": 1}, roles)
	waits := map[string]otlp.Span{}
	holds := map[string]otlp.Span{}
	for _, owner := range []string{"compact", "hotfix"} {
		waits[owner], holds[owner] = receiver.Await(t, "a wait", spanOf("lock.wait", owner)), receiver.Await(t, "a hold", spanOf("lock.hold", owner))
	}
	to := func(s otlp.Span, role string) string {
		for _, l := range s.Links {
			if l.Role == role {
				return l.Trace + l.ID
			}
		}
		return ""
	}
	require.Equal(t, waits["compact"].Trace+waits["compact"].ID, to(waits["hotfix"], "preempts"))
	require.Equal(t, waits["compact"].Trace+waits["compact"].ID, to(waits["hotfix"], "blocked_by"))
	require.Equal(t, waits["hotfix"].Trace+waits["hotfix"].ID, to(holds["compact"], "preempted_by"))
	require.Equal(t, waits["compact"].Trace+waits["compact"].ID, to(holds["hotfix"], "follows"))

	// and all of the job is one trace, below it that of its command; what has started
	// exec is above it
	for file, hold := range map[string]otlp.Span{"child": holds["compact"], "urgent": holds["hotfix"]} {
		require.Equal(t, "00-"+hold.Trace+"-"+hold.ID+"-01\n", p.read(file))
	}
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", root.Trace)
	require.Equal(t, "b7ad6b7169203331", root.Parent)

	// and processes are known by the names that they have in ZooKeeper
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, "lockkeeper", run.Service)
	require.Equal(t, fmt.Sprintf("%s:%d", host, holder.PID()), run.Instance)
	require.Equal(t, fmt.Sprintf("%s:%d", host, preemptor.PID()), root.Instance)

	// and the log is part of the trace
	records := receiver.Records()
	i := slices.IndexFunc(records, func(r otlp.Record) bool { return r.Body == "preempted, the lock is to be released" })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, run.Trace, records[i].Trace)
	require.Contains(t, holder.out.String(), `"trace_id":"`+run.Trace+`"`)

	golden(t, tree(spans, run.Trace)+"\n"+tree(spans, root.Trace))
	require.NotContains(t, receiver.Text(), "secret-argument")
}

// told are the attributes whose values are the same in every run.
var told = []string{
	"error.type", "lockkeeper.blockers.total", "lockkeeper.cause", "lockkeeper.end", "lockkeeper.forceful", "lockkeeper.grace_seconds", "lockkeeper.hooks",
	"lockkeeper.job", "lockkeeper.lock.class", "lockkeeper.mode", "lockkeeper.other.owner", "lockkeeper.other.priority", "lockkeeper.outcome", "lockkeeper.owner",
	"lockkeeper.preempt.reason", "lockkeeper.priority", "lockkeeper.queue.position", "lockkeeper.run.attempts", "lockkeeper.run.manual", "lockkeeper.scope",
	"process.executable.name", "process.exit.code",
}

// tree draws a trace.
func tree(spans []otlp.Span, trace string) string {
	var b strings.Builder
	ids := map[string]bool{}
	for _, s := range spans {
		ids[s.ID] = ids[s.ID] || s.Trace == trace
	}
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		var children []otlp.Span
		for _, s := range spans {
			if s.Trace == trace && (s.Parent == parent || parent == "" && !ids[s.Parent]) {
				children = append(children, s)
			}
		}
		slices.SortStableFunc(children, func(a, b otlp.Span) int { return a.Begin.Compare(b.Begin) })
		for _, s := range children {
			failed := ""
			if s.Failed {
				failed = " ERROR"
			}
			fmt.Fprintf(&b, "%s%s%s%s\n", indent, s.Name, failed, list(s.Attributes))
			for _, l := range s.Links {
				fmt.Fprintf(&b, "%s  -> %s\n", indent, l.Role)
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s  * %s%s\n", indent, e.Name, list(e.Attributes))
			}
			draw(s.ID, indent+"    ")
		}
	}
	draw("", "")
	return b.String()
}

func list(attributes map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		value := "…"
		if slices.Contains(told, key) {
			value = attributes[key]
		}
		fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(key, "lockkeeper."), value)
	}
	return b.String()
}

func golden(t *testing.T, got string) {
	t.Helper()
	file := filepath.Join("testdata", "preempted.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestLinksToAHolderThatWasKilledLeadToItsWait(t *testing.T) {
	t.Parallel()
	p, receiver := newPlace(t), otlp.Start(t)
	holder := p.start(receiver.Env(), "exec", "--zk-session-timeout", "4s", "--scope", "cluster/orders", "--owner", "first", "--", "sh", "-c", "touch working; sleep 600")
	p.await("working")
	receiver.Await(t, "the wait of the holder", spanOf("lock.wait", "first"))
	second := p.start(receiver.Env(), "exec", "--scope", "cluster/orders", "--owner", "second", "--log-level", "info", "--", "true")
	p.says(second, "waiting for lock")
	require.NoError(t, holder.Kill())
	p.ends(0, second)
	receiver.Await(t, "the hold of the second", spanOf("lock.hold", "second"))

	spans := receiver.Spans()
	roles := requireLinks(t, spans)
	require.Equal(t, 1, roles["blocked_by"])
	require.Equal(t, 1, roles["follows"])
	require.False(t, slices.ContainsFunc(spans, spanOf("lock.hold", "first")), "it has not ended")
}

func TestContendedWaitsArriveThoughTheirTraceIsNotKept(t *testing.T) {
	t.Parallel()
	p, receiver := newPlace(t), otlp.Start(t)
	env := append(receiver.Env(), "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0")
	kept := p.start(receiver.Env(), "exec", "--scope", "cluster/kept", "--owner", "kept", "--", "sh", "-c", "touch kept; while [ ! -e go ]; do sleep 0.05; done")
	unkept := p.start(env, "exec", "--scope", "cluster/unkept", "--owner", "unkept", "--", "sh", "-c", "touch unkept; while [ ! -e go ]; do sleep 0.05; done")
	p.await("kept")
	p.await("unkept")
	var waiters []*run
	for _, scope := range []string{"kept", "unkept"} {
		w := p.start(env, "exec", "--scope", "cluster/"+scope, "--owner", "waits-for-"+scope, "--log-level", "info", "--", "true")
		p.says(w, "waiting for lock")
		waiters = append(waiters, w)
	}
	p.ends(0, p.start(env, "exec", "--scope", "cluster/free", "--owner", "uncontended", "--", "true"))
	p.write("go", "")
	for _, c := range append(waiters, kept, unkept) {
		p.ends(0, c)
	}

	// then there are all spans of the one process that keeps its traces, and of the
	// others what has waited for somebody
	var names []string
	for _, s := range receiver.Spans() {
		if s.Attributes["lockkeeper.owner"] != "kept" && s.Name != "lockkeeper.exec" {
			names = append(names, s.Name+" of "+s.Attributes["lockkeeper.owner"])
		}
	}
	require.ElementsMatch(t, []string{"lock.wait of waits-for-kept", "lock.wait of waits-for-unkept"}, names)
	require.Equal(t, 1, requireLinks(t, receiver.Spans())["blocked_by"], "the other one has nothing to link to")
}

func TestACollectorThatIsSlowOrAwayDelaysNothing(t *testing.T) {
	t.Parallel()
	// given a collector that takes connections and never answers, and none at all
	stalled, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = stalled.Close() })
	away, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, away.Close())
	for name, addr := range map[string]string{"stalled": stalled.Addr().String(), "away": away.Addr().String()} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+strings.ReplaceAll(protocol, "/", " "), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				env := []string{
					"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + addr, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol,
					// Ten minutes for everything, and place for one span: were any of it waited
					// for, nothing would end here.
					"OTEL_EXPORTER_OTLP_TIMEOUT=600000", "OTEL_BSP_EXPORT_TIMEOUT=600000", "OTEL_BLRP_EXPORT_TIMEOUT=600000", "OTEL_METRIC_EXPORT_TIMEOUT=600000",
					"OTEL_BSP_MAX_QUEUE_SIZE=1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1", "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_METRIC_EXPORT_INTERVAL=100",
				}
				p.write("lockkeeper.yaml", `version: 1
zookeeper: {session_timeout: 2m}
jobs: {tick: {schedule: "@every 1s", run: {command: [sh, -c, 'echo >> ticks']}, locks: [{scope: a}]}}
`)
				p.write("ticks", "")

				// when a daemon and a command work all the same
				daemon := p.start(env, "run", "-f", "lockkeeper.yaml")
				p.ends(0, p.start(env, "exec", "--scope", "b", "--", "true"))
				harness.Eventually(t, func() bool { return strings.Count(p.read("ticks"), "\n") >= 2 }, "the job runs")

				// then they end
				p.stops(daemon)
			})
		}
	}
}

func TestMetricsOfACommandArriveAtItsEnd(t *testing.T) {
	t.Parallel()
	p, receiver := newPlace(t), otlp.Start(t)
	rarely := append(receiver.Env(), "OTEL_METRIC_EXPORT_INTERVAL=3600000") // it is over long before
	for n, command := range [][]string{{"true"}, {"false"}} {
		c := p.start(rarely, append([]string{"exec", "--scope", "tenant/7", "--class", "tenant/{id}", "--"}, command...)...)
		p.ends(n, c)
		for _, name := range []string{"lockkeeper.lock.wait.duration", "lockkeeper.lock.hold.duration"} {
			require.EqualValues(t, 1, receiver.Recorded(name), "%s of %s", name, command)
		}
		require.Positive(t, receiver.Recorded("lockkeeper.zk.operation.duration"))
	}
	require.Contains(t, receiver.Text(), `"tenant/{id}"`)
}

const shards = `version: 1
groups: [{name: shards, locks: 2}]
`

// Series without events yet are exported as well, with 0, so that the first failure
// is seen; but not to exporters of differences.
func TestSeriesOfDeclaredClassesAreExportedBeforeAnythingHappens(t *testing.T) {
	t.Parallel()
	const file = `version: 1
jobs:
  compact: {schedule: manual, run: ["true"], locks: [{scope: cluster/orders}]}
`
	const waits = "lockkeeper.lock.wait.duration"
	p := newPlace(t)
	p.write("lockkeeper.yaml", file)
	receiver := otlp.Start(t)
	daemon := p.start(receiver.Env(), "run", "-f", "lockkeeper.yaml")
	harness.Eventually(t, func() bool { return len(receiver.Points(waits)) > 0 }, "an export")
	var outcomes []lockguard.Outcome
	for _, point := range receiver.Points(waits) {
		require.Equal(t, "cluster/orders", point.Attributes["lock.class"])
		require.Zero(t, point.Count)
		outcomes = append(outcomes, lockguard.Outcome(point.Attributes["outcome"]))
	}
	require.ElementsMatch(t, lockguard.Outcomes(), outcomes)
	p.stops(daemon)

	differences := otlp.Start(t)
	daemon = p.start(append(differences.Env(), "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta"), "run", "-f", "lockkeeper.yaml")
	harness.Eventually(t, func() bool { return len(differences.Points("lockkeeper.zk.operation.duration")) > 0 }, "an export")
	p.stops(daemon)
	require.False(t, differences.HasMetric(waits))
}

func TestLocksOfAGroupAreSpansBelowItsParticipant(t *testing.T) {
	t.Parallel()
	p, receiver := newPlace(t), otlp.Start(t)
	p.write("lockkeeper.yaml", shards)
	member := p.start(receiver.Env(), "group", "join", "--name", "one", "--", "sh", "-c",
		`echo "$TRACEPARENT" > "$LOCKKEEPER_LOCK.new"; mv "$LOCKKEEPER_LOCK.new" "$LOCKKEEPER_LOCK"; sleep 600`, "secret-argument")
	p.await("shards_0")
	p.await("shards_1")
	p.stops(member)

	root := receiver.Await(t, "the participant", func(s otlp.Span) bool { return s.Name == "lockkeeper.group.join" })
	require.Equal(t, "0", root.Attributes["process.exit.code"])
	for _, lock := range []string{"shards_0", "shards_1"} {
		hold := receiver.Await(t, lock, func(s otlp.Span) bool {
			return s.Name == "group.hold" && s.Attributes["lockkeeper.group.lock"] == lock
		})
		require.Equal(t, []string{root.Trace, root.ID}, []string{hold.Trace, hold.Parent})
		require.Equal(t, "released", hold.Attributes["lockkeeper.end"])
		require.Equal(t, "shards", hold.Attributes["lockkeeper.group"])
		require.False(t, hold.Failed)
		require.Equal(t, "00-"+hold.Trace+"-"+hold.ID+"-01\n", p.read(lock))
	}
	require.Positive(t, receiver.Recorded("lockkeeper.zk.operation.duration"))
	require.NotContains(t, receiver.Text(), "secret-argument")
}

func TestAWrongEnvironmentIsReportedAndStopsNoWork(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.start([]string{"OTEL_TRACES_EXPORTER=pigeon", "OTEL_METRICS_EXPORTER=prometheus", "OTEL_LOGS_EXPORTER=none"}, "exec", "--scope", "a", "--", "echo", "works")
	p.ends(0, c)
	require.Contains(t, c.out.String(), "works\n")
	require.Contains(t, c.out.String(), "traces are not exported")
	require.Contains(t, c.out.String(), "metrics: {listen:")
}

func TestWithoutAskingNothingIsExported(t *testing.T) {
	t.Parallel()
	p, receiver := newPlace(t), otlp.Start(t)
	// the endpoint is known, and each signal is turned off
	off := append(receiver.Env(), "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none")
	for _, env := range [][]string{off, append(receiver.Env(), "OTEL_SDK_DISABLED=true")} {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		c := p.start(append(env, "TRACEPARENT="+parent), "exec", "--scope", "a", "--", "sh", "-c", "echo $TRACEPARENT")
		p.ends(0, c)
		require.Equal(t, parent+"\n", c.out.String(), "it goes on to the command")
	}
	require.Empty(t, receiver.Text())
}
