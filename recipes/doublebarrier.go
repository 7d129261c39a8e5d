package recipes

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A DoubleBarrier lets a number of members begin together and end together:
// Enter waits until all are there, Leave until all have left. It is Curator's
// DistributedDoubleBarrier, and processes of both may be members at one path.
// It has no state of its own: each call of Enter is another member.
//
// Each member is an ephemeral node below the path; the node "ready" there says
// that all have come, and is removed by the last that leaves. Once the barrier
// is open, whoever comes late is let in, too, as with Curator.
// When all members die inside, "ready" stays, and the barrier is open for the next: give each
// round of the work a path of its own.
type DoubleBarrier struct {
	c       *Client
	name    string // the path as its user writes it
	path    string
	ready   string
	members int
}

// ready is the node that says that all members are there.
const readyNode = "ready"

// DoubleBarrier returns the double barrier for so many members at an absolute
// path, below Config.Chroot. Everybody has to name the same number. It returns
// *RequestError values, joined, for a path that ZooKeeper would refuse and for a
// number below 1.
func (c *Client) DoubleBarrier(path string, members int) (*DoubleBarrier, error) {
	full, err := c.absolute(path)
	if members < 1 {
		err = errors.Join(err, &RequestError{Field: "members", Reason: fmt.Sprintf("%d is not positive; write how many take part", members)})
	}
	if err != nil {
		return nil, err
	}
	return &DoubleBarrier{c: c, name: path, path: full, ready: full + "/" + readyNode, members: members}, nil
}

// Path returns where the barrier is.
func (b *DoubleBarrier) Path() string { return b.name }

// A BarrierMember is inside a DoubleBarrier until it leaves, or until its
// session ends.
type BarrierMember struct {
	b    *DoubleBarrier
	s    *session
	path string

	mu     sync.Mutex
	out    bool     // its node is gone, by its own doing
	others []string // who was inside when it left, and has to leave yet
	blind  bool     // it could not see who
	err    error    // why it was thrown out
}

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
	return leaving(ctx, b.c, b.name, func() (*BarrierMember, error) {
		return inSessions(ctx, b.c, func(s *session) (*BarrierMember, error) { return b.enter(ctx, s) })
	}, func(m *BarrierMember) { m.s.discard(m.path) })
}

// enter is one member's coming in, within one session.
func (b *DoubleBarrier) enter(ctx context.Context, s *session) (*BarrierMember, error) {
	m := &BarrierMember{b: b, s: s, path: b.path + "/" + newGUID()}
	err := m.enter(ctx)
	if err != nil && ctx.Err() != nil && b.isOpen(ctx, s) {
		err = nil // those who saw it may have gone in with it
	}
	switch {
	case err == nil:
		return m, nil
	case !errors.Is(err, errSessionOver):
		s.discard(m.path)
	}
	return nil, err
}

// isOpen looks, also when ctx has ended.
func (b *DoubleBarrier) isOpen(ctx context.Context, s *session) bool {
	_, _, err := s.get(context.WithoutCancel(ctx), b.ready)
	return err == nil
}

func (m *BarrierMember) enter(ctx context.Context) error {
	b, s := m.b, m.s
	bell := newBell()
	defer s.unwatch(b.ready, &bell.watch)
	defer s.unwatch(m.path, &bell.watch)
	made := false
	for {
		open, _, err := s.lookFor(ctx, b.ready, &bell.watch)
		if err == nil && !made {
			err = m.create(ctx)
			made = err == nil
		}
		if err == nil && !open {
			open, err = m.gather(ctx)
		}
		if err == nil && !open {
			// Its own node's end has to be heard of, too.
			if _, _, err = s.look(ctx, m.path, &bell.watch); errors.Is(err, zk.ErrNoNode) {
				err = &EvictedError{Scope: b.name}
			}
		}
		switch {
		case errors.Is(err, errAmbiguous):
			continue // it has caught up since
		case err != nil:
			return err
		case open:
			return nil
		}
		if err := bell.wait(ctx, s); err != nil {
			return err
		}
	}
}

