package temporal

import (
	"context"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

type reference struct {
	Scope string `json:"scope"`
}

func isNotThere(error) bool { return false }

type locks struct{ guard *lockguard.Guard }

func (l locks) enqueue(ctx context.Context, r lockguard.Requirement) bid {
	return newPledge(nil, func() (*lockguard.Hold, error) { return l.guard.Acquire(ctx, r) })
}

func (l locks) adopt(ctx context.Context, r lockguard.Requirement, _ reference) (*lockguard.Hold, error) {
	return l.guard.Acquire(ctx, r)
}
