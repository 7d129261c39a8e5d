package emergency

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A kind is one of overrides, with what shows that it acts.
type kind struct {
	name  string
	yaml  string   // of its entry
	flags []string // that say the same
	held  bool     // by somebody, while it acts
	acts  func(w *town, id string) bool
	once  bool // what it has done stays done
}

func waits(job string, holds func(recipes.Contender) bool) func(*town, string) bool {
	return func(w *town, _ string) bool {
		c, ok := w.waiter(job)
		return ok && holds(c)
	}
}

func kinds() []kind {
	return []kind{
		{
			name: "boost", yaml: "match: {job: boost}, priority: 50", flags: []string{"--job", "boost", "--priority", "50"}, held: true,
			acts: waits("boost", func(c recipes.Contender) bool { return c.Priority == 50 }),
		},
		{
			name: "cap", yaml: "match: {scope: town/c*}, priority: 5", flags: []string{"--scope", "town/c*", "--priority", "5"}, held: true,
			acts: waits("cap", func(c recipes.Contender) bool { return c.Priority == 5 }),
		},
		{
			name: "extend", yaml: "match: {job: extend}, lease_timeout: 5m", flags: []string{"--job", "extend", "--lease", "5m"}, held: true,
			acts: waits("extend", func(c recipes.Contender) bool { return c.LeaseTimeout == 5*time.Minute }),
		},
		{
			name: "freeze", yaml: "match: {scope: town/freeze, priority_below: 80}", flags: []string{"--scope", "town/freeze", "--below", "80"}, held: true,
			acts: func(w *town, _ string) bool { _, there := w.waiter("freeze"); return !there },
		},
		{
			name: "hold", yaml: "match: {scope: town/hold}", flags: []string{"--scope", "town/hold"},
			acts: func(w *town, id string) bool {
				holders := w.lock("town/hold").Holders
				return len(holders) == 1 && holders[0].Priority == priority.Emergency && holders[0].Override != nil && holders[0].Override.ID == id
			},
		},
		{
			name: "preempt-now", yaml: "match: {scope: town/preempt-now}", flags: []string{"--scope", "town/preempt-now"}, held: true,
			acts: func(w *town, _ string) bool {
				select {
				case <-w.gone.Done():
					return true
				default:
					return false
				}
			},
			once: true,
		},
		{
			name: "pause", yaml: "match: {job: pause}", flags: []string{"--job", "pause"},
			acts: func(w *town, id string) bool {
				return !slices.ContainsFunc(w.daemons, func(d *harness.Daemon) bool { return !has(d, "override in force", "override="+id) })
			},
			once: true,
		},
		{
			name: "bypass", yaml: "match: {scope: town/bypass}", flags: []string{"--scope", "town/bypass"}, held: true,
			acts: func(w *town, _ string) bool {
				_, there := w.waiter("bypass")
				return !there && w.read("bypassed") != ""
			},
		},
	}
}

// last is how long overrides last in these tests.
const last = 15 * time.Second

// prepare has the locks taken, and waits until jobs stand in line.
func (w *town) prepare() {
	w.Helper()
	for _, k := range kinds() {
		if !k.held {
			continue
		}
		gone := w.occupy("town/" + k.name)
		if k.name == "preempt-now" {
			w.gone = gone
		}
	}
	w.start()
	for _, job := range []string{"boost", "cap", "extend", "freeze", "bypass"} {
		w.until(job+" stands in line", func() bool { _, ok := w.waiter(job); return ok })
	}
	w.until("the job runs that is to be paused", func() bool { return w.read("unpaused") != "" })
}

// begin waits until overrides act.
func (w *town) begin(pending ...kind) {
	w.Helper()
	w.until("all overrides act", func() bool {
		pending = slices.DeleteFunc(pending, func(k kind) bool { return k.acts(w, id(k)) })
		return len(pending) == 0
	})
}

// judgeEnds waits until all of them end: each after its time.
func (w *town) judgeEnds(until map[string]time.Time) {
	w.Helper()
	first := until[kinds()[0].name] // the order in which they were said
	w.at(first.Add(-500 * time.Millisecond))
	for _, k := range kinds() {
		require.True(w, k.acts(w, id(k)), "%s has ended too early", k.name)
	}
	ran := strings.Count(w.read("unpaused"), "\n")
	pending := slices.DeleteFunc(kinds(), func(k kind) bool { return k.once })
	w.until("all have ended", func() bool {
		pending = slices.DeleteFunc(pending, func(k kind) bool {
			if k.acts(w, id(k)) {
				return false
			}
			require.GreaterOrEqual(w, time.Since(until[k.name]), -50*time.Millisecond, k.name)
			return true
		})
		return len(pending) == 0
	})
	w.until("the paused job runs again", func() bool { return strings.Count(w.read("unpaused"), "\n") > ran })
	overridden := &lockguard.OverriddenError{}
	require.ErrorAs(w, w.gone.Refused(), &overridden)
	require.Equal(w, "preempt-now", overridden.Override.ID)
}

func id(k kind) string { return k.name }

// at waits for a moment.
func (w *town) at(moment time.Time) {
	select {
	case <-time.After(time.Until(moment)):
	case <-w.Context().Done():
	}
}

func TestEveryKindOfTheFileActsAtOnceAndEndsOnTime(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.prepare()

	// when
	until := time.Now().Add(last)
	var entries []string
	for _, k := range kinds() {
		entries = append(entries, entry(id(k), k.name, k.yaml, until))
	}
	w.write("overrides.yaml", yamlOf(entries...))

	// then
	ends := map[string]time.Time{}
	for _, k := range kinds() {
		ends[k.name] = until
	}
	w.begin(kinds()...)
	w.judgeEnds(ends)

	// and each is on record once, though three daemons have the file
	for _, k := range kinds() {
		w.until(k.name+" is on record", func() bool {
			return w.audited(recipes.AuditOverrideApply, id(k)) == 1 && w.audited(recipes.AuditOverrideExpire, id(k)) == 1
		})
	}
}

