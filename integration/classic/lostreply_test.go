package classic

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// N3
func TestNodeWhoseCreationWasNotAnsweredIsAdopted(t *testing.T) {
	t.Parallel()
	for _, naming := range []func(*recipes.MutexOptions){func(*recipes.MutexOptions) {}, kazoo} {
		h := shareHouse(t)
		wire := &wire{}
		c, shell := h.client(through(wire)), h.shell()
		m := h.mutex(c, naming)
		h.make(shell, users, nil, 0)
		require.NoError(t, c.Ready(t.Context()))

		wire.behind(opCreate, 0, wire.cut)
		u := h.hold("ann", m.Acquire)
		require.True(t, wire.unset())

		require.Equal(t, []string{nodeName(u.grant)}, h.children(shell, users))
		require.Contains(t, u.grant.Path(), "0000000000", "the node of the first attempt")
		u.release()
		h.nobodyThere()
	}
}

// N4
func TestReleaseWhoseAnswerIsLostFreesTheMutex(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &wire{}
	m := h.mutex(h.client(through(wire)))
	for range 3 {
		u := h.hold("ann", m.Acquire)
		wire.behind(opDelete, 0, wire.cut)
		u.release()
		require.True(t, wire.unset())
	}
	h.nobodyThere()
}

// A course is one way through a recipe, which is disturbed at each step.
type course struct {
	name string
	run  func(ctx context.Context) error
}

// courses of one client's mutexes, with those of another in the way.
func courses(h *house, mine, others *recipes.Client) []course {
	cycle := func(acquire acquirer) func(context.Context) error {
		return func(ctx context.Context) error {
			g, err := acquire(ctx)
			if err != nil {
				return err
			}
			return g.Release(ctx)
		}
	}
	behind := func(other acquirer, m func(*told) acquirer) func(context.Context) error {
		return func(ctx context.Context) error {
			holder, err := other(context.Background())
			if err != nil {
				return err
			}
			told := h.listen("mine")
			acquired := make(chan error, 1)
			go func() { acquired <- cycle(m(told))(ctx) }()
			told.queuedOr(ctx)
			return errors.Join(holder.Release(context.Background()), <-acquired)
		}
	}
	rw := h.rwmutex(mine)
	return []course{
		{"free", cycle(h.mutex(mine).Acquire)},
		{"try", cycle(h.mutex(mine).TryAcquire)},
		{"behind another", behind(h.mutex(others).Acquire, func(n *told) acquirer { return h.mutex(mine, telling(n)).Acquire })},
		{"reader behind a writer", behind(h.rwmutex(others).AcquireWrite, func(n *told) acquirer { return h.rwmutex(mine, telling(n)).AcquireRead })},
		{"writer that becomes a reader", func(ctx context.Context) error {
			writer, err := rw.AcquireWrite(ctx)
			if err != nil {
				return err
			}
			reader, err := rw.AcquireRead(writer.Context(ctx))
			err = errors.Join(err, writer.Release(ctx))
			if reader != nil {
				err = errors.Join(err, reader.Release(ctx))
			}
			return err
		}},
	}
}

// queuedOr waits until the request stands in line, or its caller leaves.
func (n *told) queuedOr(ctx context.Context) {
	for deadline := time.After(soon); ; {
		n.mu.Lock()
		seen, news := len(n.notices) > 0, n.news
		n.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		case <-deadline:
			return
		}
	}
}

// The connection breaks at each request in turn, right after it was sent: its
// answer is lost, and whether it was executed is not known. The request goes on
// as if nothing had happened, and leaves nothing behind.
//
// N3, N4
func TestRequestWhoseAnswerIsLostAtAnyStepGoesOn(t *testing.T) {
	t.Parallel()
	disturb(t, func(w *wire, step int, _ context.CancelFunc) { w.behind(opAny, step, w.cut) }, func(err error) error { return err })
}

