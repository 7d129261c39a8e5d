package recipes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// heir is the waiter that a releasing holder grants, with all that the hand-over
// writes: it was read before, so that a release need not.
type heir struct {
	guid, path string
	data       []byte // as granted
	version    int32
	seen       instant // when the list that shows it was asked for
}

// freshFor is how long an heir may be granted without another look: somebody
// more important may have come since, who then waits for the heir's release.
const freshFor = 5 * time.Millisecond

func (h *heir) fresh(now instant) bool { return h != nil && now.sub(h.seen) <= freshFor }

// errAgain: what was read is no longer so.
var errAgain = errors.New("decide again")

// successor finds out whom the holder would grant now: the first waiter. Its
// node is not read again if it is the one that is known. successor reports
// whether there is anybody at all, and zk.ErrNoNode when the holder itself is
// gone.
func (g *Grant) successor(ctx context.Context, known *heir) (next *heir, others bool, err error) {
	seen := g.s.clock.now()
	children, me, err := g.lock.queueAround(ctx, g.s, g.guid)
	if err != nil {
		return nil, false, err
	}
	waiters := slices.Delete(children, me, me+1)
	if len(waiters) == 0 {
		return nil, false, nil
	}
	next, err = g.lock.inherit(ctx, g.s, waiters[0], known, seen)
	return next, true, err
}

// foresee finds out whom this request will grant when it has held the lock: the
// one behind it. It reports whether the request still stands behind others.
func (p *place) foresee(ctx context.Context) (behind bool, err error) {
	seen := p.s.clock.now()
	children, me, err := p.a.l.queueAround(ctx, p.s, p.guid)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		p.stale.Store(true) // the look at the own node tells
		return false, errAgain
	case err != nil:
		return false, err
	case me == 0:
		return false, nil
	case me == len(children)-1:
		return true, nil
	case children[0].level() != p.a.req.Priority:
		// Were the lock given to this request past a more important one, it
		// could not tell that one from a holder that is gone by then.
		return true, nil
	}
	p.heir, err = p.a.l.inherit(ctx, p.s, children[me+1], p.heir, seen)
	if errors.Is(err, errAgain) {
		err = nil // it will be looked for when it is needed
	}
	return true, err
}

// queueAround lists the contenders in order, and tells which of them is guid;
// zk.ErrNoNode: none.
func (l *PriorityLock) queueAround(ctx context.Context, s *session, guid string) (children []child, me int, err error) {
	names, _, err := s.list(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
	children, _ = parseChildren(names)
	me = slices.IndexFunc(children, func(c child) bool { return c.guid == guid })
	if me < 0 {
		return nil, 0, zk.ErrNoNode
	}
	l.c.hints.update(l.path, func(h *hint) {
		h.waiting, h.waitingAt = len(children)-1, time.Now()
		h.lowest = children[len(children)-1].level() // at most: of the holder itself, too
	})
	return children, me, nil
}

// inherit makes an heir of a waiter, seen in a list that was asked for then. It
// returns errAgain when the waiter is gone, and no heir when this version does
// not understand it.
func (l *PriorityLock) inherit(ctx context.Context, s *session, c child, known *heir, seen instant) (*heir, error) {
	if known != nil && known.guid == c.guid { // its version says whether it was written to
		again := *known
		again.seen = seen
		return &again, nil
	}
	path := l.path + "/" + c.name
	data, stat, err := s.get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, errAgain
	} else if err != nil {
		return nil, err
	}
	rec, err := decodeContender(data)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // nobody that this version understands: no heir
	}
	rec.Granted = true
	return &heir{guid: c.guid, path: path, data: rec.encode(), version: stat.Version, seen: seen}, nil
}
