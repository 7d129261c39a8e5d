package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A ClassicGrant is one thing of a classic recipe that is held: a mutex, one
// side of a read/write lock, a lease of a semaphore. It lasts until Release, or
// until it is lost: with the session, which it never outlives, or because an
// administrator deleted its node. All methods may be called from any goroutine.
type ClassicGrant struct {
	h *classicHold

	// Guarded by h.mu.
	released bool
	over     error // why it has ended
	contexts map[*context.CancelCauseFunc]func() bool
}

// Path returns the path of the node in ZooKeeper that stands for the grant, as
// seen below Config.Chroot.
func (g *ClassicGrant) Path() string { return g.h.where() }

// Lost is closed when the grant is lost. Check then tells why.
func (g *ClassicGrant) Lost() <-chan struct{} { return g.h.lost }

// Deadline returns until when the grant certainly lasts if ZooKeeper does not
// answer any more, on the local monotonic clock. It moves on with every answer.
// For a grant that outlives its session it is the zero time.
func (g *ClassicGrant) Deadline() time.Time {
	s := g.h.session()
	if g.h.lasting {
		return time.Time{}
	}
	return time.Now().Add(s.deadline().sub(s.clock.awake()))
}

// Token returns the fencing token: the zxid that created the grant's node. It
// is read once. Among exclusive grants of one path it grows from each to the
// next, whatever language they are made in. A reader's token is greater than
// those of all writers before it and smaller than those of all writers after
// it. Leases of a semaphore are held side by side: their tokens tell them apart,
// and say nothing about who may write.
//
// It returns the *LostError if the grant was lost before the token was known.
func (g *ClassicGrant) Token(ctx context.Context) (Token, error) {
	if token := g.h.knownToken(); token != 0 {
		return token, nil
	}
	return promptly(ctx, g.h.l.c, func() (Token, error) { return g.h.readToken(ctx) }, nil)
}

// Check looks, without asking ZooKeeper, whether the grant certainly lasts right
// now, with the time counted that the machine was suspended: nil, the
// *LostError, or ErrReleased after Release. What it finds lost is lost from then
// on, and told.
func (g *ClassicGrant) Check() error {
	h := g.h
	if s := h.session(); !h.lasting {
		now := s.clock.awake()
		s.mu.Lock()
		end, silent := s.deadlineLocked(), now.sub(s.lastAck)
		s.mu.Unlock()
		if now >= end {
			h.lose(&LostError{Scope: h.l.label, Reason: LossSession, Err: fmt.Errorf("no answer for %s", silent.Round(time.Millisecond))})
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state == stateLost:
		return h.loss
	case g.released:
		return ErrReleased
	}
	return nil
}

// Context returns a context that carries the grant, and ends with it: by the
// cause *LostError or ErrReleased. Who acquires the same lock with this context
// is not a stranger to it, see Mutex.Acquire.
func (g *ClassicGrant) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, carriedKey{}, &carried{g: g, outer: carriedBy(parent)}))
	h := g.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.over != nil {
		cancel(g.over)
		return ctx
	}
	if g.contexts == nil {
		g.contexts = make(map[*context.CancelCauseFunc]func() bool)
	}
	g.contexts[&cancel] = context.AfterFunc(parent, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(g.contexts, &cancel)
	})
	return ctx
}

// end ends what Context has returned.
func (g *ClassicGrant) end(cause error) {
	g.h.mu.Lock()
	g.over = cause
	contexts := g.contexts
	g.contexts = nil
	g.h.mu.Unlock()
	for cancel, forget := range contexts {
		forget()
		(*cancel)(cause)
	}
}

// Release gives back what is held; a grant that was acquired again through its
// own context is given back by the last Release. It returns ErrReleased when
// this grant was released before, and the *LostError when it was lost, even if
// only Release found out.
//
// When ctx ends first, Release returns an error and goes on in the background
// until the node is gone.
func (g *ClassicGrant) Release(ctx context.Context) error {
	h := g.h
	h.mu.Lock()
	was := g.released
	g.released = true
	switch {
	case h.state == stateLost:
		defer h.mu.Unlock()
		return h.loss
	case was:
		h.mu.Unlock()
		return ErrReleased
	}
	h.count--
	h.grants = slices.DeleteFunc(h.grants, func(other *ClassicGrant) bool { return other == g })
	last := h.count == 0
	if last {
		h.stop(stateReleased)
	}
	h.mu.Unlock()
	g.end(ErrReleased)
	if !last {
		return nil
	}
	h.forget()
	_, err := promptly(ctx, h.l.c, func() (struct{}, error) { return struct{}{}, h.depart(context.Background()) }, nil)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("release of %s has not been confirmed and goes on in the background: %w", h.l.label, err)
	}
	return err
}

// GoneError is returned when a participant of a classic recipe is not there any
// more.
type GoneError struct{ Path string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("%s is not there any more: it was released, or its session has ended; list the participants again", e.Path)
}

// carriedKey is the key of what a context carries.
type carriedKey struct{}

// carried is a grant in a context, in front of those that its parent carries.
type carried struct {
	g     *ClassicGrant
	outer *carried
}

func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(carriedKey{}).(*carried)
	return c
}

// carriedGrant returns the innermost grant in ctx that stands in this line and
// fits, and is held.
func (l *line) carriedGrant(ctx context.Context, fits func(*classicHold) bool) *ClassicGrant {
	for c := carriedBy(ctx); c != nil; c = c.outer {
		if h := c.g.h; h.l.c == l.c && h.l.path == l.path && fits(h) && c.g.Check() == nil {
			return c.g
		}
	}
	return nil
}

