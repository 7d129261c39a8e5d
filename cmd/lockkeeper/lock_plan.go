package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// lockPlanView is what would become of a request for a lock, in JSON and YAML.
// The names of fields are a promise to scripts.
type lockPlanView struct {
	Scope    string         `json:"scope"`
	Mode     priority.Mode  `json:"mode"`
	Priority priority.Level `json:"priority"`
	State    string         `json:"state"` // free, held, or unknown: ZooKeeper was not asked
	// granted, in_line, takes_over, gives_up, times_out or refused; null: unknown
	Outcome   *string         `json:"outcome"`
	After     int64           `json:"after_ms"`
	Position  int             `json:"position"` // in the queue; 0: it does not queue
	Ahead     []live.Waiter   `json:"ahead"`
	Beside    []live.Holder   `json:"beside"` // it shares the lock with them
	Obstacles []live.Obstacle `json:"obstacles"`

	requirement lockguard.Requirement
	manual      bool          // of a job that no tick starts
	plan        *inspect.Plan // nil: unknown
}

// newLockPlan foresees a request; s is nil when the lock's state is unknown.
func newLockPlan(r lockguard.Requirement, s *lock.State) lockPlanView {
	v := lockPlanView{
		Scope: r.Scope, Mode: r.Mode, Priority: r.Priority, State: "unknown",
		Ahead: []live.Waiter{}, Beside: []live.Holder{}, Obstacles: []live.Obstacle{}, requirement: r,
	}
	if s == nil {
		return v
	}
	plan := r.Plan(*s)
	state := live.NewLock(*s)
	v.plan, v.State = &plan, state.State
	v.Outcome, v.After, v.Position = new(string(plan.Outcome)), plan.After.Milliseconds(), plan.Position
	v.Ahead = append(v.Ahead, state.Waiters[:len(plan.Ahead)]...)
	for _, h := range plan.Beside {
		v.Beside = append(v.Beside, live.NewHolder(h))
	}
	v.Obstacles = append(v.Obstacles, live.NewObstacles(plan)...)
	return v
}

// writeLockPlans says for each lock whom a job would wait for and whom it would
// preempt, and until when.
func writeLockPlans(w io.Writer, plans []lockPlanView) {
	for _, v := range plans {
		line(w, "  %s: %s", v.Scope, requirementWords(v.requirement))
		line(w, "    %s", mannerWords(v.requirement, v.manual))
		if v.plan != nil {
			writeLockPlan(w, *v.plan, v.requirement)
		}
	}
	if len(plans) > 1 {
		line(w, "  it gets all of them or none, in the order of their names")
	}
}

func requirementWords(r lockguard.Requirement) string {
	words := []string{r.Mode.String(), live.LevelWords(r.Priority)}
	if r.NeverPreempts {
		words = append(words, "never preempts")
	}
	if r.PreemptDelta > 1 {
		words = append(words, fmt.Sprintf("preempts those %d below it", r.PreemptDelta))
	}
	words = append(words, "lease "+human(r.WithDefaults().LeaseTimeout), "cleanup "+human(r.CleanupTimeout))
	if r.MinRuntime > 0 {
		words = append(words, "not preempted for "+human(r.MinRuntime))
	}
	if r.LockDelay > 0 {
		words = append(words, "lock delay "+human(r.LockDelay))
	}
	return strings.Join(words, ", ")
}

// mannerWords says how long a request waits, and what it does to holders that
// it preempts.
func mannerWords(r lockguard.Requirement, manual bool) string {
	var text string
	switch d := r.AcquireTimeout; {
	case d == nil && manual:
		text = "a run waits for it as long as it takes"
	case d == nil:
		text = "a run waits for it until the next tick is due"
	case *d == 0:
		return "only if it is free: it does not wait"
	default:
		text = "waits for it for " + human(*d)
	}
	switch {
	case r.Forceful && r.WaitingTimeout != nil:
		text += fmt.Sprintf("; whom it preempts has %s at most to clean up, then the lock is taken",
			human(*r.WaitingTimeout))
	case r.Forceful:
		text += "; whom it preempts has its time to clean up, then the lock is taken"
	case r.WaitingTimeout != nil:
		text += fmt.Sprintf("; whom it preempts has %s to release it, then it gives up", human(*r.WaitingTimeout))
	}
	return text
}

