package emergency

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
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

func waits(job string, holds func(lock.Contender) bool) func(*town, string) bool {
	return func(w *town, _ string) bool {
		c, ok := w.waiter(job)
		return ok && holds(c)
	}
}

func kinds() []kind {
	return []kind{
		{
			name: "boost", yaml: "match: {job: boost}, priority: 50", flags: []string{"--job", "boost", "--priority", "50"}, held: true,
			acts: waits("boost", func(c lock.Contender) bool { return c.Priority == 50 }),
		},
		{
			name: "cap", yaml: "match: {scope: town/c*}, priority: 5", flags: []string{"--scope", "town/c*", "--priority", "5"}, held: true,
			acts: waits("cap", func(c lock.Contender) bool { return c.Priority == 5 }),
		},
		{
			name: "extend", yaml: "match: {job: extend}, lease_timeout: 5m", flags: []string{"--job", "extend", "--lease", "5m"}, held: true,
			acts: waits("extend", func(c lock.Contender) bool { return c.LeaseTimeout == 5*time.Minute }),
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
		pending = slices.DeleteFunc(pending, func(k kind) bool { return k.acts(w, k.name) })
		return len(pending) == 0
	})
}

// end waits until none of them acts any more, and the paused job runs again.
func (w *town) end() {
	w.Helper()
	ran := strings.Count(w.read("unpaused"), "\n")
	pending := slices.DeleteFunc(kinds(), func(k kind) bool { return k.once })
	w.until("all have ended", func() bool {
		pending = slices.DeleteFunc(pending, func(k kind) bool { return !k.acts(w, k.name) })
		return len(pending) == 0
	})
	w.until("the paused job runs again", func() bool { return strings.Count(w.read("unpaused"), "\n") > ran })
	overridden := &lockguard.OverriddenError{}
	require.ErrorAs(w, w.gone.Refused(), &overridden)
	require.Equal(w, "preempt-now", overridden.Override.ID)
}

// onRecord waits until it is on record once that each of them began and was taken back, though three daemons know of it.
func (w *town) onRecord() {
	w.Helper()
	for _, k := range kinds() {
		w.until(k.name+" is on record", func() bool {
			return w.audited(opstore.AuditOverrideApply, k.name) == 1 && w.audited(opstore.AuditOverrideClear, k.name) == 1
		})
	}
}

func TestEveryKindOfTheFileActsUntilItIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.prepare()

	// when the file says them all, with one that is wrong
	until := time.Now().Add(time.Hour)
	var entries []string
	for _, k := range kinds() {
		entries = append(entries, entry(k.name, k.name, k.yaml, until))
	}
	w.write("overrides.yaml", yamlOf(append(entries, entry("bad", "cap", "match: {job: cap}, priorty: 3", until))...))

	// then none acts
	for _, d := range w.daemons {
		w.until("the daemon says what is wrong", func() bool { return has(d, "overrides file not in force", "overrides.yaml:10:", "priorty") })
	}
	w.until("the job to cap waits as it did", func() bool { c, waits := w.waiter("cap"); return waits && c.Priority == 20 })

	// and all do when that is put right, until the file says them no more
	w.write("overrides.yaml", yamlOf(entries...))
	w.begin(kinds()...)
	w.write("overrides.yaml", "overrides: []\n")
	w.end()
	w.onRecord()
}

func TestEveryKindByCommandActsUntilItIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.write("lockkeeper.yaml", strings.Replace(configuration, "file: overrides.yaml, ", "", 1))
	w.prepare()
	for _, k := range kinds() {
		w.commands(append([]string{"override", "apply", k.name, "--kind", k.name, "--for", "1h", "--reason", "test"}, k.flags...)...)
		w.begin(k)
	}
	for _, k := range kinds() {
		w.commands("override", "clear", k.name, "--reason", "enough")
	}
	w.end()
	w.onRecord()
}

// commands runs a command that has to succeed.
func (w *town) commands(args ...string) {
	w.Helper()
	out, err := w.run(args...)
	require.NoError(w, err, out)
}

func has(d *harness.Daemon, parts ...string) bool {
	_, there := d.Line(parts...)
	return there
}
