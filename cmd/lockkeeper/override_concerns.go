package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// appliedView is what apply has done, in JSON and YAML: the fields of the
// override, and these. The names of fields are a promise to scripts.
type appliedView struct {
	override.Record
	Applied  bool               `json:"applied"`
	Was      *override.Override `json:"was"` // in force before, with the same ID
	Concerns []concern          `json:"concerns"`

	// What could not be looked at: whom it concerns there is not known.
	Unreadable []lock.Unreadable `json:"unreadable,omitempty"`
}

// A concern is a request or a job that an override meets right now.
type concern struct {
	Scope    string         `json:"scope,omitempty"`
	State    string         `json:"state"` // holder, waiter, frozen or job
	Owner    string         `json:"owner"`
	Host     string         `json:"host,omitempty"`
	PID      int            `json:"pid,omitempty"`
	Priority priority.Level `json:"priority"`
	What     string         `json:"what"` // becomes of it
}

// jobsThatAre are those of the file and those that daemons have run.
func jobsThatAre(cfg *config.Config, ticks []ticks.State) []views.JobLabels {
	var all []views.JobLabels
	if cfg != nil {
		for _, j := range cfg.Jobs {
			all = append(all, views.JobLabels{Name: j.Name, Labels: j.Labels})
		}
	}
	for _, s := range ticks {
		if !slices.ContainsFunc(all, func(j views.JobLabels) bool { return j.Name == s.Job }) {
			all = append(all, views.JobLabels{Name: s.Job})
		}
	}
	return all
}

// concernsOf returns whom an override meets right now. Labels of requests are not
// known here: those of the jobs with the same name are taken.
func concernsOf(
	o override.Override, states []lock.State, frozen []lock.FrozenRequest, jobs []views.JobLabels,
) []concern {
	concerns := []concern{}
	set := override.Set{o}
	if o.Kind == override.Pause {
		for _, j := range jobs {
			if set.Paused(j.Name, j.Labels) != nil {
				concerns = append(concerns, concern{State: "job", Owner: j.Name, What: "its ticks are skipped"})
			}
		}
		return concerns
	}
	for _, s := range states {
		for _, h := range s.Holders {
			if what := meetsHolder(o, s, h); what != "" {
				concerns = append(concerns, newConcern(s.Scope, "holder", h, what))
			}
		}
		for _, w := range s.Waiters {
			if what := meetsWaiter(o, set, subjectOf(s.Scope, w.Owner, jobs), w); what != "" {
				concerns = append(concerns, newConcern(s.Scope, "waiter", w, what))
			}
		}
	}
	for _, f := range frozen {
		if what := meetsFrozen(o, subjectOf(f.Scope, cmp.Or(f.Job, f.Owner), jobs), f); what != "" {
			c := lock.Contender{Identity: f.Identity, Terms: priority.Terms{Priority: f.Priority}}
			concerns = append(concerns, newConcern(f.Scope, "frozen", c, what))
		}
	}
	return concerns
}

func subjectOf(scope, job string, jobs []views.JobLabels) override.Subject {
	about := override.Subject{Scope: scope, Job: job}
	if i := slices.IndexFunc(jobs, func(j views.JobLabels) bool { return j.Name == job }); i >= 0 {
		about.Labels = jobs[i].Labels
	}
	return about
}

func newConcern(scope, state string, c lock.Contender, what string) concern {
	return concern{Scope: scope, State: state, Owner: c.Owner, Host: c.Host, PID: c.PID, Priority: c.Priority, What: what}
}

// meetsHolder says what becomes of a holder; "" for nothing.
func meetsHolder(o override.Override, s lock.State, h lock.Contender) string {
	if o.Kind != override.Hold && o.Kind != override.PreemptNow || o.Match.Scope != s.Scope {
		return ""
	}
	if o.Token != 0 && o.Token != int64(h.Token) {
		return fmt.Sprintf("is left alone: its token is %s", h.Token)
	}
	if h.Priority == priority.Emergency {
		return "keeps the lock: it has the emergency priority as well"
	}
	grace := h.CleanupTimeout
	if w := o.WaitingTimeout; w != nil {
		grace = min(grace, *w)
	}
	if grace <= 0 {
		return "loses the lock at once: it has no cleanup timeout"
	}
	return fmt.Sprintf("is preempted, and evicted after %s", human(grace))
}

// meetsWaiter says what becomes of a waiter; "" for nothing.
func meetsWaiter(o override.Override, set override.Set, about override.Subject, w lock.Contender) string {
	effect := set.Apply(about, w.Terms)
	switch {
	case effect.Frozen != nil:
		return "leaves the queue until it is over"
	case effect.Bypass != nil:
		return "runs without the lock"
	case len(effect.Applied) > 0:
		return "becomes " + overrideWhat(o)
	}
	return ""
}

// meetsFrozen says what becomes of a request that an override keeps out of the queue
// already; "" for nothing. Its timeouts are not known.
func meetsFrozen(o override.Override, about override.Subject, f lock.FrozenRequest) string {
	if f.Priority == priority.Emergency || !isAboutRequests(o) || !o.Match.Fits(about, f.Priority) {
		return ""
	}
	if o.Kind == override.Freeze {
		return "stays out of the queue until it is over"
	}
	if o.Kind == override.Bypass {
		return "runs without the lock"
	}
	return fmt.Sprintf("becomes %s; %s keeps it out now", overrideWhat(o), f.Override.ID)
}

// writeConcerns says what overrides are, and whom they meet.
func writeConcerns(pg page, views []appliedView, now time.Time, dryRun bool) {
	for i, v := range views {
		if i > 0 {
			pg.line("")
		}
		pg.paragraph("", "%s", v.Override().Summary(now))
		if v.Was != nil {
			pg.paragraph("  ", "it takes the place of another one with this ID: %s", v.Was.Summary(now))
		}
		if len(v.Concerns) == 0 {
			pg.line("  right now it meets nothing")
			continue
		}
		pg.line("  right now it meets")
		g := pg.grid(1)
		for _, c := range v.Concerns {
			who := c.Owner
			if c.State != "job" {
				who = fmt.Sprintf("%s (priority %s, %s)", c.Owner, levelText(c.Priority), c.Host)
			}
			g.row("    "+c.State, cmp.Or(c.Scope, "-"), who, c.What)
		}
		g.draw()
	}
	if dryRun {
		pg.line("")
		pg.line("nothing was applied: --dry-run")
	}
}

// writeApplied says what was done.
func writeApplied(pg page, views []appliedView, now time.Time) {
	for _, v := range views {
		if !v.Applied {
			continue
		}
		pg.paragraph("", "%s: in force until %s", v.ID, both(v.Until.Round(time.Second), now.Round(time.Second)))
		if v.Was != nil {
			pg.paragraph("  ", "before it was %s", v.Was.Summary(now))
		}
		if v.Kind == override.Hold || v.Kind == override.PreemptNow {
			pg.paragraph("  ", "one of the daemons carries it out; see lockkeeper locks show %s", v.Match.Scope)
		}
	}
}

func levelText(p priority.Level) string { return live.LevelText(p) }
