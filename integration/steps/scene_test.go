package steps

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A scene is a few users and what each of them does. They must not wait for each
// other but by locks: a fault may take any of them away.
type scene struct {
	name   string
	about  string // the steps that are in it
	forced bool   // locks are taken from holders that may not know yet
	known  bool   // users have credentials
	play   func(s *stage)

	adopted bool // locks are adopted from holders that may not know yet

	// excuses are errors that belong to the scene.
	excuses func(u *user, err error) bool

	// stay is by how much longer it may take when a user does not do its part: how
	// long others hold that would be preempted.
	stay time.Duration

	// stands is a watch that may stay at the server, once for each client, until
	// somebody uses the recipe again: none that others had to be disturbed for.
	stands string

	// probes take each lock and give it back.
	probes []func(ctx context.Context, c *lock.Client) error
}

const (
	ms    = time.Millisecond
	users = "users"
)

func at(level priority.Level) lock.Request {
	return lock.Request{Terms: priority.Terms{Priority: level}}
}

func sharing(level priority.Level) lock.Request {
	return lock.Request{Terms: priority.Terms{Priority: level, Mode: priority.Shared}}
}

func takes(scope string) func(ctx context.Context, c *lock.Client) error {
	return func(ctx context.Context, c *lock.Client) error {
		l, err := c.PriorityLock(scope)
		if err != nil {
			return err
		}
		g, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "probe"}})
		if err != nil {
			return err
		}
		return g.Release(ctx)
	}
}

var usersLock = []func(context.Context, *lock.Client) error{takes(users)}

