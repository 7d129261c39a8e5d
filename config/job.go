package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

var jobShape = shape{
	name:    "a job",
	example: `write it like backup: {schedule: "0 2 * * *", run: [/usr/bin/backup], locks: [{scope: cluster/orders}]}`,
	keys: slices.Concat(
		[]key{
			needed(apart("schedule", aSchedule, "",
				`When the job runs: cron fields, "@every 5m", "@daily", or manual for by hand only.`)),
			needed(apart("run", runKind, "", "What the job does: a command as a list, go:NAME, or a mapping.")),
			apart("locks", someOf(like(&lockShape)), "", "The locks that the work needs, all or none."),
			by("labels", named(anyText), "", "What operators' overrides can find the job by, beside its name.",
				func(r *reader, v value, j *jobEntry) { j.Labels = r.labels(v) }),
			inherits("hold_at_least", notNegative, "0s",
				"Keeps the locks that long from the grant on, also when the work is done sooner.",
				func(j *jobEntry) *setting[time.Duration] { return &j.holdAtLeast }),
		},
		policyKeys,
	),
	later: []string{"after", "enabled", "disabled", "suspend", "paused", "approval"},
	hints: joined(lockHints("it belongs to a lock: locks: [{%s: ...}]"), map[string]string{
		"command": "write run: [command, argument], or run: {command: [...]}",
		"exec":    "write run: [command, argument]", "cmd": "write run: [command, argument]",
		"args": "write run: [command, argument]",
		"env":  "write run: {command: [...], env: {...}}", "dir": "write run: {command: [...], dir: ...}",
		"cleanup": "write run: {command: [...], cleanup: [...]}",
		"lock":    `did you mean "locks"?`, "cron": `did you mean "schedule"?`, "every": `write schedule: "@every 5m"`,
		"tz": `did you mean "timezone"?`, "name": "remove it, the name stands in front of the job",
	}),
}

func joined(a, b map[string]string) map[string]string {
	maps.Copy(a, b)
	return a
}

// A jobEntry is a job and what its locks were made of.
type jobEntry struct {
	jobs.Job
	policies    policies
	holdAtLeast setting[time.Duration]
	name        value
	scheduleAt  value
	recipe      recipe
	locks       []lockEntry        // as Requirements
	schedule    *temporal.Schedule // nil: daemons run it at its times
}

// readJobs reads the jobs, in the order of the file.
func (r *reader) readJobs(v value, base policies, locks lockSettings) []jobEntry {
	entries, ok := r.entries(v, jobShape.example, v.named)
	if !ok {
		return nil
	}
	if len(entries) == 0 {
		r.missing(v, "there are no jobs", jobShape.example)
	}
	all := make([]jobEntry, 0, len(entries))
	for _, e := range entries {
		all = append(all, r.job(e, base, locks))
	}
	return all
}

func (r *reader) job(e entry, inherited policies, base lockSettings) jobEntry {
	job := jobEntry{Job: jobs.Job{Name: e.name}, name: e.key}
	o, ok := r.object(e.value, &jobShape)
	if !ok {
		return job
	}
	// What is missing is missing at the name.
	at := e.key
	at.path = o.path

	r.jobName(e)
	job.policies = r.policies(o, inherited)
	job.policies.apply(&job.Job, o.has("locks"))
	r.fill(o, &job)
	job.HoldAtLeast = job.holdAtLeast.v
	r.schedule(o, at, &job)
	var t task
	if o.has("run") {
		t = r.run(o.get("run"))
	} else {
		r.missing(at, "run is missing", "write the command, for example run: [/usr/bin/backup, --all]")
	}
	if t.command != nil && base.cleanup.from == builtin {
		base.cleanup = setting[time.Duration]{v: jobs.DefaultCleanupTimeout, from: "the default of commands"}
	}
	if o.has("locks") {
		r.locks(o.get("locks"), base, &job)
	}
	r.checkTask(t, &job, o.has("locks"))
	r.checkPolicies(job, o.has("locks"))
	job.Work, job.recipe = t.work(), t.recipe
	r.temporalSchedule(o, at, t, &job)
	return job
}

// jobName checks what the jobs package says about names, at the name.
func (r *reader) jobName(e entry) {
	probe := jobs.Job{Name: e.name, Work: jobs.Func(nil)}
	for _, err := range unjoin(probe.Validate()) {
		if refusedField(err) == "name" {
			r.refused(e.key, err)
		}
	}
}

// labels reads names and their values.
func (r *reader) labels(v value) map[string]string {
	entries, ok := r.entries(v, "write it like {team: orders}", v.named)
	if !ok {
		return nil
	}
	labels := make(map[string]string, len(entries))
	for _, e := range entries {
		if r.refused(e.key, override.CheckLabel(e.name, "")) {
			continue
		}
		s, ok := r.scalar(e.value, `write a text; "" for an empty one`)
		if ok && !r.refused(e.value, override.CheckLabel(e.name, s.text)) {
			labels[e.name] = s.text
		}
	}
	return labels
}

