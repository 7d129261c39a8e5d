package classic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A DoubleBarrier lets a number of members begin together and end together:
// Enter waits until all are there, Leave until all have left. It is Curator's
// DistributedDoubleBarrier, and processes of both may be members at one path.
// It has no state of its own: each call of Enter is another member.
//
// Each member is an ephemeral node below the path; the node "ready" there says
// that all have come, and is removed by the last that leaves. Once the barrier
// is open, members that come late are let in, too, as with Curator. When all
// members die inside, "ready" stays, and the barrier is open for the next: give
// each round of the work a path of its own.
//
// The member that opens the barrier writes the directory as it is, so that a
// member that is slow to leave does not remove the "ready" of another round.
// Curator does not: what it opens a straggler may close, and its own stragglers
// do not look. Nor does its Leave wait for the last: with one member left
// inside, even one that has not seen "ready" yet, it returns and takes "ready"
// away. A waiting member of ours learns of the opening all the same.
type DoubleBarrier struct {
	c       *zkclient.Client
	name    string // the path as its user writes it
	path    string
	ready   string
	members int
}

// ready is the node that says that all members are there.
const readyNode = "ready"

// DoubleBarrier returns the double barrier for so many members at an absolute
// path, below Config.Chroot. All members have to name the same number. It
// returns *RequestError values, joined, for a path that ZooKeeper would refuse
// and for a number below 1.
func NewDoubleBarrier(c *zkclient.Client, path string, members int) (*DoubleBarrier, error) {
	full, err := absolute(c, path)
	if members < 1 {
		err = errors.Join(err, &zkclient.RequestError{
			Field: "members", Reason: fmt.Sprintf("%d is not positive; write how many take part", members),
		})
	}
	if err != nil {
		return nil, err
	}
	return &DoubleBarrier{c: c, name: path, path: full, ready: full + "/" + readyNode, members: members}, nil
}

// Path returns where the barrier is.
func (b *DoubleBarrier) Path() string { return b.name }

// Enter waits until all members have entered. When it returns an error, this
// member is gone from ZooKeeper, or will be with its session:
//
//   - *EvictedError: an administrator deleted the member's node
//   - *UnavailableError: ZooKeeper does not answer
//   - *AccessError: the ACL does not allow it
//   - ErrClosed: the client is closed
//   - else the cause of ctx
//
// A member whose session ends while it waits comes again in the next. One that
// gives up in the very moment when the barrier opens may have been counted: to
// the others it is one that has left at once.
func (b *DoubleBarrier) Enter(ctx context.Context) (*BarrierMember, error) {
	return zkclient.Leaving(ctx, b.c, b.name, func() (*BarrierMember, error) {
		return zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (*BarrierMember, error) { return b.enter(ctx, s) })
	}, func(m *BarrierMember) { b.abandon(m.s, m.path) })
}

// enter is one member's coming in, within one session.
func (b *DoubleBarrier) enter(ctx context.Context, s *zkclient.Session) (*BarrierMember, error) {
	m := &BarrierMember{b: b, s: s, path: b.path + "/" + znode.NewGUID(), door: make(chan struct{}, 1)}
	made, err := m.enter(ctx)
	if err != nil && made && errors.Is(err, context.Cause(ctx)) && b.isOpen(ctx, s) {
		err = nil // those who saw it may have gone in with it
	}
	switch {
	case err == nil:
		return m, nil
	case !errors.Is(err, zkclient.ErrSessionOver):
		b.c.Background(func() { b.abandon(s, m.path) })
	}
	return nil, err
}

// isOpen looks, also when ctx has ended.
func (b *DoubleBarrier) isOpen(ctx context.Context, s *zkclient.Session) bool {
	_, _, err := s.Get(context.WithoutCancel(ctx), b.ready)
	return err == nil
}

// enter reports, too, whether the member has a node, as far as it knows.
func (m *BarrierMember) enter(ctx context.Context) (made bool, err error) {
	b, s := m.b, m.s
	bell := zkclient.NewBell()
	var opened atomic.Bool // since this member has its node; a fast straggler of Curator's may have closed it again
	opening := zkclient.Watcher(func(kind zkclient.WatchKind) {
		if kind == zkclient.WatchChanged {
			opened.Store(true)
		}
		bell.Ring()
	})
	defer s.Unwatch(b.ready, &opening)
	defer s.Unwatch(m.path, bell.Watcher())
	for {
		open, _, err := s.LookFor(ctx, b.ready, &opening)
		if err == nil && !made {
			err = m.create(ctx)
			made = err == nil
			opened.Store(false)
		}
		open = open || made && opened.Load()
		if err == nil && !open {
			open, err = m.gather(ctx)
		}
		if err == nil && !open {
			// Its own node's end has to be heard of, too.
			if _, _, err = s.Look(ctx, m.path, bell.Watcher()); errors.Is(err, zkclient.ErrNoNode) {
				err = &lock.EvictedError{Scope: b.name}
			}
		}
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue // it has caught up since
		case err != nil, open:
			return made, err
		}
		if err := bell.Wait(ctx, s); err != nil {
			return made, err
		}
	}
}

// create makes the member's node. Its name is its own: one that is there
// already was made by a request whose reply was lost.
func (m *BarrierMember) create(ctx context.Context) error {
	for {
		_, err := m.s.Create(ctx, m.path, nil, zkclient.FlagEphemeral)
		switch {
		case errors.Is(err, zkclient.ErrNodeExists):
			return nil
		case errors.Is(err, zkclient.ErrNoNode):
			if err := ensureParent(ctx, m.s, m.path); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// gather opens the barrier if all members are there: all at once, in one
// transaction with the opening, so that none of them can have given up.
func (m *BarrierMember) gather(ctx context.Context) (open bool, err error) {
	b, s := m.b, m.s
	for writes := true; ; {
		names, dir, err := barrierMembers(ctx, s, b.path)
		if err != nil || len(names) < b.members {
			return false, err
		}
		ops := make([]any, 0, len(names)+2)
		for _, name := range names {
			ops = append(ops, &zkclient.CheckVersionRequest{Path: b.path + "/" + name, Version: -1})
		}
		ops = append(ops, &zkclient.CreateRequest{Path: b.ready, Acl: s.Client().ACL()})
		if writes {
			var data []byte
			if dir.DataLength > 0 {
				if data, dir, err = s.Get(ctx, b.path); err != nil {
					return false, err
				}
			}
			ops = append(ops, &zkclient.SetDataRequest{Path: b.path, Data: data, Version: dir.Version})
		}
		_, failed, err := s.Multi(ctx, ops...)
		switch {
		case err == nil, errors.Is(err, zkclient.ErrNodeExists):
			return true, nil
		case writes && failed == len(ops)-1 && errors.Is(err, zkclient.ErrNoAuth):
			writes = false // then stragglers have to be quick
		case !errors.Is(err, zkclient.ErrNoNode) && !errors.Is(err, zkclient.ErrBadVersion):
			return false, err
		}
	}
}

// barrierMembers lists the members inside or coming in, in the order that all
// agree on, and what the directory was then; none without a directory.
func barrierMembers(ctx context.Context, s *zkclient.Session, path string) ([]string, *zkclient.Stat, error) {
	names, dir, err := s.List(ctx, path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, &zkclient.Stat{}, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == readyNode })
	slices.Sort(names)
	return names, dir, err
}
