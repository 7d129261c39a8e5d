package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type groupPlanFlags struct {
	file, group string
	join, leave nameList
	strategy    string
}

func (p *program) groupPlan() *cobra.Command {
	f := &groupPlanFlags{}
	c := p.command(&cobra.Command{
		Use:   "plan",
		Short: "Say which locks would move, and move none",
		Long: `Say which locks of a group would move if participants joined or left, or if the
file were applied: a dry run that changes nothing.

It begins with who is there and who holds what. If the group was never applied,
or ZooKeeper does not answer, it says how the group would begin: with those of
--join, or else with the participants that the file names. With --leave these
hold all locks already.`,
		Example: `  lockkeeper group plan -f lockkeeper.yaml --group lock-group --join host4
  lockkeeper group plan -f lockkeeper.yaml --leave host1 --strategy mod`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.plan(c, f) })
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "file", "f", defaultFile, "configuration `file`")
	flags.StringVar(&f.group, "group", "", "`name` of the group; may be left out if the file has one only")
	flags.Var(&f.join, "join", "names of those who would join, separated by commas")
	flags.Var(&f.leave, "leave", "names of those who would leave")
	flags.StringVar(&f.strategy, "strategy", "", "try another `strategy` than that of the file")
	return c
}

// planPatience is how long a plan waits for ZooKeeper: it can be made without.
const planPatience = 3 * time.Second

func (p *program) plan(c *cobra.Command, f *groupPlanFlags) error {
	if _, err := assignment.Named(f.strategy); err != nil {
		p.problems.add("--strategy: " + err.Error())
	}
	cfg, err := p.daemonConfig(c, f.file)
	if err != nil {
		return err
	}
	spec, err := groupSpec(cfg, f.group)
	if err != nil {
		return err
	}
	if f.strategy != "" {
		spec.Strategy = f.strategy
	}
	state, known, err := p.lookAtGroup(c.Context(), cfg, spec)
	if err != nil {
		return err
	}
	before := newStanding(state)
	live, err := f.change(spec, before.live)
	switch {
	case known:
	case len(f.leave) > 0:
		if before, err = begun(spec); err == nil {
			live, err = f.change(spec, before.live)
		}
	case len(f.join) == 0:
		live, err = spec.Participants, nil
	}
	if err != nil {
		return err
	}
	view, err := newPlan(spec, before, live)
	view.Known = known
	if err != nil {
		return err
	}
	return p.write(view, func(w io.Writer, _ bool) { writePlan(w, view, spec) })
}

