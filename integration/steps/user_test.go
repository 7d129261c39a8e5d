package steps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A user is a process with a client of its own, and plays its part by itself.
type user struct {
	s      *stage
	name   string
	client *lock.Client
	life   context.Context // of its calls
	cancel context.CancelFunc
	closed atomic.Bool // by a fault

	mu       sync.Mutex
	suffered []*fault
	holds    []*hold
}

// user lets somebody play a part, after a while.
func (s *stage) user(name string, after time.Duration, part func(u *user)) *user {
	s.mu.Lock()
	n := len(s.users)
	s.mu.Unlock()
	u := s.newUser(name, n+1)
	s.playing.Go(func() {
		time.Sleep(after)
		part(u)
	})
	return u
}

func (s *stage) newUser(name string, n int) *user {
	u := &user{s: s, name: name}
	u.life, u.cancel = context.WithCancel(context.Background())
	u.client = s.connect(name, n)
	s.mu.Lock()
	s.users = append(s.users, u)
	s.mu.Unlock()
	return u
}

// shut ends the client.
func (u *user) shut(hard bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := u.client.Close(ctx)
		if _, busy := errors.AsType[*lock.BusyError](err); busy && hard && ctx.Err() == nil {
			time.Sleep(time.Second)
			continue
		}
		if err != nil && !hard && (!u.closed.Load() || !errors.Is(err, lock.ErrClosed)) {
			u.s.foul("close %s: %v", u.name, err)
		}
		return
	}
}

func (u *user) suffers(f *fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.suffered = append(u.suffered, f)
}

// suffer tells whether something happened to the user of which this is so.
func (u *user) suffer(is func(*fault) bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.suffered, is)
}

// excuses tells whether an error is no fault of the library's.
func (u *user) excuses(err error) bool {
	var lost *lock.LostError
	switch {
	case u.s.scene.excuses != nil && u.s.scene.excuses(u, err):
		return true
	case errors.Is(err, context.Canceled):
		return u.life.Err() != nil
	case errors.Is(err, lock.ErrClosed):
		return u.suffer(func(f *fault) bool { return f.closes })
	case errors.As(err, &lost):
		switch lost.Reason { //nolint:exhaustive // no step deletes nodes here
		case lock.LossSession:
			// A holder that was preempted, and had no time or has taken more, ends as soon as it is cut
			// off.
			late := lost.Err != nil && strings.Contains(lost.Err.Error(), "cut off after the end of the lease or grace")
			return u.suffer(func(f *fault) bool { return f.expires || f.silent || late })
		case lock.LossTaken, lock.LossBroken:
			return u.s.scene.forced
		}
		return false
	}
	if _, slow := errors.AsType[*lock.UnavailableError](err); slow {
		return u.suffer(func(f *fault) bool { return f.silent })
	}
	return false
}

// --- locks ------------------------------------------------------------------------

// A hold is what came of a request.
type hold struct {
	u     *user
	scope string
	mode  priority.Mode
	grant grant
	guid  string // of a priority lock's node
	node  string // a part of its path, that no other has; "" if the recipe does not tell
	most  int    // how many may hold at a time; 0: as the mode says
	id    string // Request.Hold

	mu       sync.Mutex
	notices  []lock.Notice
	answered bool // the request failed
	over     bool // released, or told lost
	lost     int
	asked    chan struct{} // closed when the holder is preempted
	gone     chan struct{} // closed when it learns that it has lost
	end      error         // of Release
	ended    bool          // Release has answered
}

type grant interface {
	Release(ctx context.Context) error
}

// acquire asks for a priority lock, and returns nil when there is no grant.
func (u *user) acquire(scope string, r lock.Request) *hold {
	l, err := u.client.PriorityLock(scope)
	if err != nil {
		u.s.foul("%v", err)
		return nil
	}
	h := u.asks(scope, r.Mode)
	h.id = r.Hold
	r.Owner, r.Notify = u.name, h.hear
	g, err := l.Acquire(u.life, r)
	if g != nil {
		h.guid, h.node = g.ID(), g.ID()
		return h.answer(g, err)
	}
	return h.answer(nil, err)
}

// asks begins a request.
func (u *user) asks(scope string, mode priority.Mode) *hold {
	u.s.tell(u.name, "asks for %s", scope)
	h := &hold{u: u, scope: scope, mode: mode, asked: make(chan struct{}), gone: make(chan struct{})}
	u.mu.Lock()
	u.holds = append(u.holds, h)
	u.mu.Unlock()
	return h
}

// answer checks what a request has come to.
func (h *hold) answer(g grant, err error) *hold {
	u := h.u
	if err != nil {
		u.s.tell(u.name, "is refused: %v", err)
		h.mu.Lock()
		h.answered = true
		h.mu.Unlock()
		if g != nil {
			u.s.foul("%s has an error and a grant", u.name)
		}
		if !u.excuses(err) {
			u.s.foul("%s has not got %s: %v", u.name, h.scope, err)
		}
		return nil
	}
	u.s.tell(u.name, "holds %s", h.scope)
	h.grant = g
	u.s.referee.enters(h)
	return h
}

