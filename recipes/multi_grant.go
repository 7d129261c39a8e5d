package recipes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A MultiGrant is what Multi.Acquire returns: several locks that are held,
// until Release. Each is a Grant of its own: it can be preempted or lost alone,
// which its Request.Notify tells. Whoever needs all of them releases all then.
type MultiGrant struct {
	grants []*Grant    // in the order in which they were taken
	since  []time.Time // when they were

	mu       sync.Mutex
	released bool
}

// Grants returns the grant of each lock, in the order of the scopes.
func (g *MultiGrant) Grants() []*Grant { return slices.Clone(g.grants) }

// Tokens returns the fencing token of each scope. A token says something to
// whoever is protected by its own scope alone. See Grant.Token.
func (g *MultiGrant) Tokens(ctx context.Context) (map[string]Token, error) {
	tokens := make(map[string]Token, len(g.grants))
	for _, grant := range g.grants {
		token, err := grant.Token(ctx)
		if err != nil {
			return nil, err
		}
		tokens[grant.Scope()] = token
	}
	return tokens, nil
}

// Check returns nil while all locks are held for certain, else the *LostError
// of each that is not, or ErrReleased. See Grant.Check.
func (g *MultiGrant) Check() error {
	return forEach(g.grants, func(grant *Grant) error { return grant.Check() })
}

// Extend starts the lease of each lock anew. It stops at the first that
// refuses, and returns its error: see Grant.Extend.
func (g *MultiGrant) Extend(ctx context.Context, lease time.Duration) error {
	for _, grant := range g.grants {
		if err := grant.Extend(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

// Release gives all locks back, the last one first. One that cannot be given
// back, or was lost, does not keep the others: the errors are joined
// (errors.Join), see Grant.Release. It returns ErrReleased when it was called
// before.
func (g *MultiGrant) Release(ctx context.Context) error {
	g.mu.Lock()
	over := g.released
	g.released = true
	g.mu.Unlock()
	if over {
		return ErrReleased
	}
	reversed := slices.Clone(g.grants)
	slices.Reverse(reversed)
	return forEach(reversed, func(grant *Grant) error { return grant.Release(ctx) })
}

// forEach joins the errors of all.
func forEach(grants []*Grant, do func(*Grant) error) error {
	var problems []error
	for _, grant := range grants {
		if err := do(grant); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
