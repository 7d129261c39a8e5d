package temporal

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A Schedule is a job that starts a workflow, as one of Temporal's own schedules:
// Temporal starts the workflow, and the workflow itself takes the locks of the job,
// in a worker that has the Plugin. It is valid when Validate says so.
type Schedule struct {
	// Job is the job. Its Work is a *StartWorkflow.
	Job jobs.Job

	// Timing is what its Schedule comes to.
	Timing Timing
}

// A Timing says when a Schedule is due: when one of Calendars is, or at multiples
// of Every on the Unix clock, and Phase later.
type Timing struct {
	Calendars    []Calendar
	Every, Phase time.Duration

	// MadeUp: the job is due when the clocks of Zone go forward over a time of
	// Calendars. Temporal starts nothing then.
	MadeUp bool

	// Repeated: a time of Calendars comes twice when the clocks go back, or just
	// before that. Temporal loses some of the former, and starts the latter twice.
	Repeated bool

	Zone string // of Calendars; "" for UTC
}

// A Calendar is due when each field has one of its numbers. DayOfWeek counts from
// 0, Sunday.
type Calendar struct{ Second, Minute, Hour, DayOfMonth, Month, DayOfWeek []int }

// minCatchup is the shortest window that Temporal has for what it has missed.
const minCatchup = 10 * time.Second

// overlaps are Temporal's names of the policies.
var overlaps = map[jobs.OverlapPolicy]enums.ScheduleOverlapPolicy{
	"":                      enums.SCHEDULE_OVERLAP_POLICY_SKIP,
	jobs.OverlapSkip:        enums.SCHEDULE_OVERLAP_POLICY_SKIP,
	jobs.OverlapBufferOne:   enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	jobs.OverlapBufferAll:   enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
	jobs.OverlapCancelOther: enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
	jobs.OverlapAllowAll:    enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
}

// Validate returns everything of the job that Temporal cannot do, joined
// (errors.Join); each problem is a *lockguard.RequestError whose field is spelt as
// in the configuration. The job itself is taken as valid.
func (s Schedule) Validate() error {
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems,
			&lockguard.RequestError{Field: field, Reason: "Temporal's schedules " + fmt.Sprintf(format, args...)})
	}
	j := s.Job
	w, ok := j.Work.(*StartWorkflow)
	if !ok || w == nil {
		refuse("run", "start workflows alone; write run: {temporal: {...}}")
		return errors.Join(problems...)
	}
	if len(s.Timing.Calendars) == 0 && s.Timing.Every <= 0 {
		refuse("schedule", "have no job that is started by hand alone; write run: {temporal: {scheduled_by: lockkeeper}}")
	}
	if s.Timing.MadeUp {
		refuse("dst", "start nothing at a time that the clocks of %s leave out when they go forward; write dst: {gap: "+
			"skip} if that will do, other times, or timezone: UTC", s.Timing.Zone)
	}
	if s.Timing.Repeated {
		refuse("schedule", "lose times of the hour that comes twice when the clocks of %s go back, "+
			"and repeat those of the hour before; write other times, or timezone: UTC", s.Timing.Zone)
	}
	if len(j.Blackouts) > 0 {
		refuse("blackout", "know no windows in which nothing runs; remove them, or write scheduled_by: lockkeeper")
	}
	s.refuseOverlap(refuse)
	if j.HoldAtLeast > 0 {
		refuse("hold_at_least",
			"give the lock back with the end of the workflow; remove it, and have the workflow last that long")
	}
	if j.Timeout > 0 {
		refuse("timeout", "know timeouts of workflows alone; write run_timeout in run: {temporal: {...}}")
	}
	if j.OnPreempt.Then == jobs.PreemptedRequeue {
		refuse("on_preempt", "start a run once; have the workflow begin anew itself, or write on_preempt: skip")
	}
	if j.PauseAfterFailures > 1 {
		refuse("pause_after_failures", "pause after the first failure or not at all; write 1, or remove it")
	}
	if j.PauseFor > 0 {
		refuse("pause_for", "stay paused until somebody resumes them; remove it")
	}
	if w.Terminate {
		refuse("run.temporal.terminate", "terminate no workflow whose lock was asked for; remove it")
	}
	if w.CancelTimeout > 0 {
		refuse("run.temporal.cancel_timeout",
			"have workflows that clean up for as long as the cleanup_timeout of their lock; remove it")
	}
	return errors.Join(problems...)
}