// N7
func TestAcquireThatIsCancelledAtAnyStepLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(w *wire, step int, cancel context.CancelFunc){
		"before a request": func(w *wire, step int, cancel context.CancelFunc) { w.before(opAny, step, cancel) },
		"behind a request": func(w *wire, step int, cancel context.CancelFunc) { w.behind(opAny, step, cancel) },
		"as its answer is lost": func(w *wire, step int, cancel context.CancelFunc) {
			w.behind(opAny, step, func() {
				w.cut()
				cancel()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disturb(t, set, func(err error) error {
				if errors.Is(err, context.Canceled) {
					return nil
				}
				return err
			})
		})
	}
}

func disturb(t *testing.T, set func(w *wire, step int, cancel context.CancelFunc), fine func(error) error) {
	h := shareHouse(t)
	wire := &wire{}
	mine, others := h.client(through(wire)), h.client()
	require.NoError(t, mine.Ready(t.Context()))
	id, _ := mine.Session()
	for _, c := range courses(h, mine, others) {
		steps := 0
		for happened := true; happened; steps++ {
			h.story.tell("test", "%s, step %d", c.name, steps)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			set(wire, steps, cancel)
			err := c.run(ctx)
			happened = wire.unset()
			cancel()
			require.NoError(t, fine(err), "%s, step %d", c.name, steps)

			// then neither nodes nor watches are left, once what was sent is done or lost
			_, err = h.mutex(mine).Participants(t.Context())
			require.NoError(t, err)
			require.Eventually(t, func() bool { return len(h.ephemerals()) == 0 && len(h.watched()) == 0 }, soon, time.Millisecond,
				"left behind: %s, step %d", c.name, steps)
			require.NoError(t, mine.Ready(t.Context()))
		}
		t.Logf("%s: %d steps", c.name, steps-1)
	}
	again, _ := mine.Session()
	require.Equal(t, id, again)
}

// A node by our name that is not of our session would end with that one: it is
// no place in the line.
func TestNodeOfAnotherSessionIsNotAdopted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &wire{}
	c, shell := h.client(through(wire)), h.shell()
	m := h.mutex(c)
	h.make(shell, users, nil, 0)
	require.NoError(t, c.Ready(t.Context()))

	// when the creation is not answered, and the node is replaced
	stolen := ""
	wire.behind(opCreate, 0, func() {
		name := h.crowdOf(shell, users, 1)[0]
		if err := shell.Delete(h.at(users)+"/"+name, -1); err != nil {
			t.Error(err)
		}
		stolen = h.make(shell, users+"/"+name[:len(name)-10], nil, zk.FlagEphemeral|zk.FlagSequence)
		wire.cut()
	})
	u := h.hold("ann", m.Acquire)
	require.True(t, wire.unset())

	// then a new node holds, and the other is gone
	require.NotEqual(t, stolen, u.grant.Path())
	require.Equal(t, []string{u.grant.Path()}, h.ephemerals())
	id, _ := c.Session()
	_, stat, err := shell.Get(h.at(u.grant.Path()))
	require.NoError(t, err)
	require.Equal(t, id, stat.EphemeralOwner)
}

// Between the list and the watch.
func TestWaiterWhosePredecessorLeavesAsItIsLookedAtIsGranted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	for _, acquire := range []func(*recipes.Client) acquirer{
		func(c *recipes.Client) acquirer { return h.mutex(c).Acquire },
		func(c *recipes.Client) acquirer { return h.rwmutex(c).AcquireRead },
	} {
		wire := &wire{}
		c, shell := h.client(through(wire)), h.shell()
		require.NoError(t, c.Ready(t.Context()))
		holder := h.hold("ann", h.mutex(h.client()).Acquire)
		wire.before(opGetData, 0, func() {
			if err := shell.Delete(h.at(holder.grant.Path()), -1); err != nil {
				t.Error(err)
			}
		})
		h.hold("bob", acquire(c)).release()
		require.True(t, wire.unset())
	}
}
