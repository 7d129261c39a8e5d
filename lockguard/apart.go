package lockguard

import (
	"context"
	"fmt"
)

// refuseApart refuses locks that are on another ensemble than the first of them, or
// than the locks that the work with this context holds. See NewRouted.
func (g *Guard) refuseApart(ctx context.Context, requirements []Requirement) error {
	router, ok := g.locker.(interface{ apart(a, b string) string })
	if !ok {
		return nil
	}
	for i, r := range requirements {
		if i > 0 {
			if how := router.apart(requirements[0].Scope, r.Scope); how != "" {
				return &RequestError{
					Field: fmt.Sprintf("requirements[%d].scope", i),
					Reason: how + ": locks of two ensembles are not taken together; give them a prefix in common, " +
						"or work under one after the other",
				}
			}
		}
		for _, held := range g.heldScopes(ctx) {
			if how := router.apart(held, r.Scope); how != "" {
				return &RequestError{
					Field: "scope",
					Reason: how + ", and the first is held around this: locks of two ensembles are not taken one under the other; " +
						"release that first, or give them a prefix in common",
				}
			}
		}
	}
	return nil
}

// heldScopes are those of the Holds of this Guard that ctx is in.
func (g *Guard) heldScopes(ctx context.Context) (scopes []string) {
	p, _ := ctx.Value(placeKey{}).(place)
	for ; p.hold != nil; p = p.hold.around {
		for _, l := range p.hold.locks() {
			if l.guard.origin == g.origin && l.grantID() != "" {
				scopes = append(scopes, l.requirement.Scope)
			}
		}
	}
	return scopes
}
