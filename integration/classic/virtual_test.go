package classic

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// virtually plays a test in virtual time.
func virtually(t *testing.T, f func(t *testing.T, w *virtual.World)) {
	t.Helper()
	t.Parallel()
	virtual.Run(t, func(w *virtual.World) { f(w.T, w) })
}

// member connects a client with a session of 10s.
func member(w *virtual.World, name string, change ...func(*lock.Config)) *lock.Client {
	w.Helper()
	return w.Connect(name, 10*time.Second, change...)
}

func mutexAt(w *virtual.World, c *lock.Client, path string, notify func(lock.Notice)) *classic.Mutex {
	w.Helper()
	m, err := classic.NewMutex(c.Client, path, classic.MutexOptions{Notify: notify})
	require.NoError(w, err)
	return m
}

func acquired(w *virtual.World, m *classic.Mutex) *classic.Grant {
	w.Helper()
	g, err := m.Acquire(w.Context())
	require.NoError(w, err)
	return g
}

// loseData replaces the ensemble by an empty one that has seen less than its clients, and turns them away for minutes.
func loseData(w *virtual.World, clients ...*lock.Client) {
	w.Helper()
	require.NoError(w, w.Create("/lost", nil))
	for range 100 {
		require.NoError(w, w.Set("/lost", nil))
	}
	for _, c := range clients { // which have seen that
		b, err := classic.NewBarrier(c.Client, "/lost-too")
		require.NoError(w, err)
		require.NoError(w, b.Set(w.Context()))
	}
	w.LoseData()
}

// Curator E1, S13
func TestOneHoldsOnAnEnsembleThatIsSetUpAnew(t *testing.T) {
	for name, contend := range map[string]func(w *virtual.World, c *lock.Client) func(ctx context.Context, enter func(check func() error) (leave func())) error{
		"term": func(w *virtual.World, c *lock.Client) func(context.Context, func(func() error) func()) error {
			e, err := classic.NewElection(c.Client, office, "anyone", classic.ElectionOptions{})
			require.NoError(w, err)
			return func(ctx context.Context, enter func(func() error) func()) error {
				return e.Run(ctx, func(ctx context.Context, term *classic.Term) error {
					defer enter(term.Check)()
					<-ctx.Done()
					return nil
				})
			}
		},
		"permit": func(w *virtual.World, c *lock.Client) func(context.Context, func(func() error) func()) error {
			s, err := classic.NewSemaphore(c.Client, desks, permits(1))
			require.NoError(w, err)
			return func(ctx context.Context, enter func(func() error) func()) error {
				g, err := s.Acquire(ctx)
				if err != nil {
					return err
				}
				defer enter(g.Check)()
				select {
				case <-g.Lost():
				case <-ctx.Done():
				}
				return g.Release(context.WithoutCancel(ctx))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *virtual.World) {
				var mu sync.Mutex
				holds := map[int]func() error{}
				inside := func() (n int) {
					mu.Lock()
					defer mu.Unlock()
					for _, check := range holds {
						if check() == nil {
							n++
						}
					}
					return n
				}

				// given one that holds, and others that wait
				var clients []*lock.Client
				for i := range 6 {
					clients = append(clients, member(w, fmt.Sprint(i)))
				}
				ctx, cancel := context.WithCancel(t.Context())
				var crowd sync.WaitGroup
				t.Cleanup(crowd.Wait)
				t.Cleanup(cancel)
				for i, c := range clients {
					run := contend(w, c)
					crowd.Go(func() {
						for ctx.Err() == nil {
							_ = run(ctx, func(check func() error) func() {
								mu.Lock()
								defer mu.Unlock()
								holds[i] = check
								return func() {
									mu.Lock()
									defer mu.Unlock()
									delete(holds, i)
								}
							})
							select { // there is no answer for long
							case <-time.After(time.Second):
							case <-ctx.Done():
							}
						}
					})
					synctest.Wait()
				}
				require.Equal(t, 1, inside())

				// when the whole ensemble dies, and another takes its place
				loseData(w, clients...)

				// then no client believes it holds, until exactly one does
				w.Pass(10 * time.Second)
				require.Zero(t, inside())
				for range 30 {
					w.Pass(10 * time.Second)
					require.LessOrEqual(t, inside(), 1)
				}
				require.Equal(t, 1, inside())
			})
		})
	}
}

