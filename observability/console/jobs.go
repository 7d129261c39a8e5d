package console

import (
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// jobsModel are all jobs.
type jobsModel struct {
	State  factState
	Rows   []jobRow
	Query  string
	Pages  pages
	Counts map[string]int // by state
	Order  []string
}

// factState says how far something can be relied on that was looked up.
type factState struct {
	Known   bool          // there is something to show
	Missing bool          // this process cannot know
	Err     string        // it is not known now
	Left    left          // what of it cannot be read
	Since   template.HTML // it is what was seen then
}

func stateOf[T any](v *visit, f fact[T]) factState {
	s := factState{Known: f.Known(), Missing: errors.Is(f.Err, errNotHere), Left: left{f.Left}}
	if f.Err != nil && !s.Missing {
		s.Err = f.Err.Error()
		s.Since = v.Ago(f.At)
	}
	return s
}

// left are the nodes that a list has left out, as a page shows them.
type left struct{ All []lock.Unreadable }

// fewLeft is how many a page names.
const fewLeft = 20

// Shown are those that are named.
func (l left) Shown() []lock.Unreadable { return l.All[:min(len(l.All), fewLeft)] }

// More is how many there are besides.
func (l left) More() int { return len(l.All) - len(l.Shown()) }

// A jobRow is one job.
type jobRow struct {
	views.Job
	Path    string
	Spec    string
	Due     template.HTML
	DueAt   template.HTML
	Ended   template.HTML
	Outcome string
	Running template.HTML // for how long it is in its state, of a run
	Doing   []string      // what runs wait for, or who keeps them out
	Tone    string        // of the state
	Pause   string
}

func drawJobs(v *visit) (any, error) {
	m := &jobsModel{Query: v.text("q"), Counts: map[string]int{}}
	at := int(v.number("from", 0, 0, 1_000_000))
	if len(v.problems) > 0 {
		return m, nil
	}
	f := v.c.jobs.get(v.ctx)
	m.State = stateOf(v, f)
	var wanted []views.Job
	for _, j := range f.Is {
		m.Counts[j.State]++
		if m.Query == "" ||
			strings.Contains(strings.ToLower(j.Name+" "+strings.Join(j.Locks, " ")), strings.ToLower(m.Query)) {
			wanted = append(wanted, j)
		}
	}
	for _, s := range []string{
		live.Running, live.CleaningUp, live.Waiting, live.Delayed, live.Frozen, "stopped", "paused", "idle",
	} {
		if m.Counts[s] > 0 {
			m.Order = append(m.Order, s)
		}
	}
	wanted, m.Pages = paged(v, wanted, at, perPage)
	for _, j := range wanted {
		m.Rows = append(m.Rows, v.jobRow(j))
	}
	return m, nil
}

func (v *visit) jobRow(j views.Job) jobRow {
	row := jobRow{Job: j, Path: "/jobs/" + escapePath(j.Name), Tone: stateTone(j.State)}
	if j.Schedule != nil {
		row.Spec = *j.Schedule
		if j.Timezone != nil {
			row.Spec += " " + *j.Timezone
		}
	}
	if j.Next != nil {
		row.Due, row.DueAt = v.Until(*j.Next), v.Clock(*j.Next)
	}
	if j.Last != nil {
		row.Outcome, row.Ended = j.Last.Outcome, v.Ago(j.Last.EndedAt)
	}
	for _, r := range j.Runs {
		switch {
		case !r.Alive:
			row.Outcome = "interrupted"
		case row.Running == "" && (r.State == "" || r.State == j.State):
			row.Running = v.Ago(r.Since())
		}
		if r.Request != nil {
			row.Doing = append(row.Doing, r.Request.AbsoluteWords(v.now))
		}
	}
	if j.DecidedUntil != nil {
		row.Pause = "a daemon whose clock was ahead has decided its ticks up to then; lockkeeper jobs rewind sets it back"
	} else if p := j.Paused; p != nil {
		row.Pause = fmt.Sprintf("paused by %s: %s", p.By, p.Reason)
	}
	return row
}

// stateTone is the colour of a state: good for what works, warn for what does not
// though it wants to.
func stateTone(state string) string {
	switch state {
	case live.Running:
		return "good"
	case live.Waiting, live.Delayed, live.Frozen, live.CleaningUp, "paused":
		return "warn"
	case "stopped":
		return "bad"
	}
	return ""
}

// jobModel is one job.
type jobModel struct {
	jobRow
	Name    string
	Err     string // it is not known now
	Runs    []runRow
	Ticks   []tickRow
	Strip   []tickRow // all that are kept, the oldest first
	Next    []nextRow
	Paused  *pauseRow
	Skipped []skipCount
	Total   int64
	Form    *jobForm
}

type runRow struct {
	views.Run
	Since template.HTML // since when it is in its state
	Doing string        // what it waits for, or who keeps it out
	Tone  string
}

type tickRow struct {
	views.Tick
	When    template.HTML
	From    template.HTML
	Ended   template.HTML
	Took    string
	Waited  string
	Trace   string
	Started template.HTML
}

type nextRow struct {
	views.NextTick
	In   template.HTML
	When template.HTML
}

type pauseRow struct {
	views.Pause
	Since template.HTML
	Until template.HTML
}

type skipCount struct {
	Reason string
	N      int64
}

func drawJob(v *visit) (any, error) {
	name := v.r.PathValue("name")
	m := &jobModel{Name: name}
	form, err := v.jobForm(name)
	if err != nil {
		return nil, err
	}
	m.Form = form
	j, err := v.job(name)
	if p, ok := errors.AsType[*problem](err); ok && p.Status != 503 {
		return nil, err
	}
	if err != nil {
		m.Err = err.Error()
		return m, nil //nolint:nilerr // the page says it
	}
	m.jobRow = v.jobRow(j.Job)
	for _, r := range j.Runs {
		row := runRow{Run: r, Since: v.Ago(r.Since()), Tone: stateTone(r.State)}
		if r.Request != nil {
			row.Doing = r.Request.AbsoluteWords(v.now)
		}
		m.Runs = append(m.Runs, row)
	}
	for _, t := range j.History {
		m.Strip = append(m.Strip, v.tickRow(t))
	}
	m.Ticks = slices.Clone(m.Strip)
	slices.Reverse(m.Ticks)
	for _, t := range j.Ticks {
		m.Next = append(m.Next, nextRow{t, v.Until(t.At), v.Clock(t.At)})
	}
	if p := j.Paused; p != nil {
		m.Paused = &pauseRow{Pause: *p, Since: v.Ago(p.Since)}
		if p.Until != nil {
			m.Paused.Until = v.Until(*p.Until)
		}
	}
	for reason, n := range j.Counts.Skipped {
		m.Skipped = append(m.Skipped, skipCount{reason, n})
	}
	slices.SortFunc(m.Skipped, func(a, b skipCount) int { return strings.Compare(a.Reason, b.Reason) })
	c := j.Counts
	m.Total = c.Ran + c.Failed + c.Preempted + c.Lost + c.Interrupted + c.AllSkipped()
	return m, nil
}

// job looks one up. The error is a *problem.
func (v *visit) job(name string) (views.JobDetail, error) {
	if v.c.o.Facts.Job == nil {
		return views.JobDetail{},
			notFound("this process knows no jobs", "look at the console of a daemon that runs some: lockkeeper run")
	}
	ctx, cancel := withPatience(v.ctx)
	defer cancel()
	j, err := v.c.o.Facts.Job(ctx, name)
	if unknown, ok := errors.AsType[*NotKnownError](err); ok {
		return views.JobDetail{}, notFound(unknown.What, "all jobs are at /jobs")
	}
	if err != nil {
		p := problemOf(err)
		if !is[*lock.RequestError](err) { // that of a name that no job can have
			p.Status = 503
		}
		return views.JobDetail{}, p
	}
	return j, nil
}

func (v *visit) tickRow(t views.Tick) tickRow {
	row := tickRow{
		Tick: t, Ended: v.Clock(t.EndedAt), When: "by hand", Trace: v.c.o.Links.traceURL(live.TraceID(t.Trace)),
	}
	if t.Scheduled != nil {
		row.When = v.Clock(*t.Scheduled)
	}
	if t.First != nil {
		row.From = v.Clock(*t.First)
	}
	if t.StartedAt != nil {
		row.Started = v.Clock(*t.StartedAt)
	}
	if t.Took > 0 {
		row.Took = human(millis(t.Took))
	}
	if t.Waited > 0 {
		row.Waited = human(millis(t.Waited))
	}
	return row
}

// groupsModel are all groups.
type groupsModel struct {
	State factState
	Rows  []groupRow
}

type groupRow struct {
	views.Group
	Path string
}

func drawGroups(v *visit) (any, error) {
	m := &groupsModel{}
	if len(v.problems) > 0 {
		return m, nil
	}
	f := v.c.groups.get(v.ctx)
	m.State = stateOf(v, f)
	for _, g := range f.Is {
		m.Rows = append(m.Rows, groupRow{g, "/groups/" + escapePath(g.Name)})
	}
	return m, nil
}

// groupModel is one group.
type groupModel struct {
	State   factState
	Group   views.Group
	Members []memberRow
	Locks   []views.GroupLock
	Pages   pages
	Most    int // locks of one member
}

type memberRow struct {
	views.GroupMember
	Since   template.HTML
	Percent int
}

func drawGroup(v *visit) (any, error) {
	name := v.r.PathValue("name")
	m := &groupModel{}
	at := int(v.number("from", 0, 0, 1_000_000))
	f := v.c.groups.get(v.ctx)
	m.State = stateOf(v, f)
	i := slices.IndexFunc(f.Is, func(g views.Group) bool { return g.Name == name })
	if i < 0 && f.Err == nil {
		return nil, notFound("there is no group "+quoted(name), "all groups are at /groups")
	}
	if i < 0 {
		m.Group.Name = name
		return m, nil
	}
	m.Group = f.Is[i]
	for _, one := range m.Group.Members {
		m.Most = max(m.Most, one.Locks)
	}
	for _, one := range m.Group.Members {
		m.Members = append(m.Members, memberRow{one, v.Ago(one.Since), 100 * one.Locks / max(1, m.Most)})
	}
	m.Locks, m.Pages = paged(v, m.Group.Locks, at, perPage)
	return m, nil
}

// elapsed is how long something has waited, in milliseconds, when it goes on.
func elapsed(waited int64, since, now time.Time) time.Duration {
	return millis(waited) + max(0, now.Sub(since))
}