// scenes of the priority lock.
var scenes = []scene{
	{
		name: "alone", about: "T1 cold with parents missing, token, T11, T5; T1 warm, by the remembered version",
		probes: usersLock,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				u.acquire(users, at(5)).token().stay(30 * ms).extend(time.Minute).token().stay(20 * ms).release()
				u.acquire(users, at(5)).release()
				u.acquire(users, at(5)).stay(5 * ms).release()
			})
			s.user("B", 150*ms, func(u *user) {
				u.acquire(users, at(1)).token().release()
			})
		},
	},
	{
		name: "rush", about: "three find nothing there, not even parents, at the same time: T1 that comes too late, T2",
		probes: usersLock,
		play: func(s *stage) {
			for i, name := range []string{"A", "B", "C"} {
				s.user(name, 0, func(u *user) {
					u.acquire(users, at(priority.Level(i))).token().stay(60 * ms).release()
				})
			}
		},
	},
	{
		name: "hand-over", about: "T2, own watch, G, list, watch on the one in front, T4 twice; then T5",
		probes: usersLock,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, at(5)).stay(600 * ms).release() })
			s.user("B", 100*ms, func(u *user) { u.acquire(users, at(5)).token().stay(300 * ms).extend(time.Minute).release() })
			s.user("C", 200*ms, func(u *user) { u.acquire(users, at(5)).stay(300 * ms).release() })
		},
	},
	{
		name: "short holds", about: "holds of a few milliseconds, one after the other: hand-over without a read, T5 without a look, T3",
		probes: usersLock,
		play: func(s *stage) {
			for i, name := range []string{"A", "B", "C"} {
				s.user(name, time.Duration(i)*3300*time.Microsecond, func(u *user) {
					for range 3 {
						u.acquire(users, at(5)).stay(4 * ms).release()
					}
				})
			}
		},
	},
	{
		name: "preempt", about: "T6 to a holder that cleans up and goes; one behind that waits; token after T6",
		probes: usersLock, stay: 4 * time.Second,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := at(1)
				r.CleanupTimeout = time.Second
				u.acquire(users, r).stay(50*ms).serve(2*time.Second, 500*ms).token().release()
			})
			s.user("B", 100*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
			s.user("C", 200*ms, func(u *user) { u.acquire(users, at(0)).stay(50 * ms).release() })
		},
	},
	{
		name: "displaced", about: "T6, then one more important comes: T6 is withdrawn, and made again by the other",
		probes: usersLock, stay: 4 * time.Second,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := at(1)
				r.CleanupTimeout = 2 * time.Second
				u.acquire(users, r).serve(2*time.Second, time.Second).release()
			})
			s.user("B", 100*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
			s.user("C", 300*ms, func(u *user) { u.acquire(users, at(9)).stay(100 * ms).release() })
		},
	},
	{
		name: "take over", about: "T6 with a grace that is not heeded, T7; the victim hears of it; one behind",
		probes: usersLock, forced: true, stay: 7 * time.Second,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := at(1)
				r.CleanupTimeout = 500 * ms
				u.acquire(users, r).stay(3 * time.Second).release()
			})
			s.user("B", 100*ms, func(u *user) {
				r := at(5)
				r.Forceful = true
				u.acquire(users, r).token().stay(200 * ms).release()
			})
			s.user("C", 200*ms, func(u *user) { u.acquire(users, at(0)).stay(50 * ms).release() })
		},
	},
	{
		name: "lease", about: "the lease ends, of an equal: T6 for the lease, T7",
		probes: usersLock, forced: true, stay: 7 * time.Second,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := at(5)
				r.LeaseTimeout = 500 * ms
				u.acquire(users, r).stay(3 * time.Second).release()
			})
			s.user("B", 100*ms, func(u *user) { u.acquire(users, at(5)).stay(200 * ms).release() })
			s.user("C", 200*ms, func(u *user) { u.acquire(users, at(5)).stay(50 * ms).release() })
		},
	},
	{
		name: "leave", about: "T8 by the acquire timeout, from the middle; a polite one whose waiting timeout ends, with its request taken back; a try",
		probes: usersLock,
		excuses: func(u *user, err error) bool {
			_, pending := errors.AsType[*lock.CleanupPendingError](err)
			return lock.IsNotAcquired(err) && u.name != "A" && u.name != "C" || pending && u.name == "D"
		},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := at(5)
				r.CleanupTimeout = 10 * time.Second
				u.acquire(users, r).stay(2 * time.Second).release()
			})
			s.user("B", 100*ms, func(u *user) {
				r := at(3)
				r.AcquireTimeout = new(500 * ms)
				u.acquire(users, r).release()
			})
			s.user("C", 200*ms, func(u *user) { u.acquire(users, at(2)).stay(100 * ms).release() })
			s.user("D", 900*ms, func(u *user) {
				r := at(9)
				r.WaitingTimeout = new(300 * ms)
				u.acquire(users, r).release()
				r.AcquireTimeout = new(0 * ms)
				u.acquire(users, r).release()
			})
		},
	},
	{
		name: "shared", about: "T1 beside others, an exclusive one behind two readers, a reader behind that; the last reader hands over, then to several",
		probes: usersLock,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, sharing(5)).token().stay(500 * ms).release() })
			s.user("B", 50*ms, func(u *user) { u.acquire(users, sharing(5)).token().stay(600 * ms).release() })
			s.user("C", 150*ms, func(u *user) { u.acquire(users, at(5)).stay(200 * ms).release() })
			s.user("D", 250*ms, func(u *user) { u.acquire(users, sharing(5)).stay(200 * ms).release() })
			s.user("E", 350*ms, func(u *user) { u.acquire(users, sharing(5)).token().stay(250 * ms).release() })
		},
	},
	{
		name: "walk in", about: "T18 of two readers beside those that have opened the lock, one of them again without a look; an exclusive one that shuts it; the last of them hands over",
		probes: usersLock,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, sharing(5)).token().stay(300 * ms).release() })
			s.user("B", 50*ms, func(u *user) { u.acquire(users, sharing(5)).stay(350 * ms).release() })
			s.user("D", 100*ms, func(u *user) {
				u.acquire(users, sharing(5)).token().stay(50 * ms).release()
				u.acquire(users, sharing(5)).stay(400 * ms).release()
			})
			s.user("E", 150*ms, func(u *user) { u.acquire(users, sharing(5)).stay(200 * ms).release() })
			s.user("C", 250*ms, func(u *user) { u.acquire(users, at(5)).token().stay(100 * ms).release() })
		},
	},
	{
		name: "shared, preempted", about: "T6 to two readers, and to a third that came in meanwhile; T7 of those that do not go",
		probes: usersLock, forced: true, stay: 7 * time.Second,
		play: func(s *stage) {
			reader := func(u *user, heeds bool) {
				r := sharing(1)
				r.CleanupTimeout = time.Second
				h := u.acquire(users, r)
				if heeds {
					h.serve(3*time.Second, 300*ms).release()
				} else {
					h.stay(3 * time.Second).release()
				}
			}
			s.user("A", 0, func(u *user) { reader(u, true) })
			s.user("B", 50*ms, func(u *user) { reader(u, false) })
			s.user("C", 150*ms, func(u *user) {
				r := at(5)
				r.Forceful = true
				u.acquire(users, r).token().stay(200 * ms).release()
			})
			s.user("D", 400*ms, func(u *user) {
				u.acquire(users, sharing(9)).stay(100 * ms).release()
			})
		},
	},
	{
		name: "downgrade", about: "T10, T3 of a reader that waited, a writer behind both",
		probes: usersLock,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				u.acquire(users, at(5)).stay(300 * ms).downgrade().token().stay(300 * ms).release()
			})
			s.user("B", 100*ms, func(u *user) { u.acquire(users, sharing(5)).token().stay(500 * ms).release() })
			s.user("C", 200*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
		},
	},
	{
		name: "other terms", about: "T12 of one that moves past another, T13 of one that becomes forceful in its place, T7",
		probes: usersLock, forced: true, stay: 7 * time.Second,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				r := at(4)
				r.CleanupTimeout = 300 * ms
				u.acquire(users, r).stay(3 * time.Second).release()
			})
			s.user("B", 100*ms, func(u *user) {
				r := at(5)
				r.Revise = become(r, 800*ms, func(t *lock.Revision) { t.Forceful = true })
				u.acquire(users, r).stay(200 * ms).release()
			})
			s.user("C", 200*ms, func(u *user) {
				r := at(2)
				r.Revise = become(r, 400*ms, func(t *lock.Revision) { t.Priority = 7 })
				u.acquire(users, r).stay(200 * ms).release()
			})
			s.user("D", 1200*ms, func(u *user) {
				r := at(9)
				r.Forceful = true
				u.acquire(users, r).stay(50 * ms).release()
			})
		},
	},
	{
		name: "break", about: "an operator breaks the lock of one that others wait for",
		probes: usersLock, known: true, forced: true, stay: 7 * time.Second,
		excuses: func(_ *user, err error) bool { // when the holder has lost it otherwise
			_, stale := errors.AsType[*lock.StaleTokenError](err)
			_, notHeld := errors.AsType[*lock.NotHeldError](err)
			return stale || notHeld
		},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.acquire(users, at(5)).stay(3 * time.Second).release() })
			s.user("B", 100*ms, func(u *user) { u.acquire(users, at(5)).stay(100 * ms).release() })
			s.user("C", 200*ms, func(u *user) { u.acquire(users, sharing(5)).stay(100 * ms).release() })
			s.user("operator", 400*ms, func(u *user) { u.breaks(users, "A") })
		},
	},
}