// N3, with a member of the ensemble that is behind: a client that read there without a sync would not find its node,
// create another, and wait for itself. Only an embedded server shows the past until a client syncs.
func TestNodeWhoseCreationWasNotAnsweredIsFoundBehindAFollowerThatLags(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	follower, err := server.Listen("follower")
	require.NoError(t, err)

	// given a client that comes back to the follower when its connection breaks
	dials := 0
	c := harness.NewClient(t, lock.Config{
		Servers: []string{server.Addr()},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials > 1 {
				addr = follower.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	m, err := classic.NewMutex(c.Client, users, classic.MutexOptions{})
	require.NoError(t, err)
	g, err := m.Acquire(t.Context()) // else there is more to create
	require.NoError(t, err)
	require.NoError(t, g.Release(t.Context()))
	follower.Lag(-1)

	// when the creation of its node is not answered
	server.On(zktest.Op(zktest.Create).Path(users + "/*").Nth(1)).DropReply()
	g, err = m.Acquire(t.Context())

	// then it holds by that node
	require.NoError(t, err)
	var children []string
	for _, node := range server.Tree(users) {
		if node.Path != users {
			children = append(children, node.Path)
		}
	}
	require.Equal(t, []string{g.Path()}, children)
	require.NoError(t, g.Release(t.Context()))
	require.Equal(t, 2, dials)
}

func TestCallbackThatChecksWhatIsAtRiskDoesNotBlockOthers(t *testing.T) {
	virtually(t, func(t *testing.T, w *virtual.World) {
		c := member(w, "mine", func(cfg *lock.Config) { cfg.Margin = 4 * time.Second }) // it is lost soon after it is at risk

		// given a holder who checks when told of a risk, and another beside it
		var ann *classic.Grant
		var told []lock.Notice
		ann = acquired(w, mutexAt(w, c, "/locks/one", func(n lock.Notice) {
			if _, ok := n.(lock.AtRisk); ok {
				_ = ann.Check()
			}
			told = append(told, n)
		}))
		bob := acquired(w, mutexAt(w, c, users, nil))

		// when ZooKeeper falls silent
		w.Partition("mine")
		w.Pass(9 * time.Second)

		// then both are lost before the session can end, and the callback is notified of that, once
		// and last
		require.Equal(t, lock.LossSession, lossOf(t, ann.Check()).Reason)
		require.Equal(t, lock.LossSession, lossOf(t, bob.Check()).Reason)
		require.Len(t, told, 2)
		require.IsType(t, lock.AtRisk{}, told[0])
		require.IsType(t, lock.Lost{}, told[1])
		w.Heal()
	})
}

// The client hears no answers, so its hold ends; the server hears the client, so the session lives on. The node must
// not.
func TestHolderThatHearsNoAnswersLosesAndLeavesNothingInTheWay(t *testing.T) {
	virtually(t, func(t *testing.T, w *virtual.World) {
		c := member(w, "mine", func(cfg *lock.Config) { cfg.Margin = 4 * time.Second }) // a hold ends long before the session
		holder := acquired(w, mutexAt(w, c, users, nil))
		granted := make(chan *classic.Grant, 1)
		other := mutexAt(w, member(w, "other"), users, nil)
		go func() {
			if g, err := other.Acquire(w.Context()); err == nil {
				granted <- g
			}
		}()
		synctest.Wait()
		id, _ := c.Session()

		silence := w.On(zktest.Any().From("mine")).HoldReply()
		<-holder.Lost()
		require.Equal(t, lock.LossSession, lossOf(t, holder.Check()).Reason)
		require.Empty(t, granted)
		silence.Release()

		require.NoError(t, harness.Receive(t, granted, "the node is in the way").Release(t.Context()))
		require.NoError(t, c.Ready(t.Context()))
		again, _ := c.Session()
		require.Equal(t, id, again)
	})
}
