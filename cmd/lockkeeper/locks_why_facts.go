package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// whyFacts is what an answer follows from.
type whyFacts struct {
	about       string
	states      []lock.State // all that there are
	graph       inspect.WaitGraph
	now         time.Time // of the servers; zero: not read, there are no holders and no waiters
	overrides   override.Set
	approvals   []opstore.Approval
	outside     []lock.FrozenRequest // all that overrides keep out of queues
	ticks       *ticks.State         // of a job without requests
	ticksUnread bool                 // its record is there, and cannot be read
	job         *jobs.Job            // as the configuration file has it; nil: it does not, or there is none
	unread      []string             // what could not be read, and why
	ensemble    string               // that has the lock of that name; "" if there is one alone
	where       map[string]string    // the ensembles of requests, by ID; nil if there is one alone
	missing     error                // the ensembles that may know more, and do not answer

	asked    []inspect.WaitNode                     // requests
	foreseen map[string]map[string]inspect.Prospect // by scope and ID
}

// newWhyFacts joins what is known about a scope or a job.
func newWhyFacts(about string, states []lock.State) *whyFacts {
	f := &whyFacts{
		about: about, states: states, graph: inspect.WaitFor(states), foreseen: map[string]map[string]inspect.Prospect{},
	}
	f.asked = f.requestsOf(f.graph.Nodes())
	for _, s := range states {
		if s.At.After(f.now) {
			f.now = s.At
		}
	}
	if s := f.lock(); s != nil && !s.At.IsZero() {
		f.now = s.At
	}
	return f
}

// look asks ZooKeeper: own, which has the lock of that name, and, if there is none, all
// others, for a job may have locks on any. cfg is the configuration file; nil: there is
// none.
func (f *whyFacts) look(ctx context.Context, all ensembles, own *ensemble, cfg *config.Config, about string) error {
	found, silent := ensembles{*own}.locks(ctx)
	isAsked := func(s lock.State) bool { return s.Scope == about }
	missing := silent
	if len(all) > 1 && (silent != nil || !slices.ContainsFunc(found[0].states, isAsked)) {
		others := slices.DeleteFunc(slices.Clone(all), func(e ensemble) bool { return e.client == own.client })
		more, err := others.locks(ctx)
		for i := range more { // a lock of that name is not looked for there
			more[i].states = slices.DeleteFunc(more[i].states, isAsked)
		}
		found, missing = append(found, more...), errors.Join(silent, err)
	}
	if cause := context.Cause(ctx); cause != nil || len(found) == 0 {
		if cause != nil {
			return cause
		}
		return missing
	}
	client := all[0].client
	*f = *newWhyFacts(about, joined(found))
	f.ensemble, f.where = own.name, whereOf(found)
	f.leaveOut(unreadableIn(found))
	if missing != nil {
		f.missing = &partialError{missing}
		f.unread = append(f.unread, strings.Split(missing.Error(), "\n")...)
	}
	var left []lock.Unreadable
	var err error
	if f.now.IsZero() {
		f.now = client.Now()
	}
	f.job = jobOf(cfg, about)
	f.readOverrides(ctx, client, cfg)
	f.readApprovals(ctx, client)
	if f.outside, left, err = client.Frozen(ctx); err != nil {
		f.unread = append(f.unread, err.Error())
	}
	f.leaveOut(left)
	if f.lock() == nil && len(f.requests()) == 0 {
		if silent != nil { // the lock may well be there
			return silent
		}
		return f.readTicks(ctx, client)
	}
	return nil
}

// joined returns the locks of ensembles.
func joined(found []ensembleLocks) (states []lock.State) {
	for _, one := range found {
		states = append(states, one.states...)
	}
	return states
}

// whereOf says on which ensembles requests are; nil if there is one alone.
func whereOf(found []ensembleLocks) map[string]string {
	if found[0].ensemble == "" {
		return nil
	}
	where := map[string]string{}
	for _, one := range found {
		for _, s := range one.states {
			for _, c := range slices.Concat(s.Holders, s.Waiters) {
				where[c.ID] = one.ensemble
			}
		}
	}
	return where
}

// at says on which ensemble a request is, if there are several.
func (f *whyFacts) at(n inspect.WaitNode) string {
	if f.where[n.ID] == "" {
		return ""
	}
	return " on the ensemble " + f.where[n.ID]
}

// readTicks looks whether it is a job that has run.
func (f *whyFacts) readTicks(ctx context.Context, client *lock.Client) error {
	state, err := client.TickLedger("").State(ctx, f.about)
	switch {
	case errors.As(err, new(*lock.RequestError)): // no name of a job
	case errors.As(err, new(*lock.RecordError)), errors.As(err, new(*lock.AccessError)): // of that job alone
		f.ticksUnread, f.unread = true, append(f.unread, err.Error())
	case err != nil:
		return err
	case isKnown(state):
		f.ticks = &state
	}
	return nil
}

