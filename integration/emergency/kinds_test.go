package emergency

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	once  bool          // what it has done stays done
	late  time.Duration // how long it takes until its end shows: the next tick of the job
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
			late: time.Second,
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
			acts: func(w *town, _ string) bool { return len(w.gone) > 0 }, once: true,
		},
		{
			name: "pause", yaml: "match: {job: pause}", flags: []string{"--job", "pause"},
			acts: func(w *town, id string) bool {
				return !slices.ContainsFunc(w.daemons, func(d *daemon) bool { return !d.log.has("override in force", "override="+id) })
			},
			once: true,
		},
		{
			name: "bypass", yaml: "match: {scope: town/bypass}", flags: []string{"--scope", "town/bypass"}, held: true,
			acts: func(w *town, _ string) bool {
				_, there := w.waiter("bypass")
				return !there && w.read("bypassed") != ""
			},
			late: time.Second,
		},
	}
}

const (
	// last is how long overrides last in these tests.
	last = 15 * time.Second

	// prompt is how long it takes at most, on a busy machine, until an override
	// acts, and until it has ended. The figures that people see are in the log: well below
	// a second.
	prompt = 10 * time.Second
)

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
		w.within(patience, job+" stands in line", func() bool { _, ok := w.waiter(job); return ok })
	}
	w.within(patience, "the job runs that is to be paused", func() bool { return w.read("unpaused") != "" })
}

// said is when an override was said, and until when.
type said struct{ at, until time.Time }

// judgeBeginnings measures when overrides begin to act.
func (w *town) judgeBeginnings(when map[string]said, pending ...kind) {
	w.Helper()
	began := time.Now()
	for len(pending) > 0 {
		require.Less(w, time.Since(began), patience, "%d of the overrides do not act", len(pending))
		pending = slices.DeleteFunc(pending, func(k kind) bool {
			s := when[k.name]
			if s.at.IsZero() || !k.acts(w, id(k)) {
				return false
			}
			took := time.Since(s.at)
			w.Logf("%-12s acts after %s", k.name, took.Round(time.Millisecond))
			require.Less(w, took, prompt, "%s acts too late", k.name)
			return true
		})
	}
}

// judgeEnds measures when all of them end.
func (w *town) judgeEnds(when map[string]said) {
	w.Helper()
	first := when[kinds()[0].name].until // the order in which they were said
	w.at(first.Add(-500 * time.Millisecond))
	for _, k := range kinds() {
		require.True(w, k.acts(w, id(k)), "%s has ended too early", k.name)
	}
	ran := strings.Count(w.read("unpaused"), "\n")
	pending := slices.DeleteFunc(kinds(), func(k kind) bool { return k.once })
	w.within(patience, "all have ended", func() bool {
		pending = slices.DeleteFunc(pending, func(k kind) bool {
			if k.acts(w, id(k)) {
				return false
			}
			late := time.Since(when[k.name].until)
			w.Logf("%-12s ends %s after its time", k.name, late.Round(time.Millisecond))
			require.GreaterOrEqual(w, late, -50*time.Millisecond, k.name)
			require.Less(w, late, prompt+k.late, k.name)
			return true
		})
		return len(pending) == 0
	})
	w.within(patience, "the paused job runs again", func() bool { return strings.Count(w.read("unpaused"), "\n") > ran })
	require.Less(w, time.Since(when["pause"].until), 3*time.Second+prompt)
	select {
	case err := <-w.gone:
		overridden := &lockguard.OverriddenError{}
		require.ErrorAs(w, err, &overridden)
		require.Equal(w, "preempt-now", overridden.Override.ID)
	default:
		require.Fail(w, "nobody was asked to go")
	}
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
	at := time.Now()
	w.write("overrides.yaml", yamlOf(entries...))

	// then
	when := map[string]said{}
	for _, k := range kinds() {
		when[k.name] = said{at, until}
	}
	w.judgeBeginnings(when, kinds()...)
	w.judgeEnds(when)

	// and each is on record once, though three daemons have the file
	for _, k := range kinds() {
		w.within(patience, k.name+" is on record", func() bool {
			return w.audited(recipes.AuditOverrideApply, id(k)) == 1 && w.audited(recipes.AuditOverrideExpire, id(k)) == 1
		})
	}
}

