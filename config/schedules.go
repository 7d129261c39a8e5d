package config

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// TemporalSchedules says which jobs the Temporal server starts itself, as its own
// schedules.
type TemporalSchedules struct {
	// Asked: all jobs that start workflows, unless they say otherwise.
	Asked bool

	// Orphans says what becomes of schedules whose jobs are gone. Defaults to
	// temporal.OrphansPause.
	Orphans temporal.Orphans

	// Set tells the schedules of this configuration from those of another one of
	// the same root. Defaults to temporal.DefaultScheduleSet.
	Set string
}

// Who starts a workflow at its times.
const (
	byLockkeeper = "lockkeeper"
	byTemporal   = "temporal"
)

var schedulesShape = shape{
	name:    "temporal.schedules",
	example: "write true, or it like {set: orders, orphans: pause}",
	keys: []key{
		to("set", text("write a name such as orders"), filled(temporal.DefaultScheduleSet),
			"Tells these schedules from those of another configuration of the same root, which are no orphans here.",
			func(s *TemporalSchedules) *string { return &s.Set }),
		to("orphans", choice[temporal.Orphans](temporal.OrphansPause, temporal.OrphansDelete, temporal.OrphansKeep),
			temporal.OrphansPause, "What becomes of schedules whose jobs are gone.",
			func(s *TemporalSchedules) *temporal.Orphans { return &s.Orphans }),
	},
	hints: map[string]string{"name": `did you mean "set"?`, "orphaned": `did you mean "orphans"?`},
}

// temporalSchedules reads true, false, or a mapping, which means true.
func (r *reader) temporalSchedules(v value, c *Config) {
	s := &c.TemporalSchedules
	if r.isMapping(v) {
		_, ok := r.section(v, &schedulesShape, s)
		s.Asked = ok || r.pushed
		return
	}
	asked, _ := r.boolean(v)
	s.Asked = asked || r.pushed
}

// temporalSchedule makes a job a schedule of the Temporal server, if it is to be
// one. at is the name of the job.
func (r *reader) temporalSchedule(o object, at value, t task, job *jobEntry) {
	by := ""
	if v := t.flow.get("scheduled_by"); v.exists() {
		by = v.node.Value
	}
	w, ok := t.main.(*temporal.StartWorkflow)
	if !ok || by == byLockkeeper || by == "" && !r.cfg.TemporalSchedules.Asked {
		return
	}
	timing, err := scheduler.TimingOf(job.Job)
	if err != nil || by == "" && timing.Manual {
		return // reported already; or by hand alone
	}
	s := temporal.Schedule{Job: job.Job, Timing: temporal.Timing{
		Every: timing.Every, Phase: timing.Phase, Zone: timing.Zone, MadeUp: timing.MadeUp, Repeated: timing.Repeated,
	}}
	s.Job.Work = w
	for _, c := range timing.Calendars {
		s.Timing.Calendars = append(s.Timing.Calendars, temporal.Calendar(c))
	}
	if t.cleanup != nil {
		r.problem(t.tidies, "a cleanup is run by daemons, and Temporal's schedules start workflows alone",
			"have the workflow clean up itself, or write run: {temporal: {scheduled_by: lockkeeper}}")
	}
	r.blamed(s.Validate(), func(field string) value {
		if key, ok := strings.CutPrefix(field, "run.temporal."); ok && t.flow.has(key) {
			return t.flow.get(key)
		}
		if key, _, _ := strings.Cut(field, "."); o.get(key).exists() {
			return o.get(key)
		}
		at := at
		at.path += "." + field
		return at
	})
	job.schedule, job.recipe.byTemporal = &s, true
}