// again returns another grant of what is held, to be released as well; nil when
// it is not held any more.
func (h *classicHold) again() *ClassicGrant {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateHeld {
		return nil
	}
	return h.grant()
}

// grant counts one more. The caller holds h.mu, or has h alone.
func (h *classicHold) grant() *ClassicGrant {
	h.count++
	g := &ClassicGrant{h: h}
	h.grants = append(h.grants, g)
	return g
}

// classicHold is what stands behind the grants of one node.
type classicHold struct {
	l       *line
	mark    mark
	name    string // of the node
	path    string
	lasting bool // the node outlives the session
	notices *notices
	watch   watcher
	lost    chan struct{}
	ended   chan struct{} // released or lost

	mu      sync.Mutex
	s       *session
	count   int // of grants that are not released
	grants  []*ClassicGrant
	state   grantState
	loss    *LostError
	token   Token
	asked   bool // to go, by Curator's protocol
	looking bool // an inspection is under way
	anew    bool // and what it sees may be old
	timer   *time.Timer
}

// hold makes a grant of a place in a line.
func (p *stand) hold(n *notices) (*ClassicGrant, error) {
	t, _ := parseTicket(p.name, p.l.marks)
	h := &classicHold{
		l: p.l, mark: t.mark, name: p.name, path: p.path, lasting: p.lasting, notices: n, s: p.s,
		lost: make(chan struct{}), ended: make(chan struct{}),
	}
	h.watch = func(watchKind) { go h.changed() }
	g := h.grant()
	if h.lasting {
		go h.follow()
		return g, nil
	}
	if !p.s.hold(h) {
		// Held at the server, but too late for this session to vouch for.
		p.s.discard(p.path)
		return nil, fmt.Errorf("%w: it was cut off when the lock was granted", errSessionOver)
	}
	// A hold that ends sooner does not need to hear of anything.
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld {
		h.timer = time.AfterFunc(watchAfter, h.changed)
	}
	return g, nil
}

// follow watches a node that outlives sessions, in one after the other.
func (h *classicHold) follow() {
	for {
		s, err := h.l.c.session(h.l.c.closing)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.s = s
		h.mu.Unlock()
		h.changed()
		select {
		case <-s.over:
		case <-h.ended:
			return
		}
	}
}

func (h *classicHold) session() *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.s
}

func (h *classicHold) held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == stateHeld
}

func (h *classicHold) where() string { return h.l.label + "/" + h.name }

// changed reads the own node, once at a time.
func (h *classicHold) changed() {
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
		err := h.inspect(h.l.c.closing)
		h.mu.Lock()
		if h.state != stateHeld || !h.anew && !errors.Is(err, errAmbiguous) {
			h.looking = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
	}
}

// inspect arms the watch on the own node, and takes note of what that says by
// then: what was written before it was watched counts as well.
func (h *classicHold) inspect(ctx context.Context) error {
	s := h.session()
	data, stat, err := s.look(ctx, h.path, &h.watch)
	if !h.held() {
		s.unwatch(h.path, &h.watch)
		return ErrReleased
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		loss := &LostError{Scope: h.l.label, Reason: LossDeleted}
		h.lose(loss)
		return loss
	case err != nil:
		return err
	}
	asks := bytes.Equal(data, revokeMessage)
	h.mu.Lock()
	h.token = Token(stat.Czxid)
	was := h.asked
	h.asked = asks
	h.mu.Unlock()
	switch {
	case asks && !was:
		h.notices.send(PreemptAsked{})
	case was && !asks:
		h.notices.send(PreemptWithdrawn{})
	}
	return nil
}

func (h *classicHold) knownToken() Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

func (h *classicHold) readToken(ctx context.Context) (Token, error) {
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
			return 0, ErrReleased
		}
		err := h.inspect(ctx)
		if err != nil && !errors.Is(err, errAmbiguous) && h.held() && !(h.lasting && errors.Is(err, errSessionOver)) {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// --- tenant of the session ---------------------------------------------------

func (h *classicHold) holding() string { return h.l.label }

// overdue: nobody may take a classic lock away.
func (h *classicHold) overdue(instant) bool { return false }

func (h *classicHold) atRisk(left time.Duration) {
	if h.held() {
		h.notices.send(AtRisk{Deadline: time.Now().Add(left)})
	}
}

func (h *classicHold) lose(loss *LostError) {
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
	if loss.Reason == LossSession {
		s.discard(h.path) // the session may survive; the hold does not
	}
	h.notices.send(Lost{Err: loss})
}

// stop ends the hold. The caller holds h.mu.
func (h *classicHold) stop(state grantState) {
	h.state = state
	close(h.ended)
	if h.timer != nil {
		h.timer.Stop()
	}
}

// forget ends what the session does for the hold.
func (h *classicHold) forget() {
	s := h.session()
	s.unhold(h)
	s.unwatch(h.path, &h.watch)
}

// depart deletes the node until that is certain.
func (h *classicHold) depart(ctx context.Context) error {
	if h.lasting {
		return h.l.c.deleteSurely(ctx, h.path)
	}
	for unsure := false; ; unsure = true { // from the second try on, an earlier one may have done it
		err := h.s.delete(ctx, h.path, -1)
		gone, over := errors.Is(err, zk.ErrNoNode), errors.Is(err, errSessionOver)
		switch {
		case errors.Is(err, errAmbiguous):
			continue
		case (gone || over) && unsure:
			return nil
		case gone:
			return &LostError{Scope: h.l.label, Token: h.knownToken(), Reason: LossDeleted}
		case over:
			return &LostError{Scope: h.l.label, Token: h.knownToken(), Reason: LossSession, Err: err}
		}
		return err
	}
}

var _ tenant = (*classicHold)(nil)
