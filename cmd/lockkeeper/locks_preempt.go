package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type preemptFlags struct {
	operatorFlags
	file    jobsFile
	token   tokenFlag
	force   yes
	grace   duration
	waiting duration
	dryRun  yes
}

func (p *program) locksPreempt() *cobra.Command {
	f := &preemptFlags{}
	c := p.command(&cobra.Command{
		Use:   "preempt SCOPE --reason WHY",
		Short: "Preempt the holder of a lock at emergency priority",
		Long: `Preempt the holder of a lock at emergency priority, whatever its own priority
and its min_runtime are. It has its time to clean up. When it has released the
lock, the first waiter gets it.

Without --force it is waited for, for --waiting at most; then the request is
withdrawn, the holder goes when it is ready, and the exit code is 75. With --force
the lock is taken from it when its time to clean up, or --grace, is over.

With --token it is done only if the holder with that token still has the lock. Who
did it, to whom and why is on record before it is done (lockkeeper audit).

With zookeeper.ensembles in the file it is done on the ensemble that has the lock,
and is on record on that of zookeeper.servers.

It needs the credentials of an operator. Where ZooKeeper can be reached by daemons
alone: an override of the kind preempt-now in the file that emergency.file names.

Exit code 0 if the holder has gone, or the lock had no holder; 75 if it has not gone
in time, or ZooKeeper does not answer; 78 for wrong flags, without credentials, or
for a token that no holder has.`,
		Example: `  lockkeeper locks preempt cluster/orders --reason 'hotfix INC-4411'
  lockkeeper locks preempt cluster/orders --token 7301444 --force --grace 30s --reason 'hotfix INC-4411'
  lockkeeper locks preempt cluster/orders --force --reason test --dry-run`,
	}, []string{"SCOPE"}, func(c *cobra.Command, args []string) error { return p.preemptLock(c, f, args) })
	flags := c.Flags()
	flags.SortFlags = false
	f.add(c, "the holder is preempted")
	flags.Var(&f.token, "token", "`token` of the holder that is meant (default any holder)")
	flags.VarPF(&f.force, "force", "", "take the lock when the time to clean up is over").NoOptDefVal = "true"
	flags.Var(&f.grace, "grace",
		"with --force: how long the holder may clean up at most; 0: not at all (default its cleanup timeout)")
	f.waiting.positive = "1m"
	flags.Var(&f.waiting, "waiting", "without --force: how long to wait for the holder (default 1m)")
	flags.VarPF(&f.dryRun, "dry-run", "", "show whom it would hit, and do nothing").NoOptDefVal = "true"
	f.file.add(c)
	return c
}

// preemptedDryRun is what comes of a dry run, beside what comes of a preemption.
const preemptedDryRun = "dry_run"

// preemptedView is what has come of a preemption, in JSON and YAML. The names of
// fields are a promise to scripts.
type preemptedView struct {
	Scope   string        `json:"scope"`
	Outcome string        `json:"outcome"` // gone, taken, pending, free or dry_run
	Force   bool          `json:"force"`
	Victims []live.Holder `json:"victims"`
	Took    int64         `json:"took_ms"`
	By      string        `json:"by"`
	Reason  string        `json:"reason"`
	Mark    string        `json:"mark"` // the ID by which the holders, and locks why, know it
	Act     string        `json:"act"`  // what the audit trail calls it; "" when nothing was done
	Now     live.Lock     `json:"now"`

	before, after lock.State
	plan          inspect.Plan
	waiting       time.Duration
}

func (p *program) preemptLock(c *cobra.Command, f *preemptFlags, args []string) error {
	p.checkScope(args)
	f.check(p)
	if f.grace.given && !f.force.is {
		p.problems.add("--grace has no meaning without --force; give --waiting, or --force as well")
	}
	if f.waiting.given && f.force.is {
		p.problems.add("--waiting has no meaning with --force; give --grace, or leave --force out")
	}
	if f.grace.given && f.grace.bad == "" && f.grace.d < 0 {
		p.problems.add("--grace is negative; write 0 for no time to clean up")
	}
	cfg, reach, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	var view preemptedView
	err = p.withLock(c.Context(), cfg, reach, args[0],
		func(ctx context.Context, here *ensemble, home *lock.Client) error {
			var err error
			view, err = f.preempt(ctx, here, home, cfg, args[0])
			return err
		})
	if view.Outcome == "" {
		return err
	}
	return errors.Join(p.writePage(view, func(pg page) {
		ensemblesOf(cfg, reach).of(cfg, args[0]).write(pg)
		writePreempted(pg, view)
	}), err)
}

// preempt preempts the holders. Without an outcome nothing was done.
func (f *preemptFlags) preempt(
	ctx context.Context, here *ensemble, home *lock.Client, cfg *config.Config, scope string,
) (preemptedView, error) {
	client := here.client
	what := fmt.Sprintf("lock %q not preempted", scope)
	if !f.dryRun.is && client.Identity() == "" {
		return preemptedView{}, &lock.IdentityError{What: what}
	}
	state, err := client.Lock(ctx, scope)
	if err != nil {
		return preemptedView{}, here.explain(err)
	}
	if f.token.given && !hasToken(state.Holders, f.token.is) {
		return preemptedView{}, f.stale(what, state)
	}
	asked := emergency.Preemption{
		Scope: scope, By: emergency.By{Name: f.name(client), Reason: f.reason}, Token: f.token.is,
		Force: f.force.is, Grace: f.grace.limit(), Waiting: f.waiting.or(emergency.Politeness),
	}
	mark := asked.NewMark()
	view := preemptedView{
		Scope: scope, Force: f.force.is, Victims: make([]live.Holder, 0, len(state.Holders)), By: mark.By,
		Reason: mark.Reason, Mark: mark.ID, Now: here.lock(state), before: state, after: state,
		plan: inspect.PlanFor(state, asked.Request(state, mark)), waiting: asked.Waiting,
	}
	for _, h := range state.Holders {
		view.Victims = append(view.Victims, live.NewHolder(h))
	}
	switch {
	case !state.Held():
		view.Outcome = emergency.PreemptedFree
		return view, nil
	case f.dryRun.is:
		view.Outcome = preemptedDryRun
		return view, nil
	}
	if err := client.CheckOperator(ctx, what); err != nil {
		return preemptedView{}, here.explain(err)
	}
	return f.carryOut(ctx, here, home, cfg, asked, mark, view)
}

