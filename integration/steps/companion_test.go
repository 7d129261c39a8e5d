package steps

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// companions are scenes of holds that several processes have, together or one
// after the other.
var companions = []scene{
	{
		name: "companions", about: "T14 beside the holder, a stranger that waits for both; T5 of the one, T4 of the last",
		probes: usersLock, excuses: unlessAllIsWell,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, ofHold(5)).passOn().stay(500 * ms).release() })
			s.user("B", 150*ms, func(u *user) { u.joins("A", false).token().stay(800 * ms).release() })
			s.user("C", 250*ms, func(u *user) { u.acquire(users, at(5)).token().stay(100 * ms).release() })
			s.user("D", 350*ms, func(u *user) { u.joins("A", false).extend(time.Minute).stay(100 * ms).release() })
		},
	},
	{
		name: "companions, readers", about: "T14 of readers beside readers, a writer that waits for all, and T4 to it",
		probes: usersLock, excuses: unlessAllIsWell,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := ofHold(5)
				r.Mode = priority.Shared
				u.acquire(users, r).passOn().stay(400 * ms).release()
			})
			s.user("B", 50*ms, func(u *user) { u.acquire(users, sharing(5)).stay(500 * ms).release() })
			s.user("C", 150*ms, func(u *user) { u.joins("A", false).token().stay(600 * ms).release() })
			s.user("D", 250*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
		},
	},
	{
		name: "adopt", about: "T15 of a holder that others wait for; a second adopter that comes too late; T4 to a stranger",
		probes: usersLock, adopted: true,
		excuses: func(u *user, err error) bool {
			return u.name == "A" && isSuperseded(err) || u.name == "C" && isNotThere(err) || unlessAllIsWell(u, err)
		},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, ofHold(5)).passOn().stay(1500 * ms).release() })
			s.user("B", 200*ms, func(u *user) { u.adopts("A", ofHold(5)).token().stay(500 * ms).release() })
			s.user("C", 300*ms, func(u *user) { u.adopts("A", ofHold(5)).release() })
			s.user("D", 100*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
		},
	},
	{
		name: "adopt a ticket", about: "one waits, another waits for its grant, and T15 then; a stranger behind them",
		probes: usersLock, adopted: true,
		excuses: func(u *user, err error) bool {
			return u.name == "B" && isSuperseded(err) || unlessAllIsWell(u, err)
		},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, at(5)).stay(700 * ms).release() })
			s.user("B", 100*ms, func(u *user) { u.acquire(users, ofHold(5)).stay(1500 * ms).release() })
			s.user("C", 250*ms, func(u *user) { u.adopts("B", ofHold(5)).token().stay(300 * ms).release() })
			s.user("D", 350*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
		},
	},
	{
		name: "resume", about: "the session of a holder ends: T16 in its lock-delay, T14 beside that; the stranger waits for both",
		probes: usersLock, adopted: true, stay: 3 * time.Second,
		excuses: func(u *user, err error) bool {
			lost, is := errors.AsType[*lock.LostError](err)
			// One that came in late, after the delay of a grant that it never heard of, lives when it is adopted.
			late := u.suffer(func(*fault) bool { return true }) && isSuperseded(err)
			return u.name == "A" && (is && lost.Reason == lock.LossSession || late) || unlessAllIsWell(u, err)
		},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := ofHold(5)
				r.LockDelay = 800 * ms
				u.acquire(users, r).passOn().stay(200 * ms).dies().release()
			})
			s.user("B", 100*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
			s.user("C", 350*ms, func(u *user) { u.adopts("A", ofHold(5)).token().passOn().stay(400 * ms).release() })
			s.user("D", 550*ms, func(u *user) { u.joins("C", false).token().stay(500 * ms).release() })
		},
	},
	{
		name: "companions, preempted", about: "T6 to each, a join that is refused, a join and an adoption for the cleanup; all go",
		probes: usersLock, adopted: true, stay: 7 * time.Second,
		excuses: func(u *user, err error) bool {
			_, pending := errors.AsType[*lock.PreemptPendingError](err)
			return pending || u.name == "B" && isSuperseded(err) || unlessAllIsWell(u, err)
		},
		play: func(s *stage) {
			r := ofHold(1)
			r.CleanupTimeout = 5 * time.Second
			s.user("A", 0, func(u *user) { u.acquire(users, r).passOn().serve(3*time.Second, 700*ms).release() })
			s.user("B", 100*ms, func(u *user) { u.joins("A", false).passOn().stay(3 * time.Second).release() })
			s.user("C", 300*ms, func(u *user) { u.acquire(users, at(5)).token().stay(100 * ms).release() })
			s.user("D", 500*ms, func(u *user) { u.joins("A", false).release() })
			s.user("E", 600*ms, func(u *user) { u.joins("A", true).token().serve(3*time.Second, 800*ms).release() })
			s.user("F", 700*ms, func(u *user) { u.adopts("B", r).serve(3*time.Second, 500*ms).release() })
		},
	},
	{
		name: "companions, taken over", about: "T6 to each, T7 of all who do not go",
		probes: usersLock, forced: true, stay: 9 * time.Second,
		excuses: func(u *user, err error) bool {
			_, pending := errors.AsType[*lock.PreemptPendingError](err) // B is late
			return pending || unlessAllIsWell(u, err)
		},
		play: func(s *stage) {
			r := ofHold(1)
			r.CleanupTimeout = time.Second
			s.user("A", 0, func(u *user) { u.acquire(users, r).passOn().stay(3 * time.Second).release() })
			s.user("B", 100*ms, func(u *user) { u.joins("A", false).stay(3 * time.Second).release() })
			s.user("C", 300*ms, func(u *user) {
				r := at(5)
				r.Forceful = true
				u.acquire(users, r).token().stay(100 * ms).release()
			})
			s.user("D", 600*ms, func(u *user) { u.joins("A", true).stay(3 * time.Second).release() })
			s.user("E", 400*ms, func(u *user) { u.acquire(users, at(0)).stay(50 * ms).release() })
		},
	},
	{
		name: "companions, broken", about: "an operator breaks a hold: all its members at once; what was broken is not adopted",
		probes: usersLock, known: true, forced: true, stay: 7 * time.Second,
		excuses: func(u *user, err error) bool {
			_, stale := errors.AsType[*lock.StaleTokenError](err)
			_, notHeld := errors.AsType[*lock.NotHeldError](err)
			return stale || notHeld || u.name == "D" && isNotThere(err) || u.name == "A" && isSuperseded(err) || unlessAllIsWell(u, err)
		},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, ofHold(5)).passOn().stay(3 * time.Second).release() })
			s.user("B", 100*ms, func(u *user) { u.joins("A", false).stay(3 * time.Second).release() })
			s.user("C", 200*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
			s.user("operator", 400*ms, func(u *user) { u.breaks(users, "A") })
			s.user("D", 600*ms, func(u *user) { u.adopts("A", ofHold(5)).release() })
		},
	},
}

