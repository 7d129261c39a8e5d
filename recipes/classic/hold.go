package classic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// hold is what stands behind the grants of one node.
type hold struct {
	l       *line
	mark    mark
	name    string // of the node
	path    string
	lasting bool // the node outlives the session
	notices *notices
	watch   zkclient.Watcher
	lost    chan struct{}
	ended   chan struct{} // released or lost

	mu      sync.Mutex
	s       *zkclient.Session
	count   int // of grants that are not released
	grants  []*Grant
	state   grantState
	loss    *lock.LostError
	token   lock.Token
	asked   bool // to release, by Curator's protocol
	looking bool // an inspection is under way
	anew    bool // and what it sees may be old
	timer   *time.Timer
}

// hold makes a grant of a place in a line.
func (p *stand) hold(n *notices) (*Grant, error) {
	t, _ := parseTicket(p.name, p.l.marks)
	h := &hold{
		l: p.l, mark: t.mark, name: p.name, path: p.path, lasting: p.lasting, notices: n, s: p.s, token: p.token,
		lost: make(chan struct{}), ended: make(chan struct{}),
	}
	h.watch = func(zkclient.WatchKind) { go h.changed() }
	g := h.grant()
	if h.lasting {
		go h.follow()
		return g, nil
	}
	if !p.s.Hold(h) {
		// Held at the server, but too late for this session to vouch for.
		p.s.Discard(p.path)
		return nil, fmt.Errorf("%w: it was cut off when the lock was granted", zkclient.ErrSessionOver)
	}
	// A hold that ends sooner needs no event.
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld {
		h.timer = time.AfterFunc(watchAfter, h.changed)
	}
	return g, nil
}

// again returns another grant of what is held, to be released as well; nil when
// it is not held any more.
func (h *hold) again() *Grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateHeld {
		return nil
	}
	return h.grant()
}

// grant counts one more. The caller holds h.mu, or has h alone.
func (h *hold) grant() *Grant {
	h.count++
	g := &Grant{h: h}
	h.grants = append(h.grants, g)
	return g
}

// follow watches a node that outlives sessions, in one after the other.
func (h *hold) follow() {
	for {
		s, err := h.l.c.Usable(h.l.c.Closing())
		if err != nil {
			return
		}
		h.mu.Lock()
		h.s = s
		h.mu.Unlock()
		h.changed()
		select {
		case <-s.Over():
		case <-h.ended:
			return
		}
	}
}

func (h *hold) session() *zkclient.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.s
}

func (h *hold) held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == stateHeld
}

func (h *hold) where() string { return h.l.label + "/" + h.name }

// changed reads the own node, once at a time.
func (h *hold) changed() {
	h.mu.Lock()
	if h.state != stateHeld || h.looking {
		h.anew = true
		h.mu.Unlock()
		return
	}
	h.looking = true
	h.mu.Unlock()
	for {
		h.mu.Lock()
		h.anew = false
		h.mu.Unlock()
		err := h.inspect(h.l.c.Closing())
		h.mu.Lock()
		if h.state != stateHeld || !h.anew && !errors.Is(err, zkclient.ErrAmbiguous) {
			h.looking = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
	}
}

// inspect arms the watch on the own node, and takes note of what that says by
// then: what was written before it was watched counts as well.
func (h *hold) inspect(ctx context.Context) error {
	s := h.session()
	data, stat, err := s.Look(ctx, h.path, &h.watch)
	if !h.held() {
		s.Unwatch(h.path, &h.watch)
		return lock.ErrReleased
	}
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		loss := &lock.LostError{Scope: h.l.label, Reason: lock.LossDeleted}
		h.lose(loss)
		return loss
	case err != nil:
		return err
	}
	asks := bytes.Equal(data, revokeMessage)
	h.mu.Lock()
	if h.token == 0 {
		h.token = lock.Token(stat.Czxid)
	}
	was := h.asked
	h.asked = asks
	h.mu.Unlock()
	switch {
	case asks && !was:
		h.notices.Send(lock.PreemptRequested{})
	case was && !asks:
		h.notices.Send(lock.PreemptionWithdrawn{})
	}
	return nil
}

