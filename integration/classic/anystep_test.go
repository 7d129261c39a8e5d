package classic

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A course is one way through a recipe, which is disturbed at each step: what it returns plays it once.
type course struct {
	name string
	open func(f *fixture, mine, others *lock.Client) func(context.Context) error
}

var courses = []course{
	{"mutex that is free", func(f *fixture, mine, _ *lock.Client) func(context.Context) error {
		return cycle(f.mutex(mine).Acquire)
	}},
	{"try", func(f *fixture, mine, _ *lock.Client) func(context.Context) error {
		return cycle(f.mutex(mine, kazoo).TryAcquire)
	}},
	{"mutex behind another", func(f *fixture, mine, others *lock.Client) func(context.Context) error {
		return afterWait(f, f.mutex(others).Acquire, func(o func(*classic.MutexOptions)) acquirer { return f.mutex(mine, o).Acquire })
	}},
	{"reader behind a writer", func(f *fixture, mine, others *lock.Client) func(context.Context) error {
		return afterWait(f, f.rwmutex(others).AcquireWrite, func(o func(*classic.MutexOptions)) acquirer { return f.rwmutex(mine, o).AcquireRead })
	}},
	{"writer that becomes a reader", func(f *fixture, mine, _ *lock.Client) func(context.Context) error {
		m := f.rwmutex(mine)
		return func(ctx context.Context) error {
			writer, err := m.AcquireWrite(ctx)
			if err != nil {
				return err
			}
			reader, err := m.AcquireRead(writer.Context(ctx))
			err = errors.Join(err, writer.Release(ctx))
			if reader != nil {
				err = errors.Join(err, reader.Release(ctx))
			}
			return err
		}
	}},
	{"permits", func(f *fixture, mine, _ *lock.Client) func(context.Context) error {
		return draw(f.semaphore(mine, classic.SemaphoreOptions{Limit: 3, LimitPath: "/app/how-many"}).AcquireN)
	}},
	{"permits as Kazoo's", func(f *fixture, mine, _ *lock.Client) func(context.Context) error {
		return draw(f.semaphore(mine, classic.SemaphoreOptions{Limit: 3, Naming: classic.NamingKazoo}).TryAcquire)
	}},
	{"term", func(f *fixture, mine, _ *lock.Client) func(context.Context) error {
		e := f.election(mine, "first", classic.ElectionOptions{})
		return func(ctx context.Context) error {
			term, err := e.Campaign(ctx)
			if err != nil {
				return err
			}
			return term.Resign(ctx)
		}
	}},
	{"run of terms", func(f *fixture, mine, _ *lock.Client) func(context.Context) error {
		e := f.election(mine, "first", classic.ElectionOptions{Policy: classic.PolicyStrict})
		return func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			err := e.Run(ctx, func(context.Context, *classic.Term) error { cancel(); return nil })
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}},
	{"double barrier", func(f *fixture, mine, others *lock.Client) func(context.Context) error {
		member := func(ctx context.Context, b *classic.DoubleBarrier) error {
			m, err := b.Enter(ctx)
			if err != nil {
				return err
			}
			return m.Leave(ctx)
		}
		round := 0
		return func(ctx context.Context) error {
			round++
			at := fmt.Sprintf("%s-%d", meeting, round)
			second := f.run(func(context.Context) error { return member(ctx, f.doubleBarrier(others, at, 2)) })
			return errors.Join(member(ctx, f.doubleBarrier(mine, at, 2)), second.Err())
		}
	}},
}

// cycle acquires and releases.
func cycle(acquire acquirer) func(context.Context) error {
	return func(ctx context.Context) error {
		g, err := acquire(ctx)
		if err != nil {
			return err
		}
		return g.Release(ctx)
	}
}

// draw takes two permits and returns them.
func draw(acquire func(context.Context, int) ([]*classic.Grant, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		held, err := acquire(ctx, 2)
		if err != nil {
			return err
		}
		return errors.Join(held[0].Release(ctx), held[1].Release(ctx))
	}
}

// afterWait is a cycle behind a holder, who releases once the request waits.
func afterWait(f *fixture, holder acquirer, mine func(func(*classic.MutexOptions)) acquirer) func(context.Context) error {
	return func(ctx context.Context) error {
		g, err := holder(context.Background())
		if err != nil {
			return err
		}
		queued := make(chan struct{}, 10)
		acquire := mine(func(o *classic.MutexOptions) { o.Notify = func(lock.Notice) { queued <- struct{}{} } })
		waiter := f.run(func(context.Context) error { return cycle(acquire)(ctx) })
		select {
		case <-queued:
		case <-waiter.Done():
		}
		return errors.Join(g.Release(context.Background()), waiter.Err())
	}
}

