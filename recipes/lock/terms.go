package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// errMoved: the request stands at another place of the queue, see place.moved.
var errMoved = errors.New("the request stands at another place")

// finalError is the caller's own word that a request ends, whatever else the
// error says: it may come from this package, and be one that is tried again.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// isFinal reports whether err is such a word.
func isFinal(err error) bool {
	_, ok := errors.AsType[*finalError](err)
	return ok
}

// A revision is what a request is to become.
type revision struct {
	req  Request
	told Revision
}

// under returns the request as it is revised.
func (r Request) under(v Revision) Request {
	mode, acquire := r.Mode, r.AcquireTimeout
	r.Terms, r.Override = v.Terms, v.Override
	r.Mode, r.AcquireTimeout = mode, acquire
	return r
}

// sameTerms reports whether both ask for the same, as far as a Revision can tell.
func (r *Request) sameTerms(o *Request) bool {
	return r.Equal(o.Terms) && sameMark(r.Override, o.Override)
}

// consult finds out what is asked for by now, and sets a.next if that is
// something else. It costs nothing while it cannot have changed. An error ends
// the request.
func (a *attempt) consult() error {
	if a.req.Revise == nil {
		return nil
	}
	if a.consulted {
		select {
		case <-a.changed:
		default:
			return nil
		}
	}
	first := !a.made
	a.made, a.consulted = true, true
	asked := a.ask()
	if asked.Withdraw != nil {
		return &finalError{fmt.Errorf("lock %q not acquired: the request was withdrawn: %w", a.l.scope, asked.Withdraw)}
	}
	next := a.req.under(asked)
	if err := next.complete(a.l.c); err != nil {
		return &finalError{fmt.Errorf("lock %q not acquired: the terms of the request can never work: %w", a.l.scope, err)}
	}
	a.next = nil
	switch {
	case next.sameTerms(&a.req):
	case first: // what it is made with
		a.req = next
	default:
		a.next = &revision{next, asked}
	}
	return nil
}

// ask asks for the terms of now. A channel that is closed when it comes is one
// that was closed just then, or one that its owner has not renewed: that must
// not make the request go round in circles.
func (a *attempt) ask() Revision {
	var asked Revision
	for range 2 {
		asked, a.changed = a.req.Revise()
		if !a.outdated() {
			return asked
		}
	}
	soon := make(chan struct{})
	time.AfterFunc(termsPause, func() { close(soon) })
	a.changed = soon
	return asked
}

// termsPause is after what time terms are asked for again that always may have
// changed.
const termsPause = 10 * time.Millisecond

// outdated reports whether the terms may have changed since they were asked
// for. It is asked before what cannot be taken back: the reads before that may
// have waited for a connection.
func (a *attempt) outdated() bool {
	select {
	case <-a.changed:
		return true
	default:
		return false
	}
}

// renew is for a request that has no node: it is made under the terms of now.
func (a *attempt) renew(ctx context.Context) error {
	for {
		if err := a.consult(); err != nil {
			return err
		}
		if a.next != nil {
			a.revised(a.next)
		}
		if err := a.vouch(ctx, &a.req); !errors.Is(err, errAgain) {
			return err
		}
	}
}

// revised: the request has changed its terms by now.
func (a *attempt) revised(r *revision) {
	a.req = r.req
	a.authorized = nil // that was the word for another request
	if a.next == r {
		a.next = nil
	}
	a.notices.Send(Revised{r.told})
}

// revise makes the waiting request what is asked for by now. It is called when
// the node was read and is not granted. It returns errMoved when the request has
// another place, and errAgain when it may have been granted instead: a grant is
// made under the terms that it finds.
func (p *place) revise(ctx context.Context) error {
	a := p.a
	if err := a.consult(); err != nil {
		return err
	}
	if a.next == nil {
		return nil
	}
	if err := a.vouch(ctx, &a.next.req); err != nil {
		return err
	}
	if a.next.req.Priority != a.req.Priority {
		return p.move(ctx, a.next)
	}
	return p.rewrite(ctx, a.next)
}