// stale says that the holder that is meant has the lock no longer.
func (f *preemptFlags) stale(what string, s lock.State) error {
	text := "it has no holder"
	if s.Held() {
		text = afterWords(lock.State{Holders: s.Holders}, true)
	}
	return &codeError{code: exitConfig, text: fmt.Sprintf("%s: none of its holders has the token %s; %s",
		what, f.token.is, text)}
}

func hasToken(all []lock.Contender, token lock.Token) bool {
	return slices.ContainsFunc(all, func(h lock.Contender) bool { return h.Token == token })
}

// carryOut has the holders asked, on record.
func (f *preemptFlags) carryOut(
	ctx context.Context, here *ensemble, home *lock.Client, cfg *config.Config, asked emergency.Preemption,
	mark *lock.Mark, view preemptedView,
) (preemptedView, error) {
	o, err := newOperatorAt(here.client, home, cfg)
	if err != nil {
		return preemptedView{}, err
	}
	done, err := o.Preempt(ctx, asked, view.before, mark)
	if stale, ok := errors.AsType[*lock.StaleTokenError](err); ok {
		return preemptedView{}, f.stale(fmt.Sprintf("lock %q not taken", asked.Scope), lock.State{Holders: stale.Holders})
	}
	if done.Outcome == "" {
		return preemptedView{}, err
	}
	view.Outcome, view.Act, view.Took, view.after, view.Now = done.Outcome, done.Act, done.Took.Milliseconds(),
		done.After, here.lock(done.After)
	if done.Outcome == emergency.PreemptedPending {
		err = errors.Join(err, &codeError{code: exitNotAcquired})
	}
	return view, err
}

func writePreempted(pg page, v preemptedView) {
	who := owners(v.before.Holders)
	took := human(time.Duration(v.Took) * time.Millisecond)
	switch v.Outcome {
	case emergency.PreemptedFree:
		pg.paragraph("", "%s: no holder; there is nothing to do", v.Scope)
		return
	case preemptedDryRun:
		would := "would be preempted"
		if !v.asks() {
			would = "would not be preempted"
		}
		pg.paragraph("", "%s: %s %s; nothing was done", v.Scope, who, would)
	case emergency.PreemptedGone:
		pg.paragraph("", "%s: %s was preempted and has released the lock, after %s", v.Scope, who, took)
	case emergency.PreemptedTaken:
		pg.paragraph("", "%s: the lock was taken from %s by force, after %s", v.Scope, who, took)
	case emergency.PreemptedPending:
		pg.paragraph("", "%s: %s was preempted and has not released the lock within %s", v.Scope, who, took)
	}
	for _, h := range v.before.Holders {
		pg.line("")
		writeVictim(pg, v.before, h)
	}
	pg.line("")
	pg.paragraph(lead("by"), "%s: %s", v.By, v.Reason)
	if v.Act != "" {
		writeOnRecord(pg, v.Act, v.Scope)
	}
	switch v.Outcome {
	case preemptedDryRun:
		for _, o := range v.plan.Obstacles {
			pg.paragraph(lead("next"), "%s", wouldWords(o, v))
		}
		if v.asks() {
			pg.paragraph(lead("then"), "%s", afterWords(v.before, false))
		}
	case emergency.PreemptedPending:
		pg.paragraph(lead("now"), "%s", afterWords(v.after, true))
		pg.paragraph(whyMargin, "the request is withdrawn; a holder that has begun to clean up goes when it is ready")
		pg.paragraph(lead("to do"), "wait and look again: lockkeeper locks why %s", live.ShellWord(v.Scope))
		for _, h := range v.after.Holders {
			pg.paragraph(whyMargin, "or by force:")
			pg.line(whyMargin + "  " + printable(fmt.Sprintf("lockkeeper locks preempt %s --token %s --force --reason WHY",
				live.ShellWord(v.Scope), h.Token)))
		}
	default:
		pg.paragraph(lead("now"), "%s", afterWords(v.after, true))
	}
}

// asks reports whether it preempts a holder at once.
func (v preemptedView) asks() bool { return slices.ContainsFunc(v.plan.Obstacles, goesAtOnce) }

// goesAtOnce reports whether a holder is asked right away: one at emergency
// priority is not, before its lease is over.
func goesAtOnce(o inspect.Obstacle) bool { return len(o.Asks) > 0 && o.Asks[0].After <= 0 }

// wouldWords says what would happen to a holder.
func wouldWords(o inspect.Obstacle, v preemptedView) string {
	h := o.Holder
	if !goesAtOnce(o) {
		return fmt.Sprintf(
			"%s is not preempted: it holds the lock at emergency priority itself; lockkeeper override ls says for whom",
			h.Owner)
	}
	text := fmt.Sprintf("%s is preempted at once, and may clean up for %s", h.Owner, human(o.Asks[0].Grace))
	if o.Asks[0].Grace <= 0 {
		text = h.Owner + " is preempted at once, and has no time to clean up"
	}
	if v.Force {
		return text + "; then the lock is taken"
	}
	return text + fmt.Sprintf("; it is waited for, for %s", human(v.waiting))
}
