package classic

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A BarrierMember is inside a DoubleBarrier until it leaves, or until its
// session ends.
type BarrierMember struct {
	b    *DoubleBarrier
	s    *zkclient.Session
	path string
	door chan struct{} // one call of Leave at a time takes the node away

	mu     sync.Mutex
	out    bool     // its node is gone, by its own doing
	others []string // who was inside when it left, and has to leave yet
	blind  bool     // it could not see who
	err    error    // why it was thrown out
}

// Leave waits until all members that were inside have left. It returns
//
//   - *LostError: the session ended, or the member's node was deleted, before
//     it left: the others have not waited for it
//   - ErrClosed: the client is closed
//   - else *AccessError or the cause of ctx: the member has left all the same, or will
//     have with its session. Leave may be called again, and waits on for the others.
//
// A member that has left is out: then Leave returns nil.
func (m *BarrierMember) Leave(ctx context.Context) error {
	_, err := zkclient.Leaving(ctx, m.b.c, m.b.name, func() (struct{}, error) {
		err := m.depart(ctx)
		if err == nil {
			if err = m.waitForOthers(ctx); err != nil { // there may be no other to close the barrier
				b := m.b
				b.c.Background(func() { b.shutBehindLast(context.Background(), m.s) })
			}
		}
		return struct{}{}, err
	}, nil)
	return err
}

// depart takes the member's own node away when it is its turn: the lowest
// member goes last, the others when they have seen who is the lowest.
func (m *BarrierMember) depart(ctx context.Context) error {
	if err := m.atTheDoor(ctx); err != nil {
		return err
	}
	defer func() { <-m.door }()
	m.mu.Lock()
	out, err := m.out, m.err
	m.mu.Unlock()
	if out || err != nil {
		return err
	}
	d := departure{m: m, bell: zkclient.NewBell(), blind: true}
	for {
		if over, err := d.step(ctx); over {
			return err
		}
	}
}

// departure is one call of depart.
type departure struct {
	m      *BarrierMember
	bell   *zkclient.Bell
	unsure bool     // an earlier try may have taken the own node away
	blind  bool     // others is not known
	others []string // the other members, when they were listed last
}

// step does what there is to do now. It reports whether the departure is over.
func (d *departure) step(ctx context.Context) (over bool, err error) {
	m, b, s := d.m, d.m.b, d.m.s
	own := path.Base(m.path)
	names, dir, err := barrierMembers(ctx, s, b.path)
	i := slices.Index(names, own)
	if err == nil {
		d.blind = false
		d.others = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == own })
	}
	switch {
	case errors.Is(err, zkclient.ErrAmbiguous):
		return false, nil
	case err != nil:
		return d.failed(err)
	case i < 0 && !d.unsure:
		return true, m.thrownOut(&lock.LostError{Scope: b.name, Reason: lock.LossDeleted})
	case i < 0:
		return true, m.left(d.others, d.blind)
	case i == 0 && len(d.others) > 0:
		return d.failed(b.awaitEnd(ctx, s, d.bell, d.others[len(d.others)-1]))
	case i == 0:
		if err = d.deleteLast(ctx, dir.Version); err == nil {
			return true, m.left(nil, false)
		}
	default:
		if err = s.Delete(ctx, m.path, -1); err == nil {
			return true, m.left(d.others, d.blind)
		}
	}
	d.unsure = d.unsure || errors.Is(err, zkclient.ErrAmbiguous)
	return d.failed(err)
}

// deleteLast takes the own node away as that of the last member, and shuts the
// barrier behind it.
func (d *departure) deleteLast(ctx context.Context, version int32) error {
	m, s := d.m, d.m.s
	_, failed, err := s.Multi(ctx,
		append([]any{&zkclient.DeleteRequest{Path: m.path, Version: -1}}, m.b.shut(version)...)...)
	if errors.Is(err, zkclient.ErrNoNode) && failed == 2 {
		return s.Delete(ctx, m.path, -1)
	}
	return err
}

