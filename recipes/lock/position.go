package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// glance lists who is there. It takes the lock if no other request is, and
// returns how long to rest while there can be nothing to do: another request
// stands before this one, and there is none that this one outranks.
func (p *place) glance(ctx context.Context) (*Grant, time.Duration, error) {
	there, err := contendersAt(ctx, p.s, p.a.l.path)
	if err != nil {
		return nil, 0, err
	}
	p.seen, p.front = true, ""
	children, stat := there.children, there.stat
	if err := p.admitted(children); err != nil {
		return nil, 0, err
	}
	all := len(children)
	children = p.a.l.cache.strangers.drop(p.a.l.path, children, p.guid)
	me := slices.IndexFunc(children, func(c child) bool { return c.guid == p.guid })
	below := slices.ContainsFunc(children, func(c child) bool { return p.a.req.Priority.Outranks(c.level()) })
	// Of several shared holders that leave at once, it may be that none hands
	// over.
	several := slices.ContainsFunc(children, func(c child) bool { return c.mode == priority.Shared })
	switch {
	case len(children) < all:
		return nil, 0, nil // G tells whether they are strangers still
	case me == 0 && len(children) == 1 && int(stat.DataLength) > soleHolderLength:
		return nil, 0, nil // there may be news for those who were evicted: they have to be read
	case me == 0 && len(children) == 1 && !p.granted.Load():
		// The requests that G names at this version, which is of the same snapshot,
		// are dead, or are this request itself.
		grant, err := p.grantSelf(ctx, stat, lockRecord{}, children, nil)
		return grant, 0, err
	case me <= 0 || below || several:
		return nil, 0, nil
	case me == 1:
		// The one in front may leave without having seen this request.
		front := p.a.l.path + "/" + children[0].name
		p.watchOnly(front)
		data, stat, err := p.s.Look(ctx, front, &p.others)
		if why := whyStranger(data, stat, err); why != "" {
			return nil, 0, nil // a closer look tells whether it holds the lock
		} else if errors.Is(err, zkclient.ErrNoNode) {
			return nil, 0, errAgain
		} else if err != nil {
			return nil, 0, err
		}
		p.front = front
		return nil, restFor(me), nil
	}
	return nil, max(restFor(me), p.a.l.cache.hints.get(p.a.l.path).patience()), nil
}

// weigh is steps 2 to 5 of the protocol.
//
//nolint:cyclop,funlen // the whole look at the queue stands in one place, as in the model
func (p *place) weigh(ctx context.Context) (*Grant, time.Duration, error) {
	l, s := p.a.l, p.s
	p.follows, p.front = "", ""
	// G before the children, or both of one version: a list that is older than G
	// could show a holder as alive that G no longer knows.
	at, there, together := p.report()
	// planted-bug list-before-version: together = false
	// planted-bug list-before-version: there, _ = contendersAt(ctx, s, l.path)
	if !together {
		var err error
		if at.Data, at.Stat, err = s.Get(ctx, l.path); err != nil {
			return nil, 0, err
		}
	}
	stat := at.Stat
	g, err := l.grants(ctx, s, at.Data, stat.Version)
	if err != nil {
		return nil, 0, err
	}
	p.settleDelayed(g)
	if !together { // planted-bug list-before-version: if there.stat == nil {
		if there, err = contendersAt(ctx, s, l.path); err != nil {
			return nil, 0, err
		}
	}
	if len(g.Delays) > 0 && there.stat.Version != stat.Version {
		return nil, 0, errAgain // a clean end meanwhile would look like an unclean one
	}
	if err := p.admitted(there.children); err != nil {
		return nil, 0, err
	}
	children, foreign := there.children, there.foreign
	children = l.cache.strangers.drop(l.path, children, append(slices.Clone(g.Holders), p.guid)...)
	if len(foreign) > 0 && !p.odd {
		p.odd = true
		l.c.Log().Warn("ignoring nodes that are no requests", "lock", l.path, "names", foreign)
	}
	var alive []child
	var first, pred child // of the waiters; right in front of this one
	waiting, pos := 0, -1
	holding := g.named()
	for _, c := range children {
		holds := holding(c)
		switch {
		case c.guid == p.guid && holds:
			grant, err := p.handedOver(ctx, 0)
			return grant, 0, err
		case holds:
			alive = append(alive, c)
			continue
		case c.guid == p.guid:
			pos = waiting
		case pos < 0:
			pred = c
		}
		if waiting == 0 {
			first = c
		}
		waiting++
	}
	// planted-bug dead-waiter-goes-on: if pos < 0 { pos, pred = p.formerPosition(children, holding) }
	if pos < 0 {
		if p.gone.Load() || s.IsOver() {
			return nil, 0, p.evicted(ctx)
		}
		p.stale.Store(true) // the look at the own node tells
		return nil, 0, errAgain
	}
	p.a.ahead = pos
	if pos == 0 && !p.knocked && slices.ContainsFunc(alive, p.overtook) {
		p.beaten = true
		return nil, 0, errAgain
	}
	if pos > 0 {
		return nil, zkclient.SafetyPoll, p.follow(ctx, first, pred, pos, alive)
	}
	p.first = true
	return p.lead(ctx, stat, g, children, alive)
}

