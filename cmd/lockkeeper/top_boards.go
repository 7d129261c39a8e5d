package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/live"
)

// topBoards watch the locks of all ensembles of a file.
type topBoards struct {
	all   []topBoard
	route *config.Config // says which has a lock; nil: there is one alone
}

// A topBoard watches those of one ensemble.
type topBoard struct {
	*live.Board
	ensemble string           // "" if there is one alone
	is       *config.Ensemble // of the file; nil: that of zookeeper.servers
	now      func() time.Time
	over     *atomic.Pointer[live.Blind] // why it does not look any more
}

// run has a board look until ctx ends. It returns an error if no other one looks any
// more either.
func (b topBoards) run(ctx context.Context, i int) error {
	err := b.all[i].Run(ctx)
	if ctx.Err() != nil || len(b.all) == 1 {
		return err
	}
	b.all[i].over.Store(&live.Blind{Since: b.all[i].now().UTC(), Reason: err.Error()})
	if slices.ContainsFunc(b.all, func(one topBoard) bool { return one.over.Load() == nil }) {
		return nil
	}
	return err
}

// of returns the board that sees the lock of a scope.
func (b topBoards) of(scope string) topBoard {
	if b.route != nil {
		if e := b.route.EnsembleOf(scope); e != nil {
			return b.all[slices.IndexFunc(b.all, func(one topBoard) bool { return one.is == e })]
		}
	}
	return b.all[0]
}

// seen is what all of them see now. Of a scope that has locks on several ensembles, for
// processes of the cluster do not say the same, it is the lock that the file means.
func (b topBoards) seen() *live.Snapshot {
	parts := make([]live.Part, len(b.all))
	meant := map[string]bool{}
	for i, one := range b.all {
		s := one.Now()
		if s.Version > 0 {
			s = s.AsOf(one.now())
		}
		if len(b.all) == 1 {
			return s
		}
		parts[i] = live.Part{Ensemble: one.ensemble, Seen: s}
		for _, l := range s.Locks {
			if b.of(l.Scope).ensemble == one.ensemble {
				meant[l.Scope] = true
			}
		}
	}
	for i, one := range b.all {
		s := *parts[i].Seen
		s.Locks = slices.DeleteFunc(slices.Clone(s.Locks), func(l live.Lock) bool {
			return meant[l.Scope] && b.of(l.Scope).ensemble != one.ensemble
		})
		if over := one.over.Load(); over != nil {
			s.Blind = over
		}
		parts[i].Seen = &s
	}
	return live.Together(parts)
}
