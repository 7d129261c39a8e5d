package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// How much one transaction of a removal does: the server does nothing else
// meanwhile, and each costs every client a request.
const (
	maxBatch      = 256
	maxBatchBytes = 256 << 10 // of the paths
)

// batchSize returns how many of these go in one transaction.
func batchSize(idle []candidate) int {
	bytes := 0
	for i, x := range idle {
		if bytes += len(x.path); i == maxBatch || i > 0 && bytes > maxBatchBytes {
			return i
		}
	}
	return len(idle)
}

// remove removes the nodes of idle scopes in one transaction: set(root) ·
// delete(L1, version) · delete(L2, version) … T1 checks the version that the
// root has by then: a version of L that was read before is of no use any more.
// An L that can be deleted has no requests, so no other transaction concerns
// it: each contains its actor's own node.
//
// One that was used meanwhile is left out, and the others go.
func (k *collector) remove(ctx context.Context, s *zkclient.Session, batch []candidate) error {
	if k.o.DryRun {
		k.removed(0, batch...)
		return nil
	}
	for len(batch) > 0 {
		data, root, err := s.Get(ctx, k.c.Root())
		if err != nil {
			return err
		}
		if root.Version != k.start+k.raised {
			// Another collector was here: what was looked at may have gone, and
			// be there anew.
			if batch, err = k.again(ctx, s, batch); err != nil || len(batch) == 0 {
				return err
			}
		}
		ops := make([]any, 0, len(batch)+1)
		ops = append(ops, &zkclient.SetDataRequest{Path: k.c.Root(), Data: data, Version: root.Version})
		for _, x := range batch {
			ops = append(ops, &zkclient.DeleteRequest{Path: x.path, Version: x.stat.Version})
		}
		_, failed, err := s.Multi(ctx, ops...)
		var refused *zkclient.AccessError
		switch {
		case err == nil:
			k.raised++
			cacheOf(k.c).epoch.Store(-1)
			k.removed(1, batch...)
			return nil
		case errors.Is(err, zkclient.ErrBadVersion) && failed == 0: // another collector, right now
		case failed > 0 && (errors.Is(err, zkclient.ErrBadVersion) || errors.Is(err, zkclient.ErrNotEmpty)):
			k.left(batch[failed-1], LeftCame)
			batch = slices.Delete(slices.Clone(batch), failed-1, failed)
		case failed > 0 && errors.Is(err, zkclient.ErrNoNode): // by an administrator's hand
			batch = slices.Delete(slices.Clone(batch), failed-1, failed)
		case failed > 0 && errors.As(err, &refused):
			k.left(batch[failed-1], LeftDenied)
			batch = slices.Delete(slices.Clone(batch), failed-1, failed)
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			k.unsure = batch
			return err
		default:
			return err
		}
	}
	return nil
}

// again looks at a batch anew, and returns those of it that are still idle.
func (k *collector) again(ctx context.Context, s *zkclient.Session, batch []candidate) ([]candidate, error) {
	batch, err := k.look(ctx, s, slices.Clone(batch))
	if err != nil {
		return nil, err
	}
	var idle []candidate
	for _, x := range batch {
		stays, err := k.stays(ctx, s, x)
		switch {
		case err != nil:
			return nil, err
		case !stays:
			idle = append(idle, x)
		}
	}
	return idle, nil
}

// settle finds out what became of a transaction whose reply was lost: what is
// gone was removed. What is there is looked at like all others.
func (k *collector) settle(ctx context.Context, s *zkclient.Session) error {
	for len(k.unsure) > 0 {
		x := k.unsure[0]
		switch _, err := s.Stat(ctx, x.path); {
		case errors.Is(err, zkclient.ErrNoNode):
			k.removed(0, x)
		case err != nil:
			return err
		}
		k.unsure = k.unsure[1:]
	}
	return nil
}