// follow is step 4: it watches the waiter right in front.
func (p *place) follow(ctx context.Context, first, pred child, pos int, alive []child) error {
	l := p.a.l
	if p.first || len(p.asks) > 0 {
		p.first = false
		p.withdraw(ctx)
		if by, err := p.read(ctx, first); err == nil {
			p.a.notices.Send(Displaced{By: by})
		}
	}
	p.watchOnly(l.path + "/" + pred.name)
	data, stat, err := p.s.Look(ctx, l.path+"/"+pred.name, &p.others)
	if why := whyStranger(data, stat, err); why != "" {
		l.pass(pred.name, why)
		return errAgain
	}
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return errAgain
	case err != nil:
		return err
	}
	if rec, err := decodeContender(data); err == nil && rec.Granted && p.promoted != pred.guid {
		p.promoted = pred.guid
		return errAgain // it holds by now, so this request may be the first; else a foreign client has written that there
	}
	p.follows = l.path + "/" + pred.name
	p.front = p.follows
	p.tellQueued(ctx, pos+1, alive)
	return nil
}

// isNext reports whether the predecessor is now the holder, and has the lock
// alone. Then this request is the next, or a more important one is: during that
// hold there is nothing to do before the holder goes or its node is written,
// and no list is needed, which is long where there are many requests.
func (p *place) isNext(ctx context.Context, front string) (bool, error) {
	data, stat, err := p.s.Look(ctx, front, &p.others)
	switch {
	case whyStranger(data, stat, err) != "", errors.Is(err, zkclient.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	}
	rec, err := decodeContender(data)
	return err == nil && rec.Granted && rec.Mode == priority.Exclusive && rec.Hold == "" && len(rec.Preempt) == 0, nil
}

// undisturbed reports whether the own node and that of the one right in front are
// as they were. For one that stands behind another there is no more to know, and a
// look at all who are there is long where they are many.
func (p *place) undisturbed(ctx context.Context) (bool, error) {
	_, own, err := p.s.Get(ctx, p.path)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	case own.Version != p.version:
		p.stale.Store(true)
		return false, errAgain
	}
	data, stat, err := p.s.Get(ctx, p.follows)
	switch {
	case whyStranger(data, stat, err) != "", errors.Is(err, zkclient.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	}
	rec, err := decodeContender(data)
	return err == nil && !rec.Granted, nil
}

// overtook reports whether a holder that this request need not let pass joined
// later.
func (p *place) overtook(holder child) bool {
	return !p.a.req.Mode.Admits(holder.mode) && !holder.level().Outranks(p.a.req.Priority) &&
		holder.place.Sequence-p.sequence() > 0
}

// knock raises the version of the lock node, and changes nothing else. A client
// that takes the lock again and again by a remembered version then has to list,
// and finds this request.
func (p *place) knock(ctx context.Context) error {
	const tries = 16 // each fails if the lock is taken between its read and its write
	for range tries {
		data, stat, err := p.s.Get(ctx, p.a.l.path)
		if err == nil {
			// With its own node, so that the lock is the one that was read.
			_, _, err = p.s.Multi(ctx,
				&zkclient.SetDataRequest{Path: p.a.l.path, Data: again(data, stat), Version: stat.Version},
				&zkclient.CheckVersionRequest{Path: p.path, Version: -1})
		}
		switch {
		case errors.Is(err, zkclient.ErrNoNode): // its own is gone
			p.stale.Store(true) // the look at it tells why
			return errAgain
		case !errors.Is(err, zkclient.ErrBadVersion):
			p.knocked = err == nil
			return err
		}
		if p.granted.Load() {
			return nil
		}
	}
	return nil
}
