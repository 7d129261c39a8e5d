package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// tokenFlag is the fencing token of a holder.
type tokenFlag struct {
	is    lock.Token
	given bool
	bad   string
}

func (v *tokenFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	*v = tokenFlag{is: lock.Token(n), given: true}
	if err != nil || n <= 0 {
		v.bad = fmt.Sprintf("%q is no token; write that of the holder, see lockkeeper locks why", s)
	}
	return nil
}

func (v *tokenFlag) String() string  { return "" }
func (v *tokenFlag) Type() string    { return "token" }
func (v *tokenFlag) problem() string { return v.bad }

type breakFlags struct {
	operatorFlags
	file   jobsFile
	token  tokenFlag
	dryRun yes
	yes    yes
}

func (p *program) locksBreak() *cobra.Command {
	f := &breakFlags{}
	c := p.command(&cobra.Command{
		Use:   "break SCOPE --token TOKEN --reason WHY",
		Short: "Take a lock from its holder at once, without a grace period",
		Long: `Take a lock from the holder with that token, at once: it is not preempted, and
has no time to clean up. It learns that its lock was broken, by whom and why. The
lock goes to the first waiter. To preempt it instead: lockkeeper locks preempt.

The token is that of locks why and locks show: when another request holds the lock by
now, nothing is done. The holder goes on working until it hears of it, at the
latest until its session is over; until then only its token keeps it from doing
harm. Who did it, to whom and why is on record before it is done (lockkeeper audit).

With zookeeper.ensembles in the file it is done on the ensemble that has the lock,
and is on record on that of zookeeper.servers.

It needs the credentials of an operator. On a terminal it asks before it acts,
unless --yes is given.

Exit code 75 if ZooKeeper does not answer; 78 for wrong flags, without credentials,
or for a token that no holder has.`,
		Example: `  lockkeeper locks break cluster/orders --token 7301444 --reason 'its host is gone (INC-4411)'
  lockkeeper locks break cluster/orders --token 7301444 --reason test --dry-run`,
	}, []string{"SCOPE"}, func(c *cobra.Command, args []string) error { return p.breakLock(c, f, args) })
	flags := c.Flags()
	flags.SortFlags = false
	flags.Var(&f.token, "token", "`token` of the holder that is meant; has to be there")
	f.add(c, "the lock is broken")
	flags.VarPF(&f.dryRun, "dry-run", "", "show whom it would hit, and do nothing").NoOptDefVal = "true"
	flags.VarPF(&f.yes, "yes", "y", "do not ask before it is done").NoOptDefVal = "true"
	f.file.add(c)
	return c
}

// brokenView is what has become of a lock that was to be broken, in JSON and
// YAML. The names of fields are a promise to scripts.
type brokenView struct {
	Scope  string      `json:"scope"`
	Broken bool        `json:"broken"` // false: it was a dry run
	Victim live.Holder `json:"victim"`
	By     string      `json:"by"`
	Reason string      `json:"reason"`
	Act    string      `json:"act"` // what the audit trail calls it; "" for a dry run
	Now    live.Lock   `json:"now"` // the lock afterwards, or as it is

	before, after lock.State
}

func (p *program) breakLock(c *cobra.Command, f *breakFlags, args []string) error {
	p.checkScope(args)
	f.check(p)
	if !f.token.given && !p.unclear {
		p.problems.add("--token is missing; write the token of the holder, see lockkeeper locks why")
	}
	cfg, reach, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	var view brokenView
	err = p.withLock(c.Context(), cfg, reach, args[0], func(
		ctx context.Context, here *ensemble, home *lock.Client,
	) error {
		client := here.client
		what := fmt.Sprintf("lock %q not broken", args[0])
		if !f.dryRun.is && client.Identity() == "" {
			return &lock.IdentityError{What: what}
		}
		state, victim, err := holderWith(ctx, client, args[0], f.token.is)
		if err != nil {
			return here.explain(err)
		}
		view = brokenView{
			Scope: args[0], Victim: live.NewHolder(victim), By: f.name(client), Reason: f.reason, Now: here.lock(state),
			before: state, after: state,
		}
		if f.dryRun.is {
			return nil
		}
		if err := client.CheckOperator(ctx, what); err != nil {
			return here.explain(err)
		}
		if err := p.confirm(f.yes.is,
			fmt.Sprintf("%s is held by %s (%s). Break its lock?", args[0], victim.Owner, live.Place(victim))); err != nil {
			return err
		}
		o, err := newOperatorAt(client, home, cfg)
		if err != nil {
			return err
		}
		broken, err := o.Break(ctx, args[0], f.token.is, emergency.By{Name: view.By, Reason: view.Reason})
		if broken.Act != "" {
			view.Broken, view.Act, view.Victim = true, broken.Act, live.NewHolder(broken.Victim)
			view.after = broken.After
			view.Now = here.lock(view.after)
		}
		return err
	})
	if err != nil && !view.Broken {
		return err
	}
	return errors.Join(p.writePage(view, func(pg page) { writeBroken(pg, view) }), err)
}

