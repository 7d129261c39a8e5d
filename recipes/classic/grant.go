package classic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Grant is one thing of a classic recipe that is held: a mutex, one
// side of a read/write lock, a lease of a semaphore. It lasts until Release, or
// until it is lost: with the session, which it never outlives, or because an
// administrator deleted its node. All methods may be called from any goroutine.
type Grant struct {
	h *hold

	// Guarded by h.mu.
	released bool
	over     error // why it has ended
	contexts map[*context.CancelCauseFunc]func() bool
}

// Path returns the path of the node in ZooKeeper that stands for the grant, as
// seen below Config.Chroot.
func (g *Grant) Path() string { return g.h.where() }

// Lost is closed when the grant is lost. Check then returns why.
func (g *Grant) Lost() <-chan struct{} { return g.h.lost }

// Deadline returns until when the grant certainly lasts if ZooKeeper does not
// answer any more, on the local monotonic clock. It moves on with every answer.
// For a grant that outlives its session it is the zero time.
func (g *Grant) Deadline() time.Time {
	s := g.h.session()
	if g.h.lasting {
		return time.Time{}
	}
	return time.Now().Add(s.Deadline().Sub(s.Awake()))
}

// Token returns the fencing token: the zxid that created the grant's node. It
// is read once. Among exclusive grants of one path it grows from each to the
// next, whatever language they are made in. A reader's token is greater than
// those of all writers before it and smaller than those of all writers after
// it. The read side that was taken beside the write side has the token of the
// latter: it stands in its place. Leases of a semaphore are held side by side: their tokens tell them apart,
// and say nothing about who may write.
//
// It returns the *LostError if the grant was lost before the token was known.
func (g *Grant) Token(ctx context.Context) (lock.Token, error) {
	if token := g.h.knownToken(); token != 0 {
		return token, nil
	}
	return zkclient.Promptly(ctx, g.h.l.c, func() (lock.Token, error) { return g.h.readToken(ctx) }, nil)
}

// Check looks, without asking ZooKeeper, whether the grant certainly lasts
// right now, with the time counted that the machine was suspended: nil, the
// *LostError, or ErrReleased after Release. What it finds lost is lost from
// then on, and Notify is called.
func (g *Grant) Check() error {
	h := g.h
	if s := h.session(); !h.lasting {
		s.Check(h)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state == stateLost:
		return h.loss
	case g.released:
		return lock.ErrReleased
	}
	return nil
}

// Context returns a context that carries the grant, and ends with it: by the
// cause *LostError or ErrReleased. Who acquires the same lock with this context
// is not a stranger to it, see Mutex.Acquire.
func (g *Grant) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, carriedKey{},
		&carried{g: g, outer: carriedBy(parent)}))
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
func (g *Grant) end(cause error) {
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
// only Release found out; a *NotRemovedError when ZooKeeper refuses to delete the
// node, which then is still there.
//
// When ctx ends first, Release returns an error and goes on in the background
// until the node is gone.
func (g *Grant) Release(ctx context.Context) error {
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
		return lock.ErrReleased
	}
	h.count--
	h.grants = slices.DeleteFunc(h.grants, func(other *Grant) bool { return other == g })
	last := h.count == 0
	if last {
		h.stop(stateReleased)
	}
	h.mu.Unlock()
	g.end(lock.ErrReleased)
	if !last {
		return nil
	}
	h.forget()
	_, err := zkclient.Promptly(ctx, h.l.c,
		func() (struct{}, error) { return struct{}{}, h.depart(context.Background()) }, nil)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("release of %s has not been confirmed and goes on in the background: %w", h.l.label, err)
	}
	return err
}

// NotRemovedError is returned by Release when ZooKeeper refuses to delete the
// grant's node: the grant is over here, but for others it is still held.
type NotRemovedError struct {
	Path    string // of the node, below Config.Chroot
	Lasting bool   // it does not end with the session
	Err     error  // an *AccessError, or what else ZooKeeper said
}

func (e *NotRemovedError) Error() string {
	end := "until the session ends"
	if e.Lasting {
		end = "until it is deleted by hand"
	}
	return fmt.Sprintf("%s could not be deleted and holds others up %s: %v", e.Path, end, e.Err)
}

// Unwrap returns what ZooKeeper said.
func (e *NotRemovedError) Unwrap() error { return e.Err }

// GoneError is returned when a participant of a classic recipe is not there any
// more.
type GoneError struct{ Path string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("%s is not there any more: it was released, or its session has ended; list the participants again",
		e.Path)
}

// carriedKey is the key of what a context carries.
type carriedKey struct{}

// carried is a grant in a context, in front of those that its parent carries.
type carried struct {
	g     *Grant
	outer *carried
}

func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(carriedKey{}).(*carried)
	return c
}

// carriedGrant returns the innermost grant in ctx that stands in this line and
// fits, and is held.
func (l *line) carriedGrant(ctx context.Context, fits func(*hold) bool) *Grant {
	for c := carriedBy(ctx); c != nil; c = c.outer {
		if h := c.g.h; h.l.c == l.c && h.l.path == l.path && fits(h) && c.g.Check() == nil {
			return c.g
		}
	}
	return nil
}
