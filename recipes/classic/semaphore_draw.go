package classic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// curatorLease marks the permits of Curator's semaphore.
var curatorLease = mark{text: "lease-"}

// drawBytes is how large the one transaction of a draw may get: half of what a
// server takes by default (jute.maxbuffer), which hangs up on more.
const drawBytes = 512 << 10

// most returns how many permits fit into one transaction.
func (m *Semaphore) most() int {
	const rest = 256 // a permit's name, ACL and headers
	return drawBytes / (len(m.leases.path) + len(m.o.ID) + rest)
}

// A draw is one call that wants permits.
type draw struct {
	m       *Semaphore
	b       *bid
	n       int
	pool    pool // as last seen
	permits []*Grant
}

// acquire takes n permits, all or none.
func (m *Semaphore) acquire(ctx context.Context, n int, timeout *time.Duration) ([]*Grant, error) {
	switch {
	case n < 1:
		return nil,
			&zkclient.RequestError{Field: "permits", Reason: fmt.Sprintf("%d is not positive; write how many are wanted", n)}
	case n > m.most():
		return nil, &zkclient.RequestError{
			Field: "permits", Reason: fmt.Sprintf("%d do not fit into one request; write %d at most", n, m.most()),
		}
	case n > m.o.Limit && m.o.LimitPath == "":
		return nil, &zkclient.RequestError{
			Field: "permits", Reason: fmt.Sprintf("%d are more than there are; write %d at most", n, m.o.Limit),
		}
	}
	d := &draw{m: m, n: n, pool: pool{limit: m.o.Limit}}
	d.b = &bid{c: m.c, label: m.name, timeout: timeout, notices: newNotices(m.o.Notify), in: d.in, start: time.Now()}
	limited, cancel := ctx, context.CancelFunc(func() {})
	switch {
	case d.b.try():
		limited, cancel = context.WithTimeoutCause(ctx, m.c.Config().ConnectTimeout, call.ErrTrySlow)
	case timeout != nil:
		limited, cancel = context.WithTimeoutCause(ctx, *timeout, call.ErrTimeout)
	}
	defer cancel()
	permits, err := zkclient.Leaving(limited, m.c, m.name, func() ([]*Grant, error) {
		_, err := d.b.run(limited)
		if refused, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
			err = &NoPermitsError{Path: m.name, Wanted: n, Limit: d.pool.limit, Left: d.pool.left(), Err: refused}
		}
		return d.permits, err
	}, func(late []*Grant) { _ = m.Release(context.Background(), late...) })
	switch {
	case err == nil:
		return permits, nil
	case errors.Is(err, call.ErrTrySlow):
		err = m.c.Unavailable()
	case errors.Is(err, call.ErrTimeout): // and no answer even now
		err = &NoPermitsError{Path: m.name, Wanted: n, Limit: m.o.Limit, Err: &lock.NotAcquiredError{
			Scope: m.name, Waited: time.Since(d.b.start), Err: m.c.Unavailable(),
		}}
	}
	d.b.notices.Mute()
	return nil, err
}

// in takes the permits within one session.
func (d *draw) in(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	m, b := d.m, d.b
	if b.try() { // what is refused leaves no trace
		if err := d.look(ctx, s, nil); err != nil {
			return nil, err
		}
	}
	for {
		p, err := m.locks.join(ctx, s, &entry{mark: m.locks.marks[0], data: []byte(m.o.ID)})
		if err != nil {
			return nil, err
		}
		err = p.wait(ctx, behindAll, !b.try(), b.tellQueued(p))
		b.note(p)
		if err == nil {
			b.ahead = 0
			err = d.lead(ctx, p)
		}
		switch {
		case err == nil:
			return d.permits[0], nil
		case errors.Is(err, errEvicted):
			b.notices.Send(lock.Requeued{Cause: err})
			continue
		case !s.IsOver():
			p.leave()
		}
		return nil, err
	}
}

// look counts what is free until it has an answer. It returns errInLine when
// that is too little.
func (d *draw) look(ctx context.Context, s *zkclient.Session, w *zkclient.Watcher) error {
	for {
		pool, err := d.m.look(ctx, s, w)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case err != nil:
			return err
		}
		d.pool = pool
		if pool.left() < d.n {
			return errInLine
		}
		return nil
	}
}