func TestEveryKindByCommandActsAtOnceAndEndsOnTime(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.write("lockkeeper.yaml", strings.Replace(configuration, "file: overrides.yaml, ", "", 1))
	w.prepare()
	ends := map[string]time.Time{}
	for _, k := range kinds() {
		until := time.Now().Add(last).Truncate(time.Millisecond)
		out, err := w.run(append([]string{"override", "apply", id(k), "--kind", k.name, "--until", stamp(until), "--reason", "test"}, k.flags...)...)
		require.NoError(t, err, out)
		posted, err := w.client.Overrides().List(t.Context())
		require.NoError(t, err)
		i := slices.IndexFunc(posted, func(o recipes.PostedOverride) bool { return o.Override.ID == id(k) })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, stamp(until), stamp(posted[i].Override.Until))
		ends[k.name] = until
		w.begin(k)
	}
	w.judgeEnds(ends)
	for _, k := range kinds() {
		w.until(k.name+" is on record", func() bool {
			return w.audited(recipes.AuditOverrideApply, id(k)) == 1 && w.audited(recipes.AuditOverrideExpire, id(k)) == 1
		})
	}
}

func TestABadFileIsRefusedWholeAndConflictsAreResolved(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.occupy("town/cap")
	w.start()
	priorityIs := func(level priority.Level) func() bool {
		return func() bool { return waits("cap", func(c recipes.Contender) bool { return c.Priority == level })(w, "") }
	}
	w.until("the job stands in line", priorityIs(20))
	until := time.Now().Add(time.Hour)

	// a cap wins over a boost, whatever the order
	boost := entry("a-boost", "boost", "match: {job: cap}, priority: 60", until)
	capped := entry("b-cap", "cap", "match: {job: cap}, priority: 30", until)
	w.write("overrides.yaml", yamlOf(capped, boost))
	w.until("boosted and capped", priorityIs(30))

	// a file with anything wrong in it changes nothing
	w.write("overrides.yaml", yamlOf(boost, entry("c-cap", "cap", "match: {job: cap}, priorty: 3", until)))
	for _, d := range w.daemons {
		w.until("the daemon says what is wrong", func() bool { return has(d, "overrides file not in force", "overrides.yaml:3:", "priorty") })
	}
	require.True(t, priorityIs(30)())

	// what ZooKeeper has of an ID counts
	out, err := w.run("override", "apply", "b-cap", "--kind", "cap", "--job", "cap", "--priority", "10", "--for", "1h", "-r", "test")
	require.NoError(t, err, out)
	w.until("capped by ZooKeeper", priorityIs(10))
	out, err = w.run("override", "ls")
	require.NoError(t, err, out)
	require.Regexp(t, `\bzookeeper +test\b`, out)
	out, err = w.run("override", "clear", "b-cap", "-r", "enough")
	require.NoError(t, err, out)
	w.until("capped by the file", priorityIs(30))

	// and a file that is right again counts at once
	w.write("overrides.yaml", yamlOf(boost))
	w.until("boosted alone", priorityIs(60))
	w.write("overrides.yaml", "overrides: []\n")
	w.until("as declared", priorityIs(20))
}

func TestAHoldPassesToAnotherDaemonWhenItsOwnDies(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	out, err := w.run("override", "apply", "INC-1", "--kind", "hold", "--scope", "town/hold", "--for", "1h", "-r", "test")
	require.NoError(t, err, out)
	held := func() (c recipes.Contender, ok bool) {
		holders := w.lock("town/hold").Holders
		if len(holders) == 0 {
			return c, false
		}
		return holders[0], true
	}
	var first recipes.Contender
	w.until("it is held", func() (ok bool) { first, ok = held(); return ok })
	i := slices.IndexFunc(w.daemons, func(d *harness.Daemon) bool { return d.Cmd.Process.Pid == first.PID })
	require.GreaterOrEqual(t, i, 0)
	require.NoError(t, w.daemons[i].Cmd.Process.Kill())
	w.until("another one holds it", func() bool { c, ok := held(); return ok && c.PID != first.PID })
	out, err = w.run("override", "clear", "INC-1", "-r", "done")
	require.NoError(t, err, out)
	w.until("it is given back", func() bool { _, ok := held(); return !ok })
}

func TestAStrangerAppliesNothing(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.env = slices.DeleteFunc(w.env, func(v string) bool { return strings.HasPrefix(v, "LOCKKEEPER_ZK_DIGEST_FILE=") })
	for _, args := range [][]string{
		{"override", "apply", "INC-1", "--kind", "freeze", "--scope", "*/x", "--for", "1h", "-r", "test"},
		{"override", "clear", "INC-1", "-r", "test"},
		{"approvals", "approve", "a-0000000001", "-r", "test"},
	} {
		out, err := w.run(args...)
		failed := errors.AsType[interface {
			error
			ExitCode() int
		}]
		exit, ok := failed(err)
		require.True(t, ok, "%v: %s", err, out)
		require.Equal(t, 78, exit.ExitCode(), out)
		require.Contains(t, out, "this client has no credentials")
		require.Equal(t, 1, strings.Count(out, "\n"), out)
	}
}

func has(d *harness.Daemon, parts ...string) bool {
	_, there := d.Line(parts...)
	return there
}