// eachStep plays each course again and again, with another request disturbed each time, until all have been.
func eachStep(t *testing.T, disturb func(at *zktest.Fault) *zktest.Rule, reached func(p *zktest.Proxy, session int64, cancel func(), done <-chan struct{})) {
	t.Helper()
	for _, c := range courses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			mine, proxy := f.proxied(timeout(30 * time.Second))
			play := c.open(f, mine, f.client())
			id, _ := mine.Session()
			for step, happened := 1, true; happened; step++ {
				f.History.Add("test", "step %d", step)
				rule := disturb(proxy.On(zktest.Any().Where(isWork).Nth(step)))
				call := f.run(play)
				if reached != nil {
					select {
					case <-rule.Reached():
						reached(proxy, id, call.Cancel, call.Done())
					case <-call.Done():
					}
				}
				if err := call.Err(); reached == nil || !errors.Is(err, context.Canceled) {
					require.NoError(t, err, "step %d", step)
				}
				happened = rule.Fired() > 0
				rule.Remove()
				_, err := mine.Stat(t.Context(), "/")
				require.NoError(t, err, "what was held is executed before this")

				// then neither nodes nor watches are left
				harness.Eventually(t, func() bool { return len(f.left()) == 0 }, "something is left behind at step %d", step)
				require.NoError(t, mine.Ready(t.Context()))
			}
			again, _ := mine.Session()
			require.Equal(t, id, again)
		})
	}
}

// isWork is for what the recipes ask.
func isWork(r zktest.Request) bool { return r.Op != zktest.Ping && r.Op != zktest.Connect }

// left are the nodes and watches that should be gone. A watch on the opening of a barrier stays.
func (f *fixture) left() []string {
	left := f.Ephemerals()
	for _, p := range f.Watches() {
		if !strings.HasPrefix(p, meeting) {
			left = append(left, "watch on "+p)
		}
	}
	for _, round := range f.Children(path.Dir(meeting)) {
		if open := path.Dir(meeting) + "/" + round + "/ready"; f.Exists(open) {
			left = append(left, open)
		}
	}
	return left
}

// The connection breaks at each answer in turn. The request goes on as if nothing had happened.
//
// N3, N4; Curator E4, E9
func TestRequestWhoseAnswerIsLostAtAnyStepGoesOn(t *testing.T) {
	t.Parallel()
	eachStep(t, (*zktest.Fault).DropReply, nil)
}

// The caller is back at once, whatever ZooKeeper has done by then, or will do.
//
// N7; Curator E5
func TestAcquireThatIsCancelledAtAnyStepLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	late := func(_ *zktest.Proxy, _ int64, cancel func(), done <-chan struct{}) {
		cancel()
		harness.Receive(t, done, "the caller is held up by an answer that is late")
	}
	for name, play := range map[string]struct {
		disturb func(*zktest.Fault) *zktest.Rule
		reached func(*zktest.Proxy, int64, func(), <-chan struct{})
	}{
		"before it is executed": {(*zktest.Fault).Hold, late},
		"before it is answered": {(*zktest.Fault).HoldReply, late},
		"as its answer is lost": {(*zktest.Fault).HoldReply, func(p *zktest.Proxy, session int64, cancel func(), _ <-chan struct{}) {
			cancel()
			p.Disconnect(session)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStep(t, play.disturb, play.reached)
		})
	}
}

// A node by our name that is not of our session would end with that one: it is no place in the queue.
func TestNodeOfAnotherSessionIsNotAdopted(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, proxy := f.proxied()
	f.Create(users, nil, 0)

	// when the creation is not answered, and the node is replaced
	creating := proxy.On(f.on(zktest.Create, users+"/*").Nth(1)).HoldReply()
	r := f.ask("ann", f.mutex(c).Acquire)
	reached(t, creating)
	name := f.Filled(users, 1)[0]
	f.Delete(users + "/" + name)
	stolen := f.Create(users+"/"+name[:len(name)-10], nil, zk.FlagEphemeral|zk.FlagSequence)
	id, _ := c.Session()
	require.True(t, proxy.Disconnect(id))
	creating.Release()

	// then a new node holds, and the other is gone
	require.NotEqual(t, stolen, r.Path())
	require.Equal(t, []string{r.Path()}, f.Ephemerals())
	_, stat := f.Get(r.Path())
	require.Equal(t, id, stat.EphemeralOwner)
}

// Between the list and the watch.
func TestWaiterWhosePredecessorLeavesAsItIsLookedAtIsGranted(t *testing.T) {
	t.Parallel()
	for name, side := range map[string]func(*classic.RWMutex) acquirer{"writer": writing, "reader": reading} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			c, proxy := f.proxied()
			holder := f.hold("ann", f.mutex(f.client()).Acquire)
			looking := proxy.On(f.on(zktest.GetData, holder.Path()).Nth(1)).Hold()
			waiter := f.ask("bob", side(f.rwmutex(c)))
			reached(t, looking)
			f.Delete(holder.Path())
			looking.Release()
			waiter.Release()
		})
	}
}
