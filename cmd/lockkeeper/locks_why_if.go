package main

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// whyIfRun says what would happen if a job were started now.
func (p *program) whyIfRun(c *cobra.Command, f *whyFlags) error {
	cfg, err := p.daemonConfig(c, f.file.name)
	if err != nil {
		return err
	}
	if err := unknownNames(c, []string{f.ifRun}, jobNames(cfg), f.file.name+" does not have it"); err != nil {
		return err
	}
	facts := &whyFacts{}
	job := *jobOf(cfg, f.ifRun)
	err = p.withLock(c.Context(), cfg, cfg.Client, anyScope(job),
		func(ctx context.Context, here *ensemble, home *lock.Client) error {
			return facts.look(ctx, ensembles{{client: home}}, here, cfg, f.ifRun)
		})
	if err != nil {
		return err
	}
	view := newIfRun(facts, job)
	return p.writePage(view, func(pg page) { writeIfRun(pg, view, facts.now) })
}

// ifRunView is what would happen to a job, in JSON and YAML. The names of fields
// are a promise to scripts.
type ifRunView struct {
	Job    string             `json:"job"`
	At     time.Time          `json:"at"`
	Paused *override.Override `json:"paused"` // by an override; a run by hand is not
	Locks  []ifRunLockView    `json:"locks"`
	Unread []string           `json:"unread"`
	job    *jobs.Job
}

// ifRunLockView is what would become of one of its requests, with the overrides
// in force.
type ifRunLockView struct {
	lockPlanView
	Ensemble  string              `json:"ensemble,omitempty"` // "" if there is one alone
	Overrides []override.Override `json:"overrides"`          // that change it, in the order in which they apply
	Frozen    *override.Override  `json:"frozen"`             // it would not be granted before that ends
	Bypass    *override.Override  `json:"bypass"`             // it would not need the lock
	asked     lockguard.Requirement
}

func newIfRun(f *whyFacts, job jobs.Job) ifRunView {
	v := ifRunView{
		Job: job.Name, At: f.now.UTC(), Locks: []ifRunLockView{}, Unread: append([]string{}, f.unread...), job: &job,
	}
	v.Paused = f.overrides.Paused(job.Name, job.Labels)
	for _, r := range job.Owned() {
		if r.Job == "" {
			r.Job = job.Name
		}
		if r.Labels == nil {
			r.Labels = job.Labels
		}
		effect := f.overrides.Apply(override.Subject{Scope: r.Scope, Job: r.Job, Labels: r.Labels}, r.WithDefaults())
		asked := r
		r.Terms = effect.Terms
		lock := ifRunLockView{
			lockPlanView: newLockPlan(r, new(f.state(r.Scope))), Ensemble: f.ensemble,
			Overrides: append([]override.Override{}, effect.Applied...), Frozen: effect.Frozen,
			Bypass: effect.Bypass, asked: asked,
		}
		lock.manual = isManual(job.Schedule)
		v.Locks = append(v.Locks, lock)
	}
	return v
}

func writeIfRun(pg page, v ifRunView, now time.Time) {
	pg.paragraph("", "%s, if it were started now (%s)", v.Job, clock(now))
	if v.Paused != nil {
		pg.line("")
		pg.paragraph(lead("paused"), "its ticks are skipped, only a run by hand would start: %s", v.Paused.Summary(now))
	}
	if len(v.Locks) == 0 {
		pg.line("")
		pg.paragraph(lead("locks"), "none: it waits for no lock")
	}
	for _, l := range v.Locks {
		pg.line("")
		on := ""
		if l.Ensemble != "" {
			on = " on the ensemble " + l.Ensemble
		}
		pg.paragraph(lead("lock"), "%s%s: %s", l.Scope, on, requirementWords(l.requirement))
		for _, o := range l.Overrides {
			pg.paragraph(whyMargin, "override: %s", o.Summary(now))
		}
		switch {
		case l.Bypass != nil:
			pg.paragraph(whyMargin, "override: %s", l.Bypass.Summary(now))
			pg.paragraph(whyMargin, "the job runs without this lock, beside its holders")
			continue
		case l.Frozen != nil:
			pg.paragraph(whyMargin, "override: %s", l.Frozen.Summary(now))
			pg.paragraph(whyMargin,
				"frozen: it does not get the lock, nor a place in the queue, before %s; then, if nothing had changed:",
				when(l.Frozen.Until, now))
		}
		pg.paragraph(whyMargin, "%s", mannerWords(l.requirement, l.manual))
		var text bytes.Buffer
		writeLockPlan(&text, *l.plan, l.requirement)
		for line := range strings.Lines(text.String()) {
			line = strings.TrimRight(line, "\n")
			bare := strings.TrimLeft(line, " ")
			pg.paragraph(whyMargin+strings.Repeat(" ", max(len(line)-len(bare)-4, 0)), "%s", bare)
		}
	}
	if len(v.Locks) > 1 {
		pg.line("")
		pg.paragraph(whyMargin, "it gets all of them or none, in the order of their names")
	}
	for _, text := range v.Unread {
		pg.line("")
		pg.paragraph(lead("unknown"), "%s", text)
	}
}
