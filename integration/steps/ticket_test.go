package steps

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// tickets are scenes of lockguard's requests in the background, and of those who
// join or adopt what comes of them.
var tickets = []scene{
	{
		name: "ticket", about: "a ticket waits, is adopted by another process when it is granted; a third joins that one",
		probes: usersLock, adopted: true,
		excuses: func(u *user, err error) bool {
			return u.name == "B" && isSuperseded(err) || unlessAllIsWell(u, err)
		},
		play: func(s *stage) {
			r := lockguard.Requirement{Scope: users, Hold: "order-17/run-1"}
			s.user("A", 0, func(u *user) { u.acquire(users, at(5)).stay(600 * ms).release() })
			s.user("B", 100*ms, func(u *user) { u.enlists(r).stay(1500 * ms).release() })
			s.user("C", 250*ms, func(u *user) {
				u.under("B", func(g *lockguard.Guard, ref lockguard.Reference) (*lockguard.Hold, error) {
					return g.Adopt(u.life, lockguard.Requirement{}, ref)
				}).stay(400 * ms).release()
			})
			s.user("D", 800*ms, func(u *user) {
				u.under("C", func(g *lockguard.Guard, ref lockguard.Reference) (*lockguard.Hold, error) {
					return g.Join(u.life, lockguard.Requirement{}, ref)
				}).stay(500 * ms).release()
			})
			s.user("E", 350*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
		},
	},
}

func (u *user) guard() *lockguard.Guard {
	g, err := lockguard.New(u.client, lockguard.WithOwner(u.name))
	if err != nil {
		u.s.foul("%v", err)
	}
	return g
}

// enlists makes a request in the background, and waits for what comes of it.
func (u *user) enlists(r lockguard.Requirement) *hold {
	h := u.asks(r.Scope, priority.Exclusive)
	h.id = r.Hold
	t := u.guard().Enqueue(u.life, r)
	select {
	case <-t.Joined():
		if ref, known := t.Reference(); known {
			u.s.refers(u.name, ref)
		}
	case <-t.Done():
	}
	<-t.Done()
	return h.has(t.Hold())
}

// under holds by what another one has told.
func (u *user) under(whose string, how func(*lockguard.Guard, lockguard.Reference) (*lockguard.Hold, error)) *hold {
	ref, known := u.s.reference(whose)
	if !known {
		u.s.tell(u.name, "knows nothing of %s", whose)
		return nil
	}
	h := u.asks(ref.Scope, ref.Mode)
	h.id = ref.Hold
	return h.has(how(u.guard(), ref))
}

// has is answer for a Hold.
func (h *hold) has(hold *lockguard.Hold, err error) *hold {
	if err != nil {
		return h.answer(nil, err)
	}
	ref := hold.Reference()
	h.guid, h.node = ref.ID, ref.ID
	h.u.s.refers(h.u.name, ref)
	context.AfterFunc(hold.Context(), func() {
		var lost *lockguard.LostError
		if !errors.As(context.Cause(hold.Context()), &lost) {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ended {
			return
		}
		h.lost, h.over = 1, true
		close(h.gone)
		if !h.u.excuses(lost) {
			h.u.s.foul("%s has lost %s: %v", h.u.name, h.scope, lost)
		}
	})
	return h.answer(hold, nil)
}

var _ grant = (*lockguard.Hold)(nil)