// rewrite changes what the own node asks for, in its place (T13).
func (p *place) rewrite(ctx context.Context, r *revision) error {
	rec := newRecord(p.a.l.c, r.req)
	p.rewritten.Store(true) // before its event can come
	stat, err := p.s.Set(ctx, p.path, rec.encode(), p.version)
	switch {
	case err == nil:
		p.version, p.rec = stat.Version, rec
		p.a.revised(r)
		return nil
	case errors.Is(err, zkclient.ErrAmbiguous):
		p.unsettled = r // the node tells
		p.stale.Store(true)
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		p.stale.Store(true)
		return errAgain
	}
	return err
}

// settleRewrite finds out, from the own node, what became of a change whose
// reply was lost.
func (p *place) settleRewrite(found *contenderRecord) {
	r := p.unsettled
	if r == nil {
		return
	}
	p.unsettled = nil
	if rec := newRecord(p.a.l.c, r.req); found.sameTerms(&rec) {
		p.rec = rec
		p.a.revised(r)
	}
}

// sameTerms is Request.sameTerms for what is in two nodes.
func (r *contenderRecord) sameTerms(o *contenderRecord) bool {
	return r.terms().Equal(o.terms()) && sameMark(r.Override, o.Override)
}

// move is T12: the request leaves its place and takes the one of its new
// priority, under a new name, in one transaction. The version says that it was
// not granted meanwhile.
func (p *place) move(ctx context.Context, r *revision) error {
	l, s := p.a.l, p.s
	data := newRecord(l.c, r.req).encode()
	guid := newRequestGUID(data)
	sent := s.Now()
	reply, _, err := s.Multi(ctx,
		&zkclient.DeleteRequest{Path: p.path, Version: p.version},
		&zkclient.CreateRequest{
			Path: l.path + "/" + contenderName(r.req.Priority, r.req.Mode, guid), Data: data, Acl: l.c.ACL(),
			Flags: zkclient.FlagEphemeral | zkclient.FlagSequence,
		})
	switch {
	case err == nil:
		return p.movedTo(r, guid, reply[1].String, sent)
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		p.stale.Store(true)
		return errAgain
	case !errors.Is(err, zkclient.ErrAmbiguous):
		return err
	}
	// Either the old node is there or the new one, unless it was deleted by hand.
	p.stale.Store(true)
	path, err := findContender(ctx, s, l.path, guid)
	switch {
	case err != nil:
		p.a.undo(s, guid)
		return err
	case path != "":
		return p.movedTo(r, guid, path, sent)
	}
	old, err := findContender(ctx, s, l.path, p.guid)
	if err == nil && old == "" { // under either name
		g := p.newGrant()
		g.guid = guid
		if loss := g.whyGone(ctx); loss.Reason != LossDeleted && !s.IsOver() {
			return loss
		}
		return p.evicted(ctx)
	}
	if err == nil {
		err = errAgain // not carried out
	}
	return err
}

// movedTo starts afresh at the new place.
func (p *place) movedTo(r *revision, guid, path string, sent zkclient.Instant) error {
	p.a.revised(r)
	p.a.joined(guid)
	next := newPlace(p.a, p.s, guid, path, sent, p.s.Now())
	next.odd, next.sawG, next.sights = p.odd, p.sawG, p.sights
	next.authors = map[string]struct{}{p.guid: {}} // its notes say nothing new
	if asks := p.takeAsks(); len(asks) > 0 {
		// They are void, and go when the new place asks the same holders. Withdrawing
		// them before that would tell the holder that its preemption is over.
		next.former = func(ctx context.Context) { p.withdrawFrom(ctx, asks) }
	}
	if tidy := p.former; tidy != nil { // it has not looked yet
		mine := next.former
		next.former = func(ctx context.Context) {
			tidy(ctx)
			if mine != nil {
				mine(ctx)
			}
		}
		p.former = nil
	}
	next.counted = p.counted
	p.moved = next
	return errMoved
}

// tidy takes back, in the background, what was asked of holders at the places
// before this one.
func (p *place) tidy() {
	if former := p.former; former != nil {
		p.former = nil
		p.s.Client().Background(func() { former(context.Background()) })
	}
}