// lead is what the first in line does: it waits until there are n permits.
func (d *draw) lead(ctx context.Context, p *stand) error {
	m, b, s := d.m, d.b, p.s
	bell := zkclient.NewBell()
	defer m.unwatch(s, p, bell)
	var w *zkclient.Watcher // at first there is no need of watches
	for {
		err := d.look(ctx, s, w)
		if err == nil {
			d.permits, err = m.take(ctx, p, d.pool, d.n)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, errAgain):
			continue
		case !errors.Is(err, errInLine) || b.try():
			return err
		case w == nil:
			w = bell.Watcher()
			continue
		}
		// The end of the own node has to be heard of as well: the next waiter
		// would take itself for first.
		_, _, err = s.Look(ctx, p.path, w)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			return errEvicted
		case err != nil:
			return err
		}
		if !b.queued {
			b.queued = true
			b.notices.Send(lock.Queued{Position: 1})
		}
		if err := bell.Wait(ctx, s); err != nil {
			return err
		}
	}
}

// unwatch ends the interest in events. At the server the watch on the permits, one
// for each client at most, may stand until the next permit is given or taken: the
// library cannot take it back, and there is nothing to write that would not concern others.
func (m *Semaphore) unwatch(s *zkclient.Session, p *stand, bell *zkclient.Bell) {
	s.UnwatchChildren(m.leases.path, bell.Watcher())
	s.Unwatch(m.count, bell.Watcher())
	s.Unwatch(p.path, bell.Watcher())
}

// take turns the place of the first in line into permits, in one transaction:
// no other comes between, and no caller waits for two things.
func (m *Semaphore) take(ctx context.Context, p *stand, pool pool, n int) ([]*Grant, error) {
	s := p.s
	ops := []any{&zkclient.DeleteRequest{Path: p.path, Version: -1}}
	if pool.version != nil {
		ops = append(ops, pool.version)
	}
	first := len(ops)
	for range n {
		guid := newUUID()
		node, flags := m.leases.path+"/"+m.leases.prefix(guid, curatorLease),
			int32(zkclient.FlagEphemeral|zkclient.FlagSequence)
		if m.o.Naming == NamingKazoo {
			node, flags = m.leases.path+"/"+m.leases.prefix(guid, mark{}), zkclient.FlagEphemeral
		}
		ops = append(ops, &zkclient.CreateRequest{Path: node, Data: []byte(m.o.ID), Acl: m.c.ACL(), Flags: flags})
	}
	r, failed, err := s.Multi(ctx, ops...)
	switch {
	case err == nil:
		nodes := make([]string, 0, n)
		for _, created := range r[first:] {
			nodes = append(nodes, created.String)
		}
		return m.hold(s, nodes)
	case errors.Is(err, zkclient.ErrNoNode) && failed == 0:
		return nil, errEvicted
	case errors.Is(err, zkclient.ErrNoNode):
		if err := m.leases.ensure(ctx, s, m.o.Naming == NamingCurator); err != nil {
			return nil, err
		}
		return nil, errAgain
	case errors.Is(err, zkclient.ErrBadVersion):
		return nil, errAgain // the limit was changed
	case errors.Is(err, zkclient.ErrAmbiguous):
		nodes, err := m.drawn(s, ops[first:])
		switch {
		case err != nil:
			return nil, err
		case len(nodes) < n: // none, or one was deleted meanwhile
			for _, node := range nodes {
				s.Discard(node)
			}
			return nil, errAgain // if its place is gone, too, that will be found out
		}
		return m.hold(s, nodes)
	}
	return nil, err
}

// drawn looks for the permits of a transaction whose reply was lost. The session
// has caught up since: all of them are there, or none.
func (m *Semaphore) drawn(s *zkclient.Session, creates []any) ([]string, error) {
	for {
		names, _, err := s.List(context.Background(), m.leases.path)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			return nil, nil
		case err != nil:
			return nil, err
		}
		var nodes []string
		for _, op := range creates {
			prefix := strings.TrimPrefix(op.(*zkclient.CreateRequest).Path, m.leases.path+"/")
			for _, name := range names {
				if strings.HasPrefix(name, prefix) {
					nodes = append(nodes, m.leases.path+"/"+name)
				}
			}
		}
		return nodes, nil
	}
}

// hold makes grants of permits, all or none.
func (m *Semaphore) hold(s *zkclient.Session, nodes []string) ([]*Grant, error) {
	permits := make([]*Grant, 0, len(nodes))
	for _, node := range nodes {
		p := m.leases.newStand(s, node, &entry{})
		p.name = strings.TrimPrefix(node, m.c.Config().Chroot+m.name+"/") // people know the semaphore, not the directory
		// Each has notices of its own: nothing follows a loss.
		g, err := p.hold(newNotices(m.o.Notify))
		if err != nil {
			for _, held := range permits {
				_ = held.Release(m.c.Closing())
			}
			for _, node := range nodes[len(permits):] {
				s.Discard(node)
			}
			return nil, err
		}
		permits = append(permits, g)
	}
	return permits, nil
}