// lookAtGroup returns the group as it stands; false if it is unknown.
func (p *program) lookAtGroup(
	ctx context.Context, cfg *config.Config, spec group.Spec,
) (state group.State, known bool, err error) {
	cfg.Client.Logger = p.quiet()
	client, err := lock.NewClient(cfg.Client)
	if err != nil {
		return state, false, err
	}
	defer closeClient(client)
	stopped, stop := untilSignal(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(stopped, planPatience)
	defer cancel()
	state, err = group.StateOf(ctx, client.Client, spec.Name)
	var missing *group.NotFoundError
	var unavailable *lock.UnavailableError
	switch {
	case err == nil:
		return state, true, nil
	case stopped.Err() != nil:
		return state, false, context.Cause(stopped)
	case errors.As(err, &missing):
		p.say("the group %q has no members yet: this is how it would begin", spec.Name)
		return state, false, nil
	case errors.As(err, &unavailable), ctx.Err() != nil:
		p.say("ZooKeeper does not answer: this is how the group %q would begin", spec.Name)
		return state, false, nil
	}
	return state, false, err
}

// A standing is who is there and who shall hold what.
type standing struct {
	live    []string
	planned assignment.Assignment
}

func newStanding(state group.State) standing {
	s := standing{planned: assignment.Assignment{}}
	for _, m := range state.Members {
		if !m.Leaving && !m.Waiting {
			s.live = append(s.live, m.Name)
		}
	}
	for _, l := range state.Locks {
		if len(l.Planned) > 0 {
			s.planned[l.Lock] = l.Planned
		}
	}
	return s
}

// begun is a group that all its participants have joined.
func begun(spec group.Spec) (standing, error) {
	planned, err := assign(spec, spec.Participants, nil)
	return standing{live: spec.Participants, planned: planned}, err
}

// assign asks the strategy of a group.
func assign(spec group.Spec, live []string, previous assignment.Assignment) (assignment.Assignment, error) {
	strategy, err := assignment.Named(spec.Strategy)
	if err != nil {
		return nil, err
	}
	return assignment.Run(strategy, spec.Locks, live, previous, planHints(spec))
}

func planHints(spec group.Spec) assignment.Hints {
	return assignment.Hints{
		Holders: spec.Holders, Limit: spec.Limit, Weights: spec.Weights, Pins: spec.Pins, Zones: spec.Zones,
	}
}

// change returns who would be there.
func (f *groupPlanFlags) change(spec group.Spec, live []string) ([]string, error) {
	var bad problems
	next := slices.Clone(live)
	for _, name := range f.leave {
		i := slices.Index(next, name)
		if i < 0 {
			bad.add(fmt.Sprintf("--leave: %q is not there; %s", name, present(live)))
			continue
		}
		next = slices.Delete(next, i, i+1)
	}
	for _, name := range f.join {
		switch {
		case slices.Contains(live, name) && !slices.Contains(f.leave, name):
			bad.add(fmt.Sprintf("--join: %q is there already; %s", name, present(live)))
		case len(spec.Participants) > 0 && !slices.Contains(spec.Participants, name):
			bad.add(fmt.Sprintf("--join: %q is not one of the group's participants (%s)",
				name, strings.Join(spec.Participants, ", ")))
		default:
			next = append(next, name)
		}
	}
	if len(bad) > 0 {
		return nil, &usageError{command: "lockkeeper group plan", problems: bad}
	}
	return next, nil
}

func present(live []string) string {
	if len(live) == 0 {
		return "no members"
	}
	return "there are " + strings.Join(slices.SortedFunc(slices.Values(live), assignment.Compare), ", ")
}

// planView is a plan in JSON and YAML. The names of fields are a promise to
// scripts.
type planView struct {
	Group    string          `json:"group"`
	Strategy string          `json:"strategy"`
	Known    bool            `json:"known"` // it begins with what ZooKeeper says
	Moves    []moveView      `json:"moves"`
	Members  []planCountView `json:"members"`
	Moved    int             `json:"moved"`  // locks that change hands
	Taken    int             `json:"taken"`  // that had no holder
	Freed    int             `json:"freed"`  // that would have no holder any more
	Rounds   int             `json:"rounds"` // that it takes, by max_moves
}

type moveView struct {
	Lock string `json:"lock"`
	From string `json:"from"` // empty: it had no holder
	To   string `json:"to"`   // empty: it has no holder any more
}

type planCountView struct {
	Name   string `json:"name"`
	Before int    `json:"before"`
	After  int    `json:"after"`
	State  string `json:"state"` // stays, joins or leaves
}

func newPlan(spec group.Spec, before standing, live []string) (planView, error) {
	v := planView{Group: spec.Name, Strategy: spec.Strategy, Moves: []moveView{}, Members: []planCountView{}}
	at := before.planned
	final, err := assign(spec, live, at)
	if err != nil {
		return v, err
	}
	// In rounds, as the controller does it.
	for next := final; ; v.Rounds++ {
		limited, held := assignment.LimitMoves(at, next, live, planHints(spec), spec.MaxMoves)
		if len(held) == 0 || limited.Equal(at) {
			if !next.Equal(at) {
				v.Rounds++
			}
			break
		}
		at = limited
		if next, err = assign(spec, live, at); err != nil {
			return v, err
		}
	}
	for _, m := range assignment.Moves(before.planned, final) {
		v.Moves = append(v.Moves, moveView(m))
		switch {
		case m.From == "":
			v.Taken++
		case m.To != "":
			v.Moved++
		case len(final[m.Lock]) == 0:
			v.Freed++
		}
	}
	was, will := before.planned.Counts(), final.Counts()
	all := slices.SortedFunc(slices.Values(slices.Concat(before.live, live)), assignment.Compare)
	for _, name := range slices.Compact(all) {
		count := planCountView{Name: name, Before: was[name], After: will[name], State: "stays"}
		switch {
		case !slices.Contains(live, name):
			count.State = "leaves"
		case !slices.Contains(before.live, name):
			count.State = "joins"
		}
		v.Members = append(v.Members, count)
	}
	return v, nil
}

func writePlan(w io.Writer, v planView, spec group.Spec) {
	if len(v.Moves) > 0 {
		row(w, "lock", "from", "to")
		for _, m := range v.Moves {
			row(w, m.Lock, orDash([]string{m.From}), orDash([]string{m.To}))
		}
		line(w, "")
	}
	if len(v.Members) > 0 {
		row(w, "participant", "before", "after", "change")
		for _, m := range v.Members {
			change := m.State
			if change == "stays" {
				change = "-"
			}
			row(w, m.Name, m.Before, m.After, change)
		}
		line(w, "")
	}
	taken, freed, rounds := "", "", ""
	if v.Taken > 0 {
		taken = fmt.Sprintf(", %d without a holder would be taken", v.Taken)
	}
	if v.Freed > 0 {
		freed = fmt.Sprintf(", %d would have no holder", v.Freed)
	}
	if v.Rounds > 1 {
		rounds = fmt.Sprintf(", in %d rounds (max_moves %d)", v.Rounds, spec.MaxMoves)
	}
	line(w, "%d of %s would move%s%s%s; strategy %s; nothing was changed",
		v.Moved, words.Count(len(spec.Locks), "lock"), taken, freed, rounds, v.Strategy)
}

// nameList is the value of a flag with names, separated by commas; it may be
// given several times.
type nameList []string

func (v *nameList) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(*v, name) {
			*v = append(*v, name)
		}
	}
	return nil
}

func (v *nameList) String() string { return strings.Join(*v, ",") }
func (v *nameList) Type() string   { return "names" }
func (v *nameList) forget()        { *v = nil }