// readOverrides reads those that are in force: posted in ZooKeeper, or in the
// file that cfg names. Of two with one ID that in ZooKeeper counts. What cannot
// be read is said; the rest of the answer stands without it.
func (f *whyFacts) readOverrides(ctx context.Context, client *lock.Client, cfg *config.Config) {
	var all []override.Override
	if cfg != nil && cfg.Emergency.File != "" {
		file, err := config.LoadOverrides(cfg.Emergency.File, config.OverridesOptions{Config: cfg, Now: client.Now})
		if err != nil {
			f.unread = append(f.unread, fmt.Sprintf("the overrides file cannot be used: %v", err))
		} else {
			all = append(all, file.All...)
		}
	}
	posted, err := client.Overrides().List(ctx)
	if err != nil { // untrusted overrides have no effect
		f.unread = append(f.unread, err.Error())
		posted = nil
	}
	for _, o := range posted {
		all = append(all, o.Override)
	}
	f.overrides, _ = override.InForce(all, f.now)
}

// readApprovals reads those that are undecided.
func (f *whyFacts) readApprovals(ctx context.Context, client *lock.Client) {
	all, left, err := client.Approvals().List(ctx)
	f.leaveOut(left)
	if err != nil {
		f.unread = append(f.unread, err.Error())
	}
	for _, a := range all {
		if a.Decision == nil {
			f.approvals = append(f.approvals, a)
		}
	}
}

// leaveOut names what could not be read.
func (f *whyFacts) leaveOut(left []lock.Unreadable) {
	for i, u := range left {
		if i == manyUnreadable {
			f.unread = append(f.unread, words.Count(len(left)-i, "more node")+"; all of them: lockkeeper doctor")
			break
		}
		f.unread = append(f.unread, u.String())
	}
}

// lock returns the lock that is asked about; nil: there is none of that name.
func (f *whyFacts) lock() *lock.State {
	i := slices.IndexFunc(f.states, func(s lock.State) bool { return s.Scope == f.about })
	if i < 0 {
		return nil
	}
	return &f.states[i]
}

// state returns the lock of a scope.
func (f *whyFacts) state(scope string) lock.State {
	for _, s := range f.states {
		if s.Scope == scope {
			return s
		}
	}
	return lock.State{Scope: scope}
}

// requests returns those of the job that is asked about: the waiting ones first.
func (f *whyFacts) requests() []inspect.WaitNode { return f.asked }

func (f *whyFacts) requestsOf(all []inspect.WaitNode) []inspect.WaitNode {
	var waiting, holding []inspect.WaitNode
	for _, n := range all {
		switch {
		case n.Owner != f.about:
		case n.Holds:
			holding = append(holding, n)
		default:
			waiting = append(waiting, n)
		}
	}
	return append(waiting, holding...)
}

// isJob reports whether the question is about a job.
func (f *whyFacts) isJob() bool {
	return f.lock() == nil && (len(f.requests()) > 0 || f.ticks != nil || f.ticksUnread || len(f.frozenOf()) > 0)
}

// frozenOf returns the frozen requests of the job that is asked about.
func (f *whyFacts) frozenOf() []live.Request {
	return f.frozenThat(func(r lock.FrozenRequest) bool { return r.Owner == f.about || r.Job == f.about })
}

// frozenFor returns the frozen requests for the lock that is asked about.
func (f *whyFacts) frozenFor() []live.Request { return live.FrozenFor(f.about, f.outside) }

func (f *whyFacts) frozenThat(fits func(lock.FrozenRequest) bool) (found []live.Request) {
	for _, r := range f.outside {
		if fits(r) {
			found = append(found, live.NewFrozen(r))
		}
	}
	return found
}

// jobRequests is what all requests for locks do.
func (f *whyFacts) jobRequests() []live.Request {
	return append([]live.Request{}, live.Requests(live.NewLocks(f.states), f.outside)...)
}

// prospect returns what is foreseen for a waiter.
func (f *whyFacts) prospect(n inspect.WaitNode) inspect.Prospect {
	if f.foreseen[n.Scope] == nil {
		all := inspect.Outlook(f.state(n.Scope))
		f.foreseen[n.Scope] = make(map[string]inspect.Prospect, len(all))
		for _, p := range all {
			f.foreseen[n.Scope][p.Waiter.ID] = p
		}
	}
	if p, ok := f.foreseen[n.Scope][n.ID]; ok {
		return p
	}
	return inspect.Prospect{Waiter: n.Contender, Outcome: inspect.OutcomeInLine}
}

// circles returns those that lead through a scope, or through a request of the
// job.
func (f *whyFacts) circles() []inspect.Circle {
	var found []inspect.Circle
	for _, c := range f.graph.Circles() {
		if slices.ContainsFunc(c.Edges, func(e inspect.WaitEdge) bool {
			return e.From.Scope == f.about || f.isJob() && e.From.Owner == f.about
		}) {
			found = append(found, c)
		}
	}
	return found
}

// open returns the approvals that concern the lock or the job.
func (f *whyFacts) open() []opstore.Approval {
	var found []opstore.Approval
	for _, a := range f.approvals {
		if a.Scope == f.about || f.isJob() && a.Requestor.Owner == f.about {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b opstore.Approval) int { return strings.Compare(a.ID, b.ID) })
	return found
}