// become are terms that are others after a while.
func become(r lock.Request, after time.Duration, change func(*lock.Revision)) func() (lock.Revision, <-chan struct{}) {
	terms := lock.Revision{
		Terms: priority.Terms{
			Priority: r.Priority, Forceful: r.Forceful, WaitingTimeout: r.WaitingTimeout,
			LeaseTimeout: priority.DefaultLeaseTimeout, CleanupTimeout: r.CleanupTimeout,
		},
	}
	changed := make(chan struct{})
	time.AfterFunc(after, func() { close(changed) })
	return func() (lock.Revision, <-chan struct{}) {
		select {
		case <-changed:
			now := terms
			change(&now)
			return now, nil
		default:
			return terms, changed
		}
	}
}

// breaks takes the lock from a holder by an operator's hand.
func (u *user) breaks(scope, owner string) {
	fails := func(what string, err error) bool {
		u.s.tell(u.name, "%s: error %v", what, err)
		if err != nil && !u.excuses(err) {
			u.s.foul("%s: %s: %v", u.name, what, err)
		}
		return err != nil
	}
	state, err := u.client.Lock(u.life, scope)
	if fails("looks", err) {
		return
	}
	for _, h := range state.Holders {
		if h.Owner != owner {
			continue
		}
		_, err := u.client.Break(u.life, lock.BreakRequest{Scope: scope, Token: h.Token, By: "ann", Reason: "stuck"})
		if !fails("breaks the lock of "+owner, err) {
			u.s.referee.broken(h)
		}
	}
}