func (s Schedule) refuseOverlap(refuse func(field, format string, args ...any)) {
	o, m := s.Job.Overlap, s.Job.Misfire
	if o.Max > 0 {
		refuse("overlap.max", "have a bound of their own; remove max")
	}
	if m.Max > 0 {
		refuse("misfire.max", "bound by the window alone what they make up for; remove max")
	}
	many := o.Policy == jobs.OverlapBufferAll || o.Policy == jobs.OverlapAllowAll
	switch {
	case m.Policy == jobs.MisfireAll && !many:
		refuse("misfire",
			"make up for all that was missed with overlap: buffer-all or allow-all alone; write one of these, or misfire: once")
	case (m.Policy == jobs.MisfireOnce || m.Policy == "") && many:
		refuse("misfire", "make up for all that was missed with overlap: %s; write misfire: all or skip", o.Policy)
	}
}

// ID is the name of the schedule: that of the root, which tells clusters in one
// namespace apart, and that of the job.
func (s Schedule) ID(root string) string { return "lockkeeper:" + root + ":" + s.Job.Name }

// KeyOf returns the priority in Temporal that goes with that of a lock, the reverse
// of PriorityOf:
//
//	lock         40 and more  30 to 39  20 to 29  10 to 19  1 to 9  0
//	PriorityKey  1            2         3         4         5       unset
func KeyOf(level priority.Level) sdk.Priority {
	if level <= priority.Default {
		return sdk.Priority{}
	}
	return sdk.Priority{PriorityKey: 5 - min(int(level)/10, 4)}
}

// spec is when the schedule is due, for the server.
func (s Schedule) spec() client.ScheduleSpec {
	spec := client.ScheduleSpec{Jitter: s.Job.Jitter, TimeZoneName: s.Timing.Zone}
	if len(s.Timing.Calendars) == 0 {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: s.Timing.Every, Offset: s.Timing.Phase}}
	}
	for _, c := range s.Timing.Calendars {
		spec.Calendars = append(spec.Calendars, client.ScheduleCalendarSpec{
			Second: ranges(c.Second), Minute: ranges(c.Minute), Hour: ranges(c.Hour),
			DayOfMonth: ranges(c.DayOfMonth), Month: ranges(c.Month), DayOfWeek: ranges(c.DayOfWeek),
		})
	}
	return spec
}

// ranges writes numbers, which are sorted, as ranges.
func ranges(numbers []int) []client.ScheduleRange {
	var all []client.ScheduleRange
	for _, n := range numbers {
		if last := len(all) - 1; last >= 0 && all[last].End == n-1 {
			all[last].End = n
			continue
		}
		all = append(all, client.ScheduleRange{Start: n, End: n, Step: 1})
	}
	return all
}

// policy is what becomes of what overlaps, is missed or fails.
func (s Schedule) policy() client.SchedulePolicies {
	window := s.Job.Misfire.Window
	if window == 0 {
		window = jobs.DefaultMisfireWindow
	}
	if s.Job.Misfire.Policy == jobs.MisfireSkip {
		window = minCatchup
	}
	return client.SchedulePolicies{
		Overlap: overlaps[s.Job.Overlap.Policy], CatchupWindow: max(window, minCatchup),
		PauseOnFailure: s.Job.PauseAfterFailures == 1,
	}
}

// action is what is started.
func (s Schedule) action(root string) *client.ScheduleWorkflowAction {
	w := s.Job.Work.(*StartWorkflow)
	action := &client.ScheduleWorkflowAction{
		ID: w.IDPrefix + s.Job.Name, Workflow: w.Workflow, Args: w.Args, TaskQueue: w.TaskQueue,
		WorkflowExecutionTimeout: w.ExecutionTimeout, WorkflowRunTimeout: w.RunTimeout,
		TypedSearchAttributes: w.SearchAttributes,
		Memo:                  map[string]any{MemoKey: Origin{Job: s.Job.Name}},
	}
	maps.Copy(action.Memo, w.Memo)
	if locks := s.Job.Owned(); len(locks) > 0 {
		action.Memo[LocksMemoKey] = declaredLocks{Root: root, Locks: withoutClass(locks)}
		highest := priority.Default
		for _, l := range locks {
			highest = max(highest, l.Priority)
		}
		action.Priority = KeyOf(highest)
	}
	if r := s.Job.WithDefaults().Retry; r.Max > 0 {
		action.RetryPolicy = &sdk.RetryPolicy{
			InitialInterval: r.Initial, BackoffCoefficient: 2, MaximumInterval: r.MaxInterval,
			MaximumAttempts: int32(r.Max) + 1,
		}
	}
	return action
}
