package classic

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A world is a server whose time is virtual, and the programs that use it: an
// ensemble that has lost its data turns away, for minutes, whoever has seen more.
type world struct {
	t  *testing.T
	zk *zktest.Server
}

func virtually(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.zk = zktest.RunT(t, zktest.Pipe(), zktest.TickTime(2*time.Second), zktest.SessionTimeouts(time.Second, time.Hour))
		f(t, w)
	})
}

func (w *world) client(name string) *recipes.Client {
	w.t.Helper()
	c, err := recipes.NewClient(recipes.Config{Dialer: w.zk.Dialer(name), SessionTimeout: 10 * time.Second})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		require.NoError(w.t, c.Close(ctx))
	})
	require.NoError(w.t, c.Ready(w.t.Context()))
	return c
}

// pass lets time pass, and everybody do what is to be done by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// loseData replaces the ensemble by an empty one that has seen less than its clients.
func (w *world) loseData(clients ...*recipes.Client) {
	w.t.Helper()
	require.NoError(w.t, w.zk.Create("/lost", nil))
	for range 100 {
		require.NoError(w.t, w.zk.Set("/lost", nil))
	}
	for _, c := range clients { // which have seen that
		b, err := c.Barrier("/lost-too")
		require.NoError(w.t, err)
		require.NoError(w.t, b.Set(w.t.Context()))
	}
	w.zk.LoseData()
}

// Curator E1
func TestOneCandidateLeadsOnAnEnsembleThatIsSetUpAnew(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, w *world) {
		// given a leader and a follower
		var mu sync.Mutex
		var leading []string
		var terms []*recipes.Term
		clients := []*recipes.Client{w.client("first"), w.client("second")}
		ctx, cancel := context.WithCancel(t.Context())
		var runners sync.WaitGroup
		t.Cleanup(runners.Wait)
		t.Cleanup(cancel)
		for i, id := range []string{"first", "second"} {
			c := clients[i]
			e, err := c.Election(office, id, recipes.ElectionOptions{})
			require.NoError(t, err)
			runners.Go(func() {
				_ = e.Run(ctx, func(ctx context.Context, term *recipes.Term) error {
					mu.Lock()
					leading, terms = append(leading, id), append(terms, term)
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					defer mu.Unlock()
					leading = slices.DeleteFunc(leading, func(other string) bool { return other == id })
					return nil
				})
			})
			synctest.Wait()
		}
		now := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(leading)
		}
		require.Equal(t, []string{"first"}, now())

		// when the ensemble is empty
		w.loseData(clients...)

		// then the leader is told in time, and nobody leads
		pass(10 * time.Second)
		require.Empty(t, now())
		loss := lossOf(t, isOver(t, terms[0]))
		require.Equal(t, recipes.LossSession, loss.Reason)

		// and after some minutes exactly one does
		for range 30 {
			pass(10 * time.Second)
			require.LessOrEqual(t, len(now()), 1)
		}
		require.Len(t, now(), 1)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, terms, 2)
	})
}

// Curator S13
func TestOneOfManyHoldsThePermitOnAnEnsembleThatIsSetUpAnew(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, w *world) {
		// given ten clients and one permit
		var desk sync.Mutex
		holding := map[string]*recipes.ClassicGrant{}
		var clients []*recipes.Client
		for i := range 10 {
			clients = append(clients, w.client(fmt.Sprint(i)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var crowd sync.WaitGroup
		t.Cleanup(crowd.Wait)
		t.Cleanup(cancel)
		for i, c := range clients {
			name := fmt.Sprint(i)
			s, err := c.Semaphore(desks, permits(1))
			require.NoError(t, err)
			crowd.Go(func() {
				for ctx.Err() == nil {
					g, err := s.Acquire(ctx)
					if err != nil { // no answer
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
						}
						continue
					}
					desk.Lock()
					holding[name] = g
					desk.Unlock()
					select {
					case <-g.Lost():
					case <-ctx.Done():
						_ = g.Release(context.WithoutCancel(ctx))
					}
					desk.Lock()
					delete(holding, name)
					desk.Unlock()
				}
			})
			synctest.Wait()
		}
		inside := func() int {
			desk.Lock()
			defer desk.Unlock()
			held := 0
			for _, g := range holding {
				if g.Check() == nil {
					held++
				}
			}
			return held
		}
		require.Equal(t, 1, inside())

		// when the whole ensemble dies, and another takes its place
		w.loseData(clients...)

		// then nobody believes it holds, until exactly one does
		pass(10 * time.Second)
		require.Zero(t, inside())
		for range 30 {
			pass(10 * time.Second)
			require.LessOrEqual(t, inside(), 1)
		}
		require.Equal(t, 1, inside())
	})
}