func (r *reader) schedule(o object, at value, job *jobEntry) {
	job.scheduleAt = o.get("schedule")
	if !o.has("schedule") {
		r.missing(at, "schedule is missing", `write for example schedule: "0 2 * * *" or "@every 5m"`)
		return
	}
	v := job.scheduleAt
	spec, ok := r.text(v, `write for example "0 2 * * *" or "@every 5m"`)
	if !ok {
		return
	}
	job.Schedule = spec
	if scheduler.HasZone(spec) && !job.policies.zone.given {
		job.TimeZone = ""
	}
	if _, err := scheduler.ParseJob(job.Job); r.badSpec(v, spec, err) {
		return
	}
	before := r.problems()
	r.checkPeriod(*job)
	if r.problems() == before {
		r.adviseSchedule(o, at, job)
	}
}

// badSpec reports why a schedule is refused, if it is.
func (r *reader) badSpec(v value, spec string, err error) bool {
	if err == nil {
		return false
	}
	what, instead := err.Error(), ""
	if bad, ok := errors.AsType[*scheduler.SpecError](err); ok {
		what, instead = splitReason(bad.Reason)
		what = quote(spec) + ": " + what
	}
	r.problem(v, what, cmp.Or(instead, `write for example "0 2 * * *" or "@every 5m"`))
	return true
}

// adviseSchedule warns of what may be surprising about a schedule. That manual
// starts nothing is no surprise.
func (r *reader) adviseSchedule(o object, at value, job *jobEntry) {
	if strings.TrimSpace(job.Schedule) == scheduler.Manual().String() {
		return
	}
	for _, advice := range scheduler.Advise(job.Job) {
		where := at // of what is inherited
		if key, _, _ := strings.Cut(advice.Field, "["); o.get(key).exists() {
			where = o.get(key)
		}
		r.warn(where, advice.What, advice.Instead)
	}
}

// timezone reads the name of a time zone that is the same on all machines.
func (r *reader) timezone(v value) (string, bool) {
	const instead = "write a name such as UTC or Europe/Berlin"
	name, ok := r.text(v, instead)
	if !ok {
		return "", false
	}
	if _, err := scheduler.Parse("0 0 * * *", name); err != nil {
		r.problem(v, quote(name)+" is not a time zone", instead)
		return "", false
	}
	return name, true
}

// locks reads the locks of a job.
func (r *reader) locks(v value, base lockSettings, job *jobEntry) {
	items, ok := r.items(v, lockListExample)
	if !ok {
		return
	}
	if len(items) == 0 {
		r.missing(v, "the list is empty", "remove it when the job needs no lock, or "+lockListExample)
		return
	}
	first := map[string]value{}
	for _, item := range items {
		requirement, lock := r.lock(item, job.Name, base)
		if other, twice := first[requirement.Scope]; twice && requirement.Scope != "" {
			r.problem(lock.scopeAt, fmt.Sprintf("%s is locked here for the second time, first at %d:%d",
				quote(requirement.Scope), other.line, other.column), "remove one of the locks")
			continue
		}
		first[requirement.Scope] = lock.scopeAt
		job.locks = append(job.locks, lock)
		job.Requirements = append(job.Requirements, requirement)
	}
	r.adviseTogether(job.locks)
}

const lockListExample = "write it like [{scope: cluster/orders}]"

// checkTask compares the work with the lock that it runs under.
func (r *reader) checkTask(t task, job *jobEntry, locks bool) {
	_, tidies := t.main.(jobs.Cleaner)
	tidies = tidies || t.cleanup != nil
	if tidies && !locks {
		r.missing(t.tidies, "a cleanup runs under a lock, but the job needs none", "write its locks, or remove the cleanup")
	}
	if len(job.locks) == 0 {
		return
	}
	shortest := slices.MinFunc(job.locks, func(a, b lockEntry) int { return cmp.Compare(a.cleanup.v, b.cleanup.v) })
	if cleanup := shortest.cleanup; tidies && !cleanup.bad && cleanup.v == 0 {
		r.problem(t.tidies, fmt.Sprintf("the cleanup would have no time to run: cleanup_timeout%s is 0%s",
			shortest.among(job.locks), cleanup.origin()),
			"write in the lock how long it needs, for example cleanup_timeout: 30s")
	}
	if t.command != nil {
		t.command.CleanupTimeout = shortest.cleanup.v
		if shortest.cleanup.v == 0 {
			t.command.CleanupTimeout = -1
		}
	}
}

// checkJobs lets the jobs' own rules have the last word: they find nothing
// that was not found before, unless those rules have changed.
func (r *reader) checkJobs(entries []jobEntry) {
	for _, e := range entries {
		for _, err := range unjoin(e.Validate()) {
			at := e.name
			if field := refusedField(err); field != "" {
				at.path += "." + field
			}
			r.refused(at, err)
		}
	}
}