// create makes the member's node. Its name is its own: one that is there
// already was made by a request whose reply was lost.
func (m *BarrierMember) create(ctx context.Context) error {
	for {
		_, err := m.s.create(ctx, m.path, nil, zk.FlagEphemeral)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode):
			if err := m.s.ensureParent(ctx, m.path); err != nil {
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
	for {
		names, err := m.s.barrierMembers(ctx, m.b.path)
		if err != nil || len(names) < m.b.members {
			return false, err
		}
		ops := make([]any, 0, len(names)+1)
		for _, name := range names {
			ops = append(ops, &zk.CheckVersionRequest{Path: m.b.path + "/" + name, Version: -1})
		}
		ops = append(ops, &zk.CreateRequest{Path: m.b.ready, Acl: m.s.c.acl})
		_, _, err = m.s.multi(ctx, ops...)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return true, nil
		case !errors.Is(err, zk.ErrNoNode):
			return false, err
		}
	}
}

// barrierMembers lists who is inside or comes in, in the order that all agree
// on.
func (s *session) barrierMembers(ctx context.Context, path string) ([]string, error) {
	names, _, err := s.list(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == readyNode })
	slices.Sort(names)
	return names, err
}

// Leave waits until all members that were inside have left. It returns
//
//   - *LostError: the session ended, or the member's node was deleted by
//     somebody else, before it left: the others have not waited for it
//   - ErrClosed: the client is closed
//   - else *AccessError or the cause of ctx: the member has left all the same, or will
//     have with its session. Leave may be called again, and waits on for the others.
//
// A member that has left is out: then Leave returns nil.
func (m *BarrierMember) Leave(ctx context.Context) error {
	_, err := leaving(ctx, m.b.c, m.b.name, func() (struct{}, error) {
		err := m.depart(ctx)
		if err == nil {
			err = m.waitForOthers(ctx)
		}
		return struct{}{}, err
	}, nil)
	return err
}

// depart takes the member's own node away when it is its turn: the lowest
// member goes last, the others when they have seen who is the lowest.
func (m *BarrierMember) depart(ctx context.Context) error {
	m.mu.Lock()
	out, err := m.out, m.err
	m.mu.Unlock()
	if out || err != nil {
		return err
	}
	b, s := m.b, m.s
	bell := newBell()
	own := path.Base(m.path)
	unsure := false // an earlier try may have taken it away
	blind := true
	var others []string
	for {
		deletes := true
		names, err := s.barrierMembers(ctx, b.path)
		i := slices.Index(names, own)
		if err == nil {
			blind = false
			others = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == own })
		}
		switch {
		case errors.Is(err, errAmbiguous):
			continue
		case err != nil:
			deletes = false
		case i < 0 && !unsure:
			return m.thrownOut(&LostError{Scope: b.name, Reason: LossDeleted})
		case i < 0:
			return m.left(others, blind)
		case i == 0 && len(others) > 0:
			deletes = false
			err = b.awaitEnd(ctx, s, bell, others[len(others)-1])
		case i == 0:
			_, failed, gone := s.multi(ctx, &zk.DeleteRequest{Path: m.path, Version: -1}, &zk.DeleteRequest{Path: b.ready, Version: -1})
			if errors.Is(gone, zk.ErrNoNode) && failed == 1 {
				gone = s.delete(ctx, m.path, -1)
			}
			if err = gone; err == nil {
				return m.left(nil, false)
			}
		default:
			if err = s.delete(ctx, m.path, -1); err == nil {
				return m.left(others, blind)
			}
		}
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
		case errors.Is(err, errAmbiguous):
			unsure = unsure || deletes
		case errors.Is(err, errSessionOver):
			if unsure || b.c.isClosing() {
				return m.left(others, blind) // gone either way
			}
			return m.thrownOut(&LostError{Scope: b.name, Reason: LossSession, Err: err})
		default: // the caller gives up
			s.discard(m.path)
			_ = m.left(others, blind)
			return err
		}
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
func (b *DoubleBarrier) awaitEnd(ctx context.Context, s *session, bell *bell, name string) error {
	node := b.path + "/" + name
	defer s.unwatch(node, &bell.watch)
	if _, _, err := s.look(ctx, node, &bell.watch); err != nil {
		return err
	}
	return bell.wait(ctx, s)
}

// waitForOthers waits, outside, until all are gone that were inside. It needs
// no session in particular.
func (m *BarrierMember) waitForOthers(ctx context.Context) error {
	b := m.b
	bell := newBell()
	_, err := inSessions(ctx, b.c, func(s *session) (struct{}, error) {
		for {
			names, err := s.barrierMembers(ctx, b.path)
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
				// Whoever should have removed it may have died.
				if err := s.delete(ctx, b.ready, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
					return struct{}{}, err
				}
			}
			if len(rest) == 0 {
				return struct{}{}, nil
			}
			if err := b.awaitEnd(ctx, s, bell, rest[0]); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return struct{}{}, err
			}
		}
	})
	return err
}