// failed acts on the error of a step, if there is one. It reports whether the
// departure is over.
func (d *departure) failed(err error) (over bool, _ error) {
	m, b := d.m, d.m.b
	switch {
	case err == nil, errors.Is(err, zkclient.ErrNoNode), errors.Is(err, zkclient.ErrBadVersion),
		errors.Is(err, zkclient.ErrAmbiguous):
		return false, nil
	case errors.Is(err, zkclient.ErrSessionOver):
		if d.unsure || b.c.IsClosing() {
			return true, m.left(d.others, d.blind) // gone either way
		}
		return true, m.thrownOut(&lock.LostError{Scope: b.name, Reason: lock.LossSession, Err: err})
	}
	// The caller gives up.
	b.c.Background(func() { b.abandon(m.s, m.path) })
	_ = m.left(d.others, d.blind)
	return true, err
}

// atTheDoor waits until no other call takes the node away. Where there is none,
// it is let in even when ctx has ended: the member leaves all the same.
func (m *BarrierMember) atTheDoor(ctx context.Context) error {
	select {
	case m.door <- struct{}{}:
		return nil
	default:
	}
	select {
	case m.door <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *BarrierMember) left(others []string, blind bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out, m.others, m.blind = true, others, blind
	return nil
}

func (m *BarrierMember) thrownOut(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	return err
}

// awaitEnd waits for a change of a member's node.
func (b *DoubleBarrier) awaitEnd(ctx context.Context, s *zkclient.Session, bell *zkclient.Bell, name string) error {
	node := b.path + "/" + name
	defer s.Unwatch(node, bell.Watcher())
	if _, _, err := s.Look(ctx, node, bell.Watcher()); err != nil {
		return err
	}
	return bell.Wait(ctx, s)
}

// waitForOthers waits, outside, until all are gone that were inside. It needs
// no session in particular.
func (m *BarrierMember) waitForOthers(ctx context.Context) error {
	b := m.b
	bell := zkclient.NewBell()
	_, err := zkclient.InSessions(ctx, b.c, func(s *zkclient.Session) (struct{}, error) {
		for {
			names, dir, err := barrierMembers(ctx, s, b.path)
			if err != nil {
				return struct{}{}, err
			}
			m.mu.Lock()
			if m.blind {
				m.others, m.blind = slices.Clone(names), false
			}
			// Others may come in for the next round meanwhile.
			m.others = slices.DeleteFunc(m.others, func(name string) bool { return !slices.Contains(names, name) })
			rest := slices.Clone(m.others)
			m.mu.Unlock()
			if len(names) == 0 {
				if err := b.shutBehind(ctx, s, dir.Version); err != nil {
					return struct{}{}, err
				}
			}
			if len(rest) == 0 {
				return struct{}{}, nil
			}
			if err := b.awaitEnd(ctx, s, bell, rest[0]); err != nil && !errors.Is(err, zkclient.ErrNoNode) {
				return struct{}{}, err
			}
		}
	})
	return err
}

// shut are the operations that take "ready" away, unless another round has been
// opened since the directory had that version.
func (b *DoubleBarrier) shut(version int32) []any {
	return []any{
		&zkclient.CheckVersionRequest{Path: b.path, Version: version},
		&zkclient.DeleteRequest{Path: b.ready, Version: -1},
	}
}

// shutBehind removes "ready" after a read of the directory that showed no
// member inside: the one that should have done it may have died.
func (b *DoubleBarrier) shutBehind(ctx context.Context, s *zkclient.Session, version int32) error {
	_, _, err := s.Multi(ctx, b.shut(version)...)
	if errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, zkclient.ErrBadVersion) {
		return nil
	}
	return err
}

// abandon removes a member's node that no call waits for any more, and closes
// the barrier behind the last.
func (b *DoubleBarrier) abandon(s *zkclient.Session, node string) {
	ctx := context.Background()
	if err := s.DeleteSurely(ctx, node); err == nil {
		b.shutBehindLast(ctx, s)
	}
}

// shutBehindLast closes the barrier if no member is inside.
func (b *DoubleBarrier) shutBehindLast(ctx context.Context, s *zkclient.Session) {
	for {
		names, dir, err := barrierMembers(ctx, s, b.path)
		if err == nil && len(names) == 0 {
			err = b.shutBehind(ctx, s, dir.Version)
		}
		if !errors.Is(err, zkclient.ErrAmbiguous) {
			return
		}
	}
}
