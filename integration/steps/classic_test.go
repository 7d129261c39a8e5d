package steps

import (
	"context"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	mutexPath     = "/classic/mutex"
	rwPath        = "/classic/rw"
	semaphorePath = "/classic/pool"
)

// classics are scenes of the recipes that Curator and Kazoo have, too.
var classics = []scene{
	{
		name: "mutex", about: "parents missing, the line, the watch on the one in front, token, release",
		probes: []func(context.Context, *lock.Client) error{takesMutex},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.mutex().stay(500 * ms).release(); u.mutex().release() })
			s.user("B", 100*ms, func(u *user) { u.mutex().classicToken().stay(200 * ms).release() })
			s.user("C", 200*ms, func(u *user) { u.mutex().stay(5 * ms).release() })
		},
	},
	{
		name: "read and write", about: "two readers, a writer behind them, a reader behind that",
		probes: []func(context.Context, *lock.Client) error{takesWrite},
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.reads().stay(400 * ms).release() })
			s.user("B", 50*ms, func(u *user) { u.reads().stay(500 * ms).release() })
			s.user("C", 150*ms, func(u *user) { u.writes().classicToken().stay(200 * ms).release() })
			s.user("D", 250*ms, func(u *user) { u.reads().stay(100 * ms).release() })
		},
	},
	{
		name: "semaphore", about: "two permits, four users: the line, the draw, the watch on the permits, release",
		probes: []func(context.Context, *lock.Client) error{takesPermit}, stands: "child on pool/leases",
		play: func(s *stage) {
			s.user("A", 0, func(u *user) { u.permit().stay(500 * ms).release() })
			s.user("B", 50*ms, func(u *user) { u.permit().stay(600 * ms).release() })
			s.user("C", 150*ms, func(u *user) { u.permit().stay(300 * ms).release() })
			s.user("D", 250*ms, func(u *user) { u.permit().stay(100 * ms).release() })
		},
	},
}

func (u *user) mutex() *hold {
	h := u.asks(mutexPath, priority.Exclusive)
	m, err := classic.NewMutex(u.client.Client, mutexPath, classic.MutexOptions{Notify: h.hear})
	return h.classic(err, func() (*classic.Grant, error) { return m.Acquire(u.life) })
}

func (u *user) reads() *hold {
	h := u.asks(rwPath, priority.Shared)
	m, err := classic.NewRWMutex(u.client.Client, rwPath, classic.MutexOptions{Notify: h.hear})
	return h.classic(err, func() (*classic.Grant, error) { return m.AcquireRead(u.life) })
}

func (u *user) writes() *hold {
	h := u.asks(rwPath, priority.Exclusive)
	m, err := classic.NewRWMutex(u.client.Client, rwPath, classic.MutexOptions{Notify: h.hear})
	return h.classic(err, func() (*classic.Grant, error) { return m.AcquireWrite(u.life) })
}

const permits = 2

func (u *user) permit() *hold {
	h := u.asks(semaphorePath, priority.Exclusive)
	h.most = permits
	m, err := classic.NewSemaphore(u.client.Client, semaphorePath, classic.SemaphoreOptions{Limit: permits, Notify: h.hear})
	return h.classic(err, func() (*classic.Grant, error) { return m.Acquire(u.life) })
}

// classic carries a request out.
func (h *hold) classic(err error, acquire func() (*classic.Grant, error)) *hold {
	if err != nil {
		h.u.s.foul("%v", err)
		return nil
	}
	g, err := acquire()
	if g == nil {
		return h.answer(nil, err)
	}
	h.node = g.Path()
	return h.answer(g, err)
}

func (h *hold) classicToken() *hold {
	if h == nil {
		return nil
	}
	if _, err := h.grant.(*classic.Grant).Token(h.u.life); err != nil && !h.u.excuses(err) {
		h.u.s.foul("%s: token: %v", h.u.name, err)
	}
	return h
}

func takesMutex(ctx context.Context, c *lock.Client) error {
	m, err := classic.NewMutex(c.Client, mutexPath, classic.MutexOptions{})
	if err != nil {
		return err
	}
	return takesClassic(ctx, m.Acquire)
}

func takesWrite(ctx context.Context, c *lock.Client) error {
	m, err := classic.NewRWMutex(c.Client, rwPath, classic.MutexOptions{})
	if err != nil {
		return err
	}
	return takesClassic(ctx, m.AcquireWrite)
}

func takesPermit(ctx context.Context, c *lock.Client) error {
	m, err := classic.NewSemaphore(c.Client, semaphorePath, classic.SemaphoreOptions{Limit: permits})
	if err != nil {
		return err
	}
	return takesClassic(ctx, m.Acquire)
}

func takesClassic(ctx context.Context, acquire func(context.Context) (*classic.Grant, error)) error {
	g, err := acquire(ctx)
	if err != nil {
		return err
	}
	return g.Release(ctx)
}