func TestEveryKindByCommandActsAtOnceAndEndsOnTime(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.write("lockkeeper.yaml", strings.Replace(configuration, "file: overrides.yaml, ", "", 1))
	w.prepare()
	when := map[string]said{}
	for _, k := range kinds() {
		until := time.Now().Add(last).Truncate(time.Millisecond)
		out, err := w.run(append([]string{"override", "apply", id(k), "--kind", k.name, "--until", stamp(until), "--reason", "test"}, k.flags...)...)
		require.NoError(t, err, out)
		posted, err := w.client.Overrides().List(t.Context())
		require.NoError(t, err)
		i := slices.IndexFunc(posted, func(o recipes.PostedOverride) bool { return o.Override.ID == id(k) })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, stamp(until), stamp(posted[i].Override.Until))
		when[k.name] = said{posted[i].PostedAt, until}
		w.judgeBeginnings(when, k)
	}
	w.judgeEnds(when)
	for _, k := range kinds() {
		w.within(patience, k.name+" is on record", func() bool {
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
	w.within(patience, "the job stands in line", priorityIs(20))
	until := time.Now().Add(time.Hour)

	// a cap wins over a boost, whatever the order
	boost := entry("a-boost", "boost", "match: {job: cap}, priority: 60", until)
	capped := entry("b-cap", "cap", "match: {job: cap}, priority: 30", until)
	w.write("overrides.yaml", yamlOf(capped, boost))
	w.within(time.Second, "boosted and capped", priorityIs(30))

	// a file with anything wrong in it changes nothing
	w.write("overrides.yaml", yamlOf(boost, entry("c-cap", "cap", "match: {job: cap}, priorty: 3", until)))
	for _, d := range w.daemons {
		w.within(time.Second, "the daemon says what is wrong", func() bool { return d.log.has("overrides file not in force", "overrides.yaml:3:", "priorty") })
	}
	require.True(t, priorityIs(30)())

	// what ZooKeeper has of an ID counts
	out, err := w.run("override", "apply", "b-cap", "--kind", "cap", "--job", "cap", "--priority", "10", "--for", "1h", "-r", "test")
	require.NoError(t, err, out)
	w.within(time.Second, "capped by ZooKeeper", priorityIs(10))
	out, err = w.run("override", "ls")
	require.NoError(t, err, out)
	require.Regexp(t, `\bzookeeper +test\b`, out)
	out, err = w.run("override", "clear", "b-cap", "-r", "enough")
	require.NoError(t, err, out)
	w.within(time.Second, "capped by the file", priorityIs(30))

	// and a file that is right again counts at once
	w.write("overrides.yaml", yamlOf(boost))
	w.within(time.Second, "boosted alone", priorityIs(60))
	w.write("overrides.yaml", "overrides: []\n")
	w.within(time.Second, "as declared", priorityIs(20))
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
	w.within(patience, "it is held", func() (ok bool) { first, ok = held(); return ok })
	i := slices.IndexFunc(w.daemons, func(d *daemon) bool { return d.cmd.Process.Pid == first.PID })
	require.GreaterOrEqual(t, i, 0)
	require.NoError(t, w.daemons[i].cmd.Process.Kill())
	w.within(patience, "another one holds it", func() bool { c, ok := held(); return ok && c.PID != first.PID })
	out, err = w.run("override", "clear", "INC-1", "-r", "done")
	require.NoError(t, err, out)
	w.within(time.Second, "it is given back", func() bool { _, ok := held(); return !ok })
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

// allRecords returns the whole trail.
func allRecords(ctx context.Context, log *recipes.AuditLog) ([]recipes.AuditRecord, error) {
	all, _, err := log.Read(ctx, recipes.AuditQuery{})
	return all, err
}