// ofHold is a request that others can join, or adopt.
func ofHold(level priority.Level) lock.Request {
	return lock.Request{Terms: priority.Terms{Priority: level}, Identity: priority.Identity{Hold: "order-17/run-1"}}
}

func isNotThere(err error) bool {
	_, is := errors.AsType[*lock.NotThereError](err)
	return is
}

func isSuperseded(err error) bool {
	lost, is := errors.AsType[*lock.LostError](err)
	return is && lost.Reason == lock.LossSuperseded
}

// unlessAllIsWell excuses that a hold is not there when something has happened to
// somebody.
func unlessAllIsWell(u *user, err error) bool {
	if !isNotThere(err) {
		return false
	}
	for _, other := range u.s.everybody() {
		if other.suffer(func(*fault) bool { return true }) {
			return true
		}
	}
	return false
}

// refers tells everybody how a hold can be found.
func (s *stage) refers(name string, ref lock.Reference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs == nil {
		s.refs = make(map[string]lock.Reference)
	}
	s.refs[name] = ref
}

func (s *stage) reference(name string) (ref lock.Reference, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref, known = s.refs[name]
	return ref, known
}

// passOn tells everybody the reference, with the token.
func (h *hold) passOn() *hold {
	return h.call("passes its reference on", func(ctx context.Context, g *lock.Grant) error {
		if _, err := g.Token(ctx); err != nil {
			return err
		}
		h.u.s.refers(h.u.name, g.Reference())
		return nil
	})
}

// dies ends the session, as if the process did, and waits until its holder
// learns of it.
func (h *hold) dies() *hold {
	if h == nil {
		return nil
	}
	if id, _ := h.u.client.Session(); id != 0 {
		h.u.s.z.Expire(id)
	}
	return h.stay(time.Minute)
}

// joins becomes a companion of a user's hold.
func (u *user) joins(whose string, cleanup bool) *hold {
	return u.accedes(whose, lock.Request{ForCleanup: cleanup}, (*lock.PriorityLock).Join)
}

// adopts takes the place of a user.
func (u *user) adopts(whose string, r lock.Request) *hold {
	return u.accedes(whose, r, (*lock.PriorityLock).Adopt)
}

func (u *user) accedes(whose string, r lock.Request, how func(*lock.PriorityLock, context.Context, lock.Reference, lock.Request) (*lock.Grant, error)) *hold {
	ref, known := u.s.reference(whose)
	if !known {
		u.s.tell(u.name, "knows nothing of %s", whose)
		return nil
	}
	l, err := u.client.PriorityLock(ref.Scope)
	if err != nil {
		u.s.foul("%v", err)
		return nil
	}
	h := u.asks(ref.Scope, ref.Mode)
	h.id = ref.Hold
	r.Owner, r.Notify, r.Mode = u.name, h.hear, ref.Mode
	g, err := how(l, u.life, ref, r)
	if g == nil {
		return h.answer(nil, err)
	}
	h.guid, h.node = g.ID(), g.ID()
	return h.answer(g, err)
}
