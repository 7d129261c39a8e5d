package classic

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Barrier blocks all callers that wait at it, in any process, while it
// stands: while its node exists. It is Curator's DistributedBarrier: processes
// of both may meet at one path. It belongs to no client, and stands until a
// client removes it. It has no state of its own.
type Barrier struct {
	c    *zkclient.Client
	name string // the path as its user writes it
	path string
}

// Barrier returns the barrier at an absolute path, below Config.Chroot. It
// returns a *RequestError for a path that ZooKeeper would refuse.
func NewBarrier(c *zkclient.Client, path string) (*Barrier, error) {
	full, err := absolute(c, path)
	if err != nil {
		return nil, err
	}
	return &Barrier{c: c, name: path, path: full}, nil
}

// Path returns where the barrier is.
func (b *Barrier) Path() string { return b.name }

// Set puts the barrier up; one that stands already stays as it is. It returns
// *UnavailableError, *AccessError, ErrClosed or the cause of ctx; after the
// latter it may have been put up.
//
// A Set whose reply is lost is sent again: should another process remove the
// barrier in that moment, it may stand again.
func (b *Barrier) Set(ctx context.Context) error {
	return b.do(ctx, func(s *zkclient.Session) (struct{}, error) {
		for {
			_, err := s.Create(ctx, b.path, nil, 0)
			switch {
			case errors.Is(err, zkclient.ErrNodeExists):
				return struct{}{}, nil
			case errors.Is(err, zkclient.ErrNoNode):
				if err := ensureParent(ctx, s, b.path); err != nil {
					return struct{}{}, err
				}
			default:
				return struct{}{}, err
			}
		}
	})
}

// Remove removes the barrier, and releases all waiting callers; without a
// barrier it does nothing. It returns what Set returns.
//
// A Remove whose reply is lost is sent again: should another process set the
// barrier in that moment, it may be taken away, too.
func (b *Barrier) Remove(ctx context.Context) error {
	return b.do(ctx, func(s *zkclient.Session) (struct{}, error) {
		err := s.Delete(ctx, b.path, -1)
		if errors.Is(err, zkclient.ErrNoNode) {
			err = nil
		}
		return struct{}{}, err
	})
}

// Wait returns nil as soon as it sees that the barrier does not stand. It
// outlives its session. It returns *UnavailableError when ZooKeeper does not
// answer at the beginning, *AccessError, ErrClosed, or the cause of ctx.
//
// A barrier that is removed and set again within moments may be missed: Wait
// goes on then.
func (b *Barrier) Wait(ctx context.Context) error {
	bell := zkclient.NewBell()
	return b.do(ctx, func(s *zkclient.Session) (struct{}, error) {
		defer s.Unwatch(b.path, bell.Watcher())
		for {
			// A data watch, not one for existence: the latter would stay at the
			// server when the node is not there.
			_, _, err := s.Look(ctx, b.path, bell.Watcher())
			if errors.Is(err, zkclient.ErrNoNode) {
				return struct{}{}, nil
			}
			if err != nil {
				return struct{}{}, err
			}
			if err := bell.Wait(ctx, s); err != nil {
				return struct{}{}, err
			}
		}
	})
}

func (b *Barrier) do(ctx context.Context, op func(*zkclient.Session) (struct{}, error)) error {
	_, err := zkclient.Leaving(ctx, b.c, b.name,
		func() (struct{}, error) { return zkclient.InSessions(ctx, b.c, op) }, nil)
	return err
}
