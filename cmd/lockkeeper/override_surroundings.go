package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// surroundings are what overrides may concern right now.
type surroundings struct {
	locks     []lock.State
	elsewhere []lock.State // on other ensembles
	frozen    []lock.FrozenRequest
	ticks     []ticks.State
	left      []lock.Unreadable
}

// lookAround reads what overrides of these kinds may concern. It is for people to
// see: what cannot be read is named, and is no reason to do nothing.
func lookAround(ctx context.Context, client *lock.Client, all []override.Override) (s surroundings, err error) {
	saw := func(left []lock.Unreadable, err error) error {
		s.left = append(s.left, left...)
		if e, ok := errors.AsType[*lock.AccessError](err); ok { // the whole list
			s.left = append(s.left, lock.Unreadable{Path: e.Node, Reason: "its ACL does not let this client read it"})
			return nil
		}
		return err
	}
	pauses := func(o override.Override) bool { return o.Kind == override.Pause }
	var left []lock.Unreadable
	if slices.ContainsFunc(all, func(o override.Override) bool { return !pauses(o) }) {
		s.locks, left, err = client.Locks(ctx)
		if err = saw(left, err); err != nil {
			return s, err
		}
	}
	if slices.ContainsFunc(all, isAboutRequests) {
		s.frozen, left, err = client.Frozen(ctx)
		if err = saw(left, err); err != nil {
			return s, err
		}
	}
	if slices.ContainsFunc(all, pauses) {
		s.ticks, left, err = client.TickLedger("").States(ctx)
		if err = saw(left, err); err != nil {
			return s, err
		}
	}
	return s, nil
}

// lookElsewhere reads what overrides may concern on the other ensembles of a file. One
// that does not answer is named.
func (p *program) lookElsewhere(ctx context.Context, others ensembles, all []override.Override, s *surroundings) {
	if len(others) == 0 || !slices.ContainsFunc(all, isAboutRequests) {
		return
	}
	var mu sync.Mutex
	_ = p.withEnsembles(ctx, others, func(ctx context.Context, others ensembles) error {
		return others.each(ctx, func(_ int, e *ensemble) error {
			states, left, err := e.client.Locks(ctx)
			mu.Lock()
			defer mu.Unlock()
			s.elsewhere, s.left = append(s.elsewhere, states...), append(s.left, e.unreadable(left)...)
			if err != nil {
				s.left = append(s.left, lock.Unreadable{Path: "ensemble " + e.name, Reason: err.Error()})
			}
			return nil
		})
	})
}

// isAboutRequests reports whether an override changes requests, wherever they are. Holders
// are preempted on the ensemble of zookeeper.servers alone, and ticks are there.
func isAboutRequests(o override.Override) bool {
	return o.Kind != override.Pause && o.Kind != override.Hold && o.Kind != override.PreemptNow
}

// concerns are whom each of some overrides meets.
func (s surroundings) concerns(all []override.Override, cfg *config.Config) [][]concern {
	concerns := make([][]concern, len(all))
	for i, one := range all {
		locks := s.locks
		if isAboutRequests(one) {
			locks = slices.Concat(locks, s.elsewhere)
		}
		concerns[i] = concernsOf(one, locks, s.frozen, jobsThatAre(cfg, s.ticks))
	}
	return concerns
}