func writeLockPlan(w io.Writer, p inspect.Plan, r lockguard.Requirement) {
	for _, h := range p.Beside {
		line(w, "    held by %s, shared; it may be held together", contender(h))
	}
	for _, o := range p.Obstacles {
		line(w, "    held by %s", contender(o.Holder))
		line(w, "      since %s; %s", both(o.Holder.Since, p.At), lease(o.Holder))
		for _, by := range o.Holder.PreemptedBy {
			line(w, "      preempted already by %s (%s), %s", by.Owner, live.LevelWords(by.Priority), relative(by.At, p.At))
		}
		if text := barWords(o, r); text != "" {
			line(w, "      %s", text)
		}
		for _, ask := range o.Asks {
			line(w, "      %s", askWords(ask, p.At))
		}
	}
	for _, c := range p.Ahead {
		line(w, "    ahead in the queue: %s, since %s", contender(c), relative(c.Joined, p.At))
	}
	line(w, "    %s", outcomeWords(p, r))
}

// barWords says why a holder is left alone.
func barWords(o inspect.Obstacle, r lockguard.Requirement) string {
	switch o.Bar {
	case priority.BarLevel:
		return fmt.Sprintf("not preempted: its %s is not below %s",
			live.LevelWords(o.Holder.Priority), levelText(r.Priority))
	case priority.BarNever:
		return "not preempted: this lock is one that never preempts"
	case priority.BarDelta:
		return fmt.Sprintf("not preempted: its %s is not %d below %s",
			live.LevelWords(o.Holder.Priority), r.PreemptDelta, levelText(r.Priority))
	case priority.BarMinRuntime:
		return fmt.Sprintf("not preempted yet: %s left of the %s that it is to have in peace",
			human(o.Holder.MinRuntimeLeft), human(o.Holder.MinRuntime))
	case priority.NoBar:
	}
	return ""
}

func askWords(ask inspect.PlannedAsk, now time.Time) string {
	when := "at once"
	if ask.After > 0 {
		when = "at " + both(now.Add(ask.After), now)
	}
	why := "preempted"
	if ask.Reason == priority.LeaseExpired {
		why = "preempted at the end of its lease,"
		if ask.After <= 0 {
			why = "its lease is over: preempted"
		}
	}
	if ask.Grace <= 0 {
		return fmt.Sprintf("%s %s, with no time to clean up", why, when)
	}
	return fmt.Sprintf("%s %s; it may clean up for %s, until %s",
		why, when, human(ask.Grace), clock(now.Add(ask.After+ask.Grace)))
}

func outcomeWords(p inspect.Plan, r lockguard.Requirement) string {
	end := ""
	if !p.At.IsZero() {
		end = both(p.At.Add(p.After), p.At)
	}
	switch p.Outcome {
	case inspect.OutcomeGranted:
		if len(p.Beside) > 0 {
			return "the job gets it at once, beside those"
		}
		return "free: the job gets it at once"
	case inspect.OutcomeRefused:
		return "the job does not get it, and does not wait (acquire_timeout 0)"
	case inspect.OutcomeInLine:
		return fmt.Sprintf("the job waits as number %d in the queue: those ahead decide how long", p.Position)
	case inspect.OutcomeTakesOver:
		return "the job gets it when it is released, and takes it at the latest at " + end
	case inspect.OutcomeGivesUp:
		return "the job gets it if it is released before its waiting_timeout is over; else it gives up at " + end
	case inspect.OutcomeTimesOut:
		return fmt.Sprintf("the job gets it if it is released within its acquire_timeout (%s); else it gives up at %s",
			human(*r.AcquireTimeout), end)
	}
	return string(p.Outcome)
}
