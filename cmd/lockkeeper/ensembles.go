package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// route connects to the ensembles that have the locks of some scopes. Like home, they
// need not be there: until they are, their locks alone are waited for.
func route(home *lock.Client, cfg *config.Config) (_ *lock.Router, end func(), err error) {
	var clients []*lock.Client
	closeAll := func() {
		for _, client := range clients {
			closeClient(client)
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	prefixes := make(map[string]*lock.Client)
	for _, e := range cfg.Ensembles {
		settings := e.Client(cfg.Client)
		if settings.Logger != nil {
			settings.Logger = settings.Logger.With("ensemble", e.Name)
		}
		client, err := lock.NewClient(settings)
		if err != nil {
			return nil, nil, err
		}
		clients = append(clients, client)
		for _, prefix := range e.Prefixes {
			prefixes[prefix] = client
		}
	}
	router, err := lock.NewRouter(home, prefixes)
	return router, closeAll, err
}

// ensembles are all of a file, that of zookeeper.servers first. The locks of some scopes
// are on the others, everything else is there.
type ensembles []ensemble

// An ensemble is one of them.
type ensemble struct {
	name   string // "" if there is one alone
	config lock.Config
	is     *config.Ensemble // of the file; nil: that of zookeeper.servers
	client *lock.Client     // see withEnsembles
}

// ensemblesOf returns the ensembles of a file; cfg may be nil.
func ensemblesOf(cfg *config.Config, home lock.Config) ensembles {
	all := ensembles{{config: home}}
	if cfg == nil || len(cfg.Ensembles) == 0 {
		return all
	}
	all[0].name = "home"
	for i := range cfg.Ensembles {
		e := &cfg.Ensembles[i]
		if e.Name == all[0].name {
			all[0].name = "zookeeper.servers"
		}
		all = append(all, ensemble{name: e.Name, config: e.Client(home), is: e})
	}
	return all
}

// of returns the ensemble that has the lock of a scope.
func (all ensembles) of(cfg *config.Config, scope string) *ensemble {
	if cfg != nil {
		if e := cfg.EnsembleOf(scope); e != nil {
			return &all[slices.IndexFunc(all, func(one ensemble) bool { return one.is == e })]
		}
	}
	return &all[0]
}

// write says where the locks are of which the rest tells.
func (all ensembles) write(w io.Writer) {
	for _, e := range all {
		e.write(w)
	}
}

func (e *ensemble) write(w io.Writer) {
	text := cluster(e.config)
	if e.name != "" {
		text = e.name + ": " + text
	}
	_, _ = fmt.Fprintln(w, printable(text))
}

// explain says of which ensemble an error tells.
func (e *ensemble) explain(err error) error {
	if e.name == "" || err == nil || errors.As(err, new(*codeError)) || errors.As(err, new(*jobs.SignalError)) {
		return err
	}
	return fmt.Errorf("ensemble %s: %w", e.name, err)
}

// lock is what JSON has of a lock there.
func (e *ensemble) lock(s lock.State) live.Lock {
	l := live.NewLock(s)
	l.Ensemble = e.name
	return l
}

// withEnsembles lets look read from ensembles, each with a client.
func (p *program) withEnsembles(
	ctx context.Context, all ensembles, look func(context.Context, ensembles) error,
) error {
	all = slices.Clone(all)
	var closing sync.WaitGroup
	defer closing.Wait()
	for i := range all {
		settings := all[i].config
		settings.Logger = p.quiet()
		client, err := lock.NewClient(settings)
		if err != nil {
			return all[i].explain(err)
		}
		defer closing.Go(func() { closeClient(client) })
		all[i].client = client
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	return look(ctx, all)
}

// each lets look read from all ensembles at once. It returns an error for each that
// look has one for; what the others tell stands.
func (all ensembles) each(ctx context.Context, look func(i int, e *ensemble) error) error {
	errs := make([]error, len(all))
	var looking sync.WaitGroup
	for i := range all {
		looking.Go(func() { errs[i] = all[i].explain(look(i, &all[i])) })
	}
	looking.Wait()
	if cause := context.Cause(ctx); cause != nil && len(all) > 1 {
		return cause
	}
	return errors.Join(errs...)
}

// ensembleLocks are all locks of an ensemble.
type ensembleLocks struct {
	ensemble string // "" if there is one alone
	states   []lock.State
	left     []lock.Unreadable
	now      time.Time
}

// locks looks at all locks of all ensembles. The error is about those that could not
// be looked at; what the others have is returned with it.
func (all ensembles) locks(ctx context.Context) ([]ensembleLocks, error) {
	found := make([]*ensembleLocks, len(all))
	err := all.each(ctx, func(i int, e *ensemble) error {
		states, left, err := e.client.Locks(ctx)
		if err == nil {
			found[i] = &ensembleLocks{e.name, states, e.unreadable(left), e.client.Now()}
		}
		return err
	})
	var seen []ensembleLocks
	for _, one := range found {
		if one != nil {
			seen = append(seen, *one)
		}
	}
	return seen, err
}

// unreadable says which ensemble has nodes that cannot be read.
func (e *ensemble) unreadable(left []lock.Unreadable) []lock.Unreadable {
	if e.name == "" {
		return left
	}
	left = slices.Clone(left)
	for i := range left {
		left[i].Path = "ensemble " + e.name + ": " + left[i].Path
	}
	return left
}

// A partialError is about the ensembles that are missing in what is shown.
type partialError struct{ err error }

func (e *partialError) Error() string {
	return "not all is shown: " + strings.ReplaceAll(e.err.Error(), "\n", "\nnot all is shown: ")
}

func (e *partialError) Unwrap() error { return e.err }

// unreadableIn are the nodes that cannot be read, of all ensembles.
func unreadableIn(found []ensembleLocks) (left []lock.Unreadable) {
	for _, one := range found {
		left = append(left, one.left...)
	}
	return left
}

// lockViews explains the locks of all ensembles, by scope.
func lockViews(found []ensembleLocks) []live.Lock {
	locks := []live.Lock{}
	for _, one := range found {
		for _, l := range live.NewLocks(one.states) {
			l.Ensemble = one.ensemble
			locks = append(locks, l)
		}
	}
	slices.SortStableFunc(locks, func(a, b live.Lock) int { return strings.Compare(a.Scope, b.Scope) })
	return locks
}