func (h *hold) hear(n lock.Notice) {
	h.u.s.tell(h.u.name, "%T", n)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answered {
		h.u.s.foul("%s was told %T after its request had failed", h.u.name, n)
	}
	if h.lost > 0 {
		h.u.s.foul("%s was told %T after its loss", h.u.name, n)
	}
	if h.ended {
		h.u.s.foul("%s was told %T after its release", h.u.name, n)
	}
	h.notices = append(h.notices, n)
	switch n := n.(type) {
	case lock.Joined:
		h.u.s.refers(h.u.name, lock.Reference{Scope: h.scope, Hold: h.id, ID: n.ID, Mode: h.mode})
	case lock.PreemptRequested:
		select {
		case <-h.asked:
		default:
			close(h.asked)
		}
	case lock.Lost:
		h.lost++
		h.over = true
		if h.lost == 1 {
			close(h.gone)
		}
		if !h.u.excuses(n.Err) {
			h.u.s.foul("%s has lost %s: %v", h.u.name, h.scope, n.Err)
		}
	}
}

// stay holds on for a while: not beyond the loss, nor beyond the user's life.
func (h *hold) stay(d time.Duration) *hold {
	if h == nil {
		return nil
	}
	select {
	case <-time.After(d):
	case <-h.gone:
	case <-h.u.life.Done():
	}
	return h
}

// serve is stay for one that goes when it is asked, after a cleanup.
func (h *hold) serve(d, cleanup time.Duration) *hold {
	if h == nil {
		return nil
	}
	select {
	case <-time.After(d):
		return h
	case <-h.asked:
	case <-h.gone:
		return h
	case <-h.u.life.Done():
		return h
	}
	return h.stay(cleanup)
}

// call does something with the grant.
func (h *hold) call(what string, f func(ctx context.Context, g *lock.Grant) error) *hold {
	if h == nil {
		return nil
	}
	err := f(h.u.life, h.grant.(*lock.Grant))
	h.u.s.tell(h.u.name, "%s: error %v", what, err)
	if err == nil {
		return h
	}
	if _, pending := errors.AsType[*lock.PreemptPendingError](err); !pending && !h.u.excuses(err) {
		h.u.s.foul("%s: %s: %v", h.u.name, what, err)
	}
	return h
}

func (h *hold) token() *hold {
	return h.call("token", func(ctx context.Context, g *lock.Grant) error {
		token, err := g.Token(ctx)
		if err == nil {
			h.u.s.referee.token(h, token)
		}
		return err
	})
}

func (h *hold) extend(d time.Duration) *hold {
	return h.call("extend", func(ctx context.Context, g *lock.Grant) error { return g.Extend(ctx, d) })
}

func (h *hold) downgrade() *hold {
	if h == nil {
		return nil
	}
	h.u.s.referee.shares(h)
	return h.call("downgrade", func(ctx context.Context, g *lock.Grant) error { return g.Downgrade(ctx) })
}

// release gives the lock back, and checks the answer.
func (h *hold) release() {
	if h == nil {
		return
	}
	u := h.u
	ctx := u.life
	if ctx.Err() != nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	h.mu.Lock()
	lostBefore := h.lost > 0
	h.over = true
	h.mu.Unlock()
	err := h.grant.Release(ctx)
	u.s.tell(u.name, "has released %s: error %v", h.scope, err)
	h.mu.Lock()
	h.ended, h.end = true, err
	h.mu.Unlock()
	var lost *lock.LostError
	switch {
	case err == nil && lostBefore:
		u.s.foul("%s was told its loss of %s, and then that it has released it", u.name, h.scope)
	case err == nil:
		u.s.referee.left(h)
	case errors.Is(err, context.DeadlineExceeded) && u.suffer(func(f *fault) bool { return f.silent }):
		// A Guard does not wait for long: what is left is done in the background.
	case errors.As(err, &lost), !lostBefore && (errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrClosed)):
		if !u.excuses(err) {
			u.s.foul("%s cannot release %s: %v", u.name, h.scope, err)
		}
	default:
		u.s.foul("%s has released %s, which it has lost before (%t): %v", u.name, h.scope, lostBefore, err)
	}
}

// concludes checks that each hold has ended once.
func (u *user) concludes() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, h := range u.holds {
		h.mu.Lock()
		switch {
		case h.grant == nil && h.lost > 0:
			// Lost before Acquire could return it: its error says the same.
		case h.grant == nil:
		case !h.ended:
			u.s.foul("%s has not released %s", u.name, h.scope)
		case h.lost > 1:
			u.s.foul("%s was told %d times that it has lost %s", u.name, h.lost, h.scope)
		case h.end == nil && h.lost > 0:
			u.s.foul("%s has released %s and lost it", u.name, h.scope)
		}
		h.mu.Unlock()
	}
}

// recovers waits until the client is connected; after a long silence until it
// lets requests in again, too.
func (u *user) recovers() {
	ctx, cancel := context.WithTimeout(context.Background(), nap)
	defer cancel()
	if err := u.client.Ready(ctx); err != nil {
		u.s.foul("%s is not connected again after %s: %v", u.name, nap, err)
	}
	if u.suffer(func(f *fault) bool { return f.silent }) {
		time.Sleep(2 * time.Second) // the breaker's
	}
}
