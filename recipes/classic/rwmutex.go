package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A RWMutex is a lock with two sides, readers together and writers alone, that
// programs in other languages can join: Curator's InterProcessReadWriteLock on
// the same path, together with other languages; see docs/recipes.md for what
// Python has to pass. First come, first served:
// a reader does not pass a writer that waits.
//
// Who holds the write side may take the read side too and then release the
// write side: no other writer comes between. The other way round is refused.
// Like a Mutex it holds no state of its own.
type RWMutex struct {
	l    *line
	opts MutexOptions
}

// RWMutex returns the lock in the directory at path, an absolute path below
// Config.Chroot. It returns *RequestError values, joined, for a path or options
// that can never work.
func NewRWMutex(c *zkclient.Client, path string, opts MutexOptions) (*RWMutex, error) {
	l, err := newLine(c, path, opts.Naming, opts.ACL, lockMarks)
	if opts.Persistent {
		err = errors.Join(err,
			&zkclient.RequestError{Field: "persistent", Reason: "a read/write lock cannot outlive its session; use a Mutex"})
	}
	if err := errors.Join(err, opts.complete(c)); err != nil {
		return nil, err
	}
	return &RWMutex{l: l, opts: opts}, nil
}

// Path returns the lock's directory.
func (m *RWMutex) Path() string { return m.l.label }

// AcquireWrite waits for the write side: until all earlier participants have
// left. With a context that carries the write side, see Grant.Context, it
// returns at once with another grant of the same hold; with one that carries
// the read side alone it fails with an *UpgradeError, because it would wait for
// itself. Its other errors are those of Mutex.Acquire.
func (m *RWMutex) AcquireWrite(ctx context.Context) (*Grant, error) {
	return m.write(ctx, m.bid(false))
}

// TryAcquireWrite takes the write side if there is no other participant, and
// else fails at once with a *NotAcquiredError.
func (m *RWMutex) TryAcquireWrite(ctx context.Context) (*Grant, error) {
	return m.write(ctx, m.bid(true))
}

// AcquireRead waits for the read side: until all writers have left who came
// before. With a context that carries the read side it returns at once with
// another grant of the same hold, with one that carries the write side it takes
// the read side beside that. Its errors are those of Mutex.Acquire.
func (m *RWMutex) AcquireRead(ctx context.Context) (*Grant, error) {
	return m.read(ctx, m.bid(false))
}

// TryAcquireRead takes the read side if no writer is there, and else fails at
// once with a *NotAcquiredError.
func (m *RWMutex) TryAcquireRead(ctx context.Context) (*Grant, error) {
	return m.read(ctx, m.bid(true))
}

// Participants lists who holds the lock and who waits for it, in order,
// whatever language they are written in.
func (m *RWMutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.l.participants(ctx)
}

// UpgradeError is returned to a reader that wants to write without having
// released: two that did so at once would wait for each other for ever.
type UpgradeError struct{ Scope string }

func (e *UpgradeError) Error() string {
	return fmt.Sprintf("lock %q not acquired: its read side is held by the same work, and it cannot be upgraded; "+
		"release the read side first, or acquire the write side from the start", e.Scope)
}

func (m *RWMutex) bid(try bool) *bid {
	timeout := m.opts.AcquireTimeout
	if try {
		timeout = new(time.Duration)
	}
	return m.opts.bid(m.l, timeout)
}

func (m *RWMutex) write(ctx context.Context, b *bid) (*Grant, error) {
	if g := m.l.carriedGrant(ctx, writes); g != nil {
		if again := g.h.again(); again != nil {
			return again, nil
		}
	}
	if m.l.carriedGrant(ctx, reads) != nil {
		return nil, &UpgradeError{Scope: m.l.label}
	}
	e := &entry{mark: curatorWrite, data: m.opts.Data}
	if m.l.naming == NamingKazoo {
		e.mark = kazooLock
	}
	b.stand(m.l, e, behindAll)
	return b.make(ctx)
}

func (m *RWMutex) read(ctx context.Context, b *bid) (*Grant, error) {
	if g := m.l.carriedGrant(ctx, reads); g != nil {
		if again := g.h.again(); again != nil {
			return again, nil
		}
	}
	e := &entry{mark: curatorRead, data: m.opts.Data}
	if m.l.naming == NamingKazoo {
		e.mark = kazooRead
	}
	if g := m.l.carriedGrant(ctx, writes); g != nil {
		b.in = func(ctx context.Context, s *zkclient.Session) (*Grant, error) {
			return g.h.beside(ctx, s, e, b.notices)
		}
	} else {
		b.stand(m.l, e, behindWriters)
	}
	return b.make(ctx)
}

func writes(h *hold) bool { return !h.mark.shared }
func reads(h *hold) bool  { return h.mark.shared }

// beside makes a reader's node with the sequence number of the writer: it
// stands where that one stands, in front of all who came later. The writer's
// node is part of the transaction, so that no other can have come between.
func (h *hold) beside(ctx context.Context, s *zkclient.Session, e *entry, n *notices) (*Grant, error) {
	l := h.l
	t, _ := parseTicket(h.name, l.marks)
	// It stands where the writer does: writers that wait by now come after it,
	// and its own node's zxid would be greater than theirs.
	token, err := h.readToken(ctx)
	if err != nil {
		return nil, err
	}
	e.token = token
	for {
		if s != h.session() || !h.held() {
			return nil, h.gone()
		}
		e.guid = newUUID()
		node := l.path + "/" + l.prefix(e.guid, e.mark) + t.number
		_, _, err := s.Multi(ctx,
			&zkclient.CheckVersionRequest{Path: h.path, Version: -1},
			&zkclient.CreateRequest{Path: node, Data: e.data, Acl: l.access(node), Flags: zkclient.FlagEphemeral})
		switch {
		case err == nil:
			return l.newStand(s, node, e).hold(n)
		case errors.Is(err, zkclient.ErrNoNode):
			h.lose(&lock.LostError{Scope: l.label, Reason: lock.LossDeleted})
			return nil, h.gone()
		case errors.Is(err, zkclient.ErrAmbiguous):
			found, err := l.find(ctx, s, e.guid, false)
			switch {
			case err != nil:
				return nil, l.abandon(s, e, err)
			case found != "":
				return l.newStand(s, found, e).hold(n)
			}
		case errors.Is(err, zkclient.ErrSessionOver):
			return nil, h.gone()
		default:
			return nil, err
		}
	}
}

// gone says why the write side, which was to be kept, is not there any more.
func (h *hold) gone() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.state {
	case stateLost:
		return h.loss
	case stateReleased:
		return lock.ErrReleased
	case stateHeld:
	}
	return &lock.LostError{Scope: h.l.label, Token: h.token, Reason: lock.LossSession}
}