// checkScope adds what is wrong with the argument SCOPE.
func (p *program) checkScope(args []string) {
	if len(args) == 1 {
		_, err := lock.EscapeScope(args[0])
		p.problems.addRequest(err, func(string) string { return "SCOPE" })
	}
}

// holderWith returns the lock and its holder with a token, or why there is none.
func holderWith(
	ctx context.Context, client *lock.Client, scope string, token lock.Token,
) (lock.State, lock.Contender, error) {
	state, err := client.Lock(ctx, scope)
	if err != nil {
		return state, lock.Contender{}, err
	}
	if !state.Held() {
		return state, lock.Contender{}, &lock.NotHeldError{Scope: scope, Token: token}
	}
	i := slices.IndexFunc(state.Holders, func(h lock.Contender) bool { return h.Token == token })
	if i < 0 {
		return state, lock.Contender{}, &lock.StaleTokenError{Scope: scope, Token: token, Holders: state.Holders}
	}
	return state, state.Holders[i], nil
}

// confirm asks the person at the terminal, if there is one, unless she has said
// yes already.
func (p *program) confirm(yes bool, question string) error {
	if yes || p.stdin == nil || terminalColumns(p.stdin) == 0 {
		return nil
	}
	_, _ = fmt.Fprintf(p.stderr, "%s Type yes: ", printable(question))
	answer, _ := bufio.NewReader(p.stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return &codeError{code: exitFailed, text: "nothing was done"}
	}
	return nil
}

func writeBroken(pg page, v brokenView) {
	verb := "is broken: it holds it no longer"
	if !v.Broken {
		verb = "would be broken; nothing was done"
	}
	pg.paragraph("", "%s: the lock of %s %s", v.Scope, v.Victim.Owner, verb)
	pg.line("")
	i := slices.IndexFunc(v.before.Holders, func(h lock.Contender) bool { return h.ID == v.Victim.ID })
	if i >= 0 {
		writeVictim(pg, v.before, v.before.Holders[i])
		pg.line("")
	}
	pg.paragraph(lead("by"), "%s: %s", v.By, v.Reason)
	if v.Broken {
		writeOnRecord(pg, v.Act, v.Scope)
		pg.paragraph(lead("note"), "it works on until it hears of it, at the latest until its ZooKeeper session is over; "+
			"only its token keeps it from doing harm until then")
	}
	pg.paragraph(lead(map[bool]string{true: "now", false: "next"}[v.Broken]), "%s", afterWords(v.after, v.Broken))
}

func writeOnRecord(pg page, act, scope string) {
	pg.paragraph(whyMargin, "on record as %s", act)
	pg.line(whyMargin + "  " + printable("lockkeeper audit --scope "+live.ShellWord(scope)))
}

func writeVictim(pg page, s lock.State, h lock.Contender) {
	pg.paragraph(lead("holder"), "%s", live.Who(h))
	pg.paragraph(whyMargin, "%s, token %s", live.Place(h), h.Token)
	pg.paragraph(whyMargin, "since %s, %s; %s",
		short(h.Since, s.At), human(s.At.Sub(h.Since)), live.Words{State: s}.Lease(h))
	writeWhyDetails(func(format string, args ...any) { pg.paragraph(whyMargin, format, args...) }, h)
}

// afterWords says who has a lock; or, before it is taken from its holder, who
// would get it.
func afterWords(s lock.State, done bool) string {
	switch {
	case !done && len(s.Waiters) > 0:
		return "it goes to " + nameAndPlace(s.Waiters[0])
	case !done && len(s.Holders) > 1 && !isOneHold(s.Holders):
		return "the other holders keep it"
	case !done:
		return "no waiters: it is free then"
	case !s.Held() && len(s.Waiters) > 0:
		return "free; " + s.Waiters[0].Owner + " is about to get it"
	case !s.Held():
		return "free, no waiters"
	}
	return "held by " + words.Join(s.Holders, "; ", func(h lock.Contender) string {
		return fmt.Sprintf("%s, token %s", nameAndPlace(h), h.Token)
	})
}

// isOneHold reports whether all holders are members of one hold, and go together.
func isOneHold(holders []lock.Contender) bool {
	return !slices.ContainsFunc(holders, func(h lock.Contender) bool {
		return h.Hold == "" || h.Hold != holders[0].Hold || h.Token != holders[0].Token
	})
}

func nameAndPlace(c lock.Contender) string {
	return fmt.Sprintf("%s (%s, %s)", c.Owner, live.LevelWords(c.Priority), live.Place(c))
}
