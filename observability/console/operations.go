package console

import (
	"context"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func withPatience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, factPatience)
}

// overridesModel are those in force, and the form for another one.
type overridesModel struct {
	State factState
	Rows  []overrideRow
	Form  *overrideForm
	Kinds []kindHelp
}

type overrideRow struct {
	views.Override
	What  string
	Match string
	Until template.HTML
	Clear string // where its form is
	File  bool   // it is cleared by writing the file
	Kept  []keptRow
	Rest  int // of those whom it keeps out, that are not listed
}

// manyKept is how many of those whom an override keeps out are listed.
const manyKept = 20

type keptRow struct {
	views.KeptOut
	Path  string // of the lock or of the job
	Since template.HTML
}

type kindHelp struct{ Kind, Help string }

// overrideKinds are all kinds, with what they do.
func overrideKinds() []kindHelp {
	help := map[override.Kind]string{
		override.Boost:      "raises the priority of matching requests",
		override.Cap:        "lowers the priority of matching requests",
		override.Freeze:     "keeps matching requests from getting locks",
		override.Hold:       "takes the lock of one scope and keeps it, for a person",
		override.PreemptNow: "preempts the holder of one scope, then takes the lock by force",
		override.Pause:      "skips the ticks of matching jobs",
		override.Extend:     "gives matching requests more time",
		override.Bypass:     "lets matching work run without its lock, where the configuration allows it",
	}
	var all []kindHelp
	for _, kind := range override.Kinds() {
		all = append(all, kindHelp{string(kind), help[kind]})
	}
	return all
}

func drawOverrides(v *visit) (any, error) {
	m := &overridesModel{Kinds: overrideKinds()}
	form, err := v.overrideForm()
	if err != nil {
		return nil, err
	}
	m.Form = form
	f := v.c.overrides.get(v.ctx)
	m.State = stateOf(v, f)
	for _, o := range f.Is {
		row := overrideRow{
			Override: o, What: effect(o.Override()), Match: o.Override().Match.String(), Until: v.Until(o.Until),
			Clear: v.With("do", "clear", "id", o.ID) + "#act", File: o.Source == "file",
		}
		for i, k := range o.KeepsOut {
			if i == manyKept {
				row.Rest = len(o.KeepsOut) - i
				break
			}
			kept := keptRow{KeptOut: k, Path: "/jobs/" + escapePath(k.Owner)}
			if k.Scope != "" {
				kept.Path = scopePath(k.Scope)
			}
			if k.Since != nil {
				kept.Since = v.Ago(*k.Since)
			}
			row.Kept = append(row.Kept, kept)
		}
		m.Rows = append(m.Rows, row)
	}
	return m, nil
}

// effect is what an override makes of those whom it concerns.
func effect(o override.Override) string {
	var parts []string
	if o.Priority != nil {
		parts = append(parts, "priority "+live.LevelText(*o.Priority))
	}
	if o.Forceful != nil {
		parts = append(parts, map[bool]string{true: "forceful", false: "polite"}[*o.Forceful])
	}
	for _, t := range []struct {
		name string
		d    *time.Duration
	}{
		{"waiting", o.WaitingTimeout},
		{"lease", o.LeaseTimeout},
		{"cleanup", o.CleanupTimeout},
		{"acquire", o.AcquireTimeout},
	} {
		if t.d != nil {
			parts = append(parts, t.name+" "+human(*t.d))
		}
	}
	return strings.Join(parts, ", ")
}

// approvalsModel are the questions that wait for a decision.
type approvalsModel struct {
	State factState
	Rows  []approvalRow
	Form  *approvalForm
}

type approvalRow struct {
	views.Approval
	Path   string
	Waited string
	Opened template.HTML
	Until  template.HTML
	Links  map[string]string // where the forms are
}

func drawApprovals(v *visit) (any, error) {
	m := &approvalsModel{}
	form, err := v.approvalForm()
	if err != nil {
		return nil, err
	}
	m.Form = form
	f := v.c.approvals.get(v.ctx)
	m.State = stateOf(v, f)
	for _, a := range f.Is {
		row := approvalRow{
			Approval: a, Path: scopePath(a.Scope), Opened: v.Ago(a.Opened), Waited: human(elapsed(a.Waited, a.Opened, v.now)),
			Links: map[string]string{},
		}
		if a.Until != nil {
			row.Until = v.Until(*a.Until)
		}
		for _, verb := range []string{"approve", "force", "deny"} {
			row.Links[verb] = v.With("do", verb, "id", a.ID) + "#act"
		}
		m.Rows = append(m.Rows, row)
	}
	return m, nil
}

// auditModel are records, the newest first.
type auditModel struct {
	State  factState
	Rows   []auditRow
	Scope  string
	By     string
	Within string
	Limit  int64
	More   string // where older ones are
}

type auditRow struct {
	opstore.AuditRecord
	When    template.HTML
	Path    string
	Victims []string
	Changes []string
	Tone    string
}

func drawAudit(v *visit) (any, error) {
	m := &auditModel{Scope: v.text("scope"), By: v.text("by"), Within: v.text("within")}
	within := v.duration("within", 0, time.Second, 366*24*time.Hour)
	m.Limit = v.number("limit", 100, 1, maxAudit)
	if len(v.problems) > 0 {
		return m, nil
	}
	q := opstore.AuditQuery{Scope: m.Scope, By: m.By, Limit: int(m.Limit)}
	if within > 0 {
		q.Since = v.now.Add(-within)
	}
	records, left, err := v.c.audit(v.ctx, q)
	m.State = stateOf(v, fact[[]opstore.AuditRecord]{Is: records, Left: left, Err: err, At: v.now})
	if err != nil {
		m.State.Known, m.State.Since = false, ""
	}
	for _, r := range slices.Backward(records) {
		m.Rows = append(m.Rows, v.auditRow(r))
	}
	if int64(len(records)) == m.Limit && m.Limit < maxAudit {
		m.More = v.With("limit", "1000")
	}
	return m, nil
}

// maxAudit is how many records one answer has.
const maxAudit = 1000

// audit reads records, the oldest first.
func (c *Console) audit(ctx context.Context, q opstore.AuditQuery) ([]opstore.AuditRecord, []lock.Unreadable, error) {
	if c.o.Facts.Audit == nil {
		return nil, nil, errNotHere
	}
	ctx, cancel := withPatience(ctx)
	defer cancel()
	return c.o.Facts.Audit(ctx, q)
}

func (v *visit) auditRow(r opstore.AuditRecord) auditRow {
	row := auditRow{AuditRecord: r, When: v.Clock(r.At)}
	if r.Scope != "" && !strings.ContainsAny(r.Scope, "*?") {
		row.Path = scopePath(r.Scope)
	}
	for _, p := range r.Victims {
		row.Victims = append(row.Victims, p.Owner+", priority "+live.LevelText(p.Priority))
	}
	for _, key := range slices.Sorted(maps.Keys(r.After)) {
		row.Changes = append(row.Changes, key+": "+r.After[key])
	}
	switch {
	case r.Result == opstore.AuditFailed:
		row.Tone = "warn"
	case r.Action == opstore.AuditBreak, r.Action == opstore.AuditTakeover, r.Action == opstore.AuditLost:
		row.Tone = "bad"
	}
	return row
}