func (h *hold) knownToken() lock.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

func (h *hold) readToken(ctx context.Context) (lock.Token, error) {
	for {
		h.mu.Lock()
		token, loss, state := h.token, h.loss, h.state
		h.mu.Unlock()
		switch {
		case token != 0:
			return token, nil
		case loss != nil:
			return 0, loss
		case state == stateReleased:
			return 0, lock.ErrReleased
		}
		s := h.session()
		err := h.inspect(ctx)
		switch over := errors.Is(err, zkclient.ErrSessionOver); {
		case over && h.lasting: // follow goes on in the next
			if _, err := h.l.c.Usable(ctx); err != nil {
				return 0, err
			}
		case over:
			h.lose(&lock.LostError{Scope: h.l.label, Reason: lock.LossSession, Err: s.Err()})
		case err != nil && !errors.Is(err, zkclient.ErrAmbiguous) && h.held():
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// --- tenant of the session ---------------------------------------------------

func (h *hold) Holding() string { return h.l.label }

// Overdue: no client may take a classic lock away.
func (h *hold) Overdue(zkclient.Instant) bool { return false }

func (h *hold) AtRisk(left time.Duration) {
	if h.held() {
		h.notices.Send(lock.AtRisk{Deadline: time.Now().Add(left)})
	}
}

func (h *hold) SessionLost(cause error) {
	h.lose(&lock.LostError{Scope: h.l.label, Reason: lock.LossSession, Err: cause})
}

func (h *hold) lose(loss *lock.LostError) {
	h.mu.Lock()
	if h.state != stateHeld {
		h.mu.Unlock()
		return
	}
	loss.Token = h.token
	h.loss = loss
	h.stop(stateLost)
	close(h.lost)
	s, grants := h.s, slices.Clone(h.grants)
	h.mu.Unlock()
	for _, g := range grants {
		g.end(loss)
	}
	h.forget()
	if loss.Reason == lock.LossSession {
		s.Discard(h.path) // the session may survive; the hold does not
	}
	h.notices.Send(lock.Lost{Err: loss})
}

// stop ends the hold. The caller holds h.mu.
func (h *hold) stop(state grantState) {
	h.state = state
	close(h.ended)
	if h.timer != nil {
		h.timer.Stop()
	}
}

// forget ends what the session does for the hold.
func (h *hold) forget() {
	s := h.session()
	s.Unhold(h)
	s.Unwatch(h.path, &h.watch)
}

// depart deletes the node until that is certain.
func (h *hold) depart(ctx context.Context) error {
	err := h.remove(ctx)
	switch {
	case err == nil, errors.Is(err, zkclient.ErrClosed):
		return err
	case errors.Is(err, zkclient.ErrNoNode):
		return &lock.LostError{Scope: h.l.label, Token: h.knownToken(), Reason: lock.LossDeleted}
	case errors.Is(err, zkclient.ErrSessionOver):
		return &lock.LostError{Scope: h.l.label, Token: h.knownToken(), Reason: lock.LossSession, Err: err}
	}
	refused := &NotRemovedError{Path: h.where(), Lasting: h.lasting, Err: err}
	h.l.c.Log().Error("cannot release", "lock", h.l.label, "node", refused.Path, "error", refused)
	return refused
}

// remove deletes the node. One that was gone before, by itself or with its
// session, is an error.
func (h *hold) remove(ctx context.Context) error {
	if h.lasting {
		return h.l.c.DeleteSurely(ctx, h.path)
	}
	for unsure := false; ; unsure = true { // from the second try on, an earlier one may have done it
		err := h.s.Delete(ctx, h.path, -1)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case unsure && (errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, zkclient.ErrSessionOver)):
			return nil
		}
		return err
	}
}

var _ zkclient.Tenant = (*hold)(nil)

type grantState uint8

const (
	stateHeld grantState = iota
	stateReleased
	stateLost
)

// watchAfter is how long a hold lasts before its own node is watched: one that
// ends sooner gets no event.
const watchAfter = 10 * time.Millisecond
