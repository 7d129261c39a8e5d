package classic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	desks   = "/app/desks"
	line    = desks + "/locks"
	leases  = desks + "/leases"
	howMany = "/app/how-many"
)

func permits(limit int) classic.SemaphoreOptions { return classic.SemaphoreOptions{Limit: limit} }

func (f *fixture) semaphore(c *lock.Client, o classic.SemaphoreOptions) *classic.Semaphore {
	f.Helper()
	s, err := classic.NewSemaphore(c.Client, desks, o)
	require.NoError(f, err)
	return s
}

// free checks how many permits are free.
func (f *fixture) free(s *classic.Semaphore, want int) {
	f.Helper()
	n, err := s.Left(f.Context())
	require.NoError(f, err)
	require.Equal(f, want, n)
}

// take acquires permits.
func (f *fixture) take(s *classic.Semaphore, n int) []*classic.Grant {
	f.Helper()
	held, err := s.AcquireN(f.Context(), n)
	require.NoError(f, err)
	require.Len(f, held, n)
	return held
}

// noPermits is what a try or a timeout returns.
func noPermits(t testing.TB, err error) *classic.NoPermitsError {
	t.Helper()
	var short *classic.NoPermitsError
	require.ErrorAs(t, err, &short)
	notAcquired(t, err) // as every recipe's refusal
	return short
}

// eachLayout plays a scenario with Kazoo's layout, and with Curator's.
func eachLayout(t *testing.T, scenario func(t *testing.T, f *fixture, o classic.SemaphoreOptions)) {
	t.Parallel()
	for naming, name := range map[classic.Naming]string{classic.NamingCurator: "as Curator", classic.NamingKazoo: "as Kazoo"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, share(t), classic.SemaphoreOptions{Naming: naming, Limit: 1})
		})
	}
}

// Helix 20 to 23; Curator S5; Kazoo K22, K25
func TestPermitsAreTakenAllOrNoneAndReturnedOnce(t *testing.T) {
	eachLayout(t, func(t *testing.T, f *fixture, o classic.SemaphoreOptions) {
		o.Limit = 5
		s := f.semaphore(f.client(), o)

		// given a capacity of five: one is taken, four are left
		one := f.hold("one", s.Acquire)
		f.free(s, 4)

		// when four are taken, none is left for four more, and one call takes nothing
		one.Release()
		four, err := s.TryAcquire(t.Context(), 4)
		require.NoError(t, err)
		f.free(s, 1)
		none, err := s.TryAcquire(t.Context(), 4)
		require.Nil(t, none)
		require.Equal(t, 1, noPermits(t, err).Left)
		require.NoError(t, s.Release(t.Context(), none...), "there is nothing to return")
		f.free(s, 1)

		// then one is returned, and a second time without harm
		require.NoError(t, four[0].Release(t.Context()))
		require.ErrorIs(t, four[0].Release(t.Context()), lock.ErrReleased)
		f.free(s, 2)

		// and all the others
		require.NoError(t, s.Release(t.Context(), four[1:]...))
		f.free(s, 5)
		f.NoEphemerals()
	})
}

// Curator S10; Kazoo K21, K23
func TestPermitsThatAreHeldAreListed(t *testing.T) {
	eachLayout(t, func(t *testing.T, f *fixture, o classic.SemaphoreOptions) {
		o.Limit = 3
		mine := f.client()
		named := o
		named.ID = "sémaphore"
		s, onlooker := f.semaphore(mine, named), f.semaphore(f.client(), o)
		none, err := onlooker.Permits(t.Context())
		require.NoError(t, err)
		require.Empty(t, none)
		held, third := f.take(s, 2), f.hold("third", s.Acquire)
		_, err = onlooker.TryAcquire(t.Context(), 1)
		require.Equal(t, 0, noPermits(t, err).Left)

		all, err := onlooker.Permits(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 3)
		session, _ := mine.Session()
		var nodes []string
		for _, p := range all {
			require.Equal(t, "sémaphore", p.ID)
			require.Equal(t, session, p.Session)
			nodes = append(nodes, p.Node)
		}
		require.ElementsMatch(t, []string{held[0].Path(), held[1].Path(), third.Path()}, nodes)
		require.Equal(t, third.Token(), all[2].Token)
		require.Less(t, all[1].Token, all[2].Token)

		require.NoError(t, s.Release(t.Context(), held...))
		all, err = onlooker.Permits(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
	})
}

// Helix 24: what is not implemented there.
func TestTryTakesWhatIsFreeOrLeavesNothing(t *testing.T) {
	t.Parallel()
	f := share(t)
	s := f.semaphore(f.client(), permits(2))
	held := f.take(s, 2)
	f.Gone(line) // without a waiter the directory is not needed
	for range 100 {
		_, err := s.TryAcquire(t.Context(), 1)
		noPermits(t, err)
	}
	require.False(t, f.Exists(line), "somebody has waited")
	require.NoError(t, s.Release(t.Context(), held...))
}

func TestTryIsRefusedWhileSomebodyWaitsForMore(t *testing.T) {
	t.Parallel()
	f := share(t)
	s := f.semaphore(f.client(), permits(3))
	f.hold("one", s.Acquire)
	many := f.run(func(ctx context.Context) error {
		_, err := s.AcquireN(ctx, 3)
		return err
	})
	f.Filled(line, 1)

	// two are free, but the one in line needs them
	_, err := s.TryAcquire(t.Context(), 1)
	require.Equal(t, 2, noPermits(t, err).Left)
	require.ErrorContains(t, err, "1 stand in line")
	f.Filled(line, 1)
	many.Cancel()
	require.ErrorIs(t, many.Err(), context.Canceled)
}

// Curator S4, S5, S6. With Curator two that want many could wait for each other for ever.
func TestSumOfRandomQuantitiesNeverExceedsTheLimit(t *testing.T) {
	t.Parallel()
	f := share(t)
	const clients, threads, rounds, limit = 4, 3, 6, 7
	inside := harness.Occupancy{Limit: limit}
	var semaphores []*classic.Semaphore
	for range clients {
		semaphores = append(semaphores, f.semaphore(f.client(), permits(limit)))
	}
	var visits atomic.Int32
	harness.Together(t, clients*threads, func(ctx context.Context, i int) error {
		s := semaphores[i%clients]
		for range rounds {
			held, err := s.AcquireN(ctx, 1+rand.N(limit))
			if err != nil {
				return err
			}
			visits.Add(int32(len(held)))
			for _, g := range held {
				inside.Enter(g.Path(), 0)
			}
			for _, g := range held {
				inside.Leave(g.Path())
			}
			if err := s.Release(ctx, held...); err != nil {
				return err
			}
		}
		return nil
	})
	inside.WasExclusive(t, int(visits.Load()))
	f.NoEphemerals()
	f.free(semaphores[0], limit)
}

// Curator S8
func TestRefusalSaysHowManyPermitsAreFree(t *testing.T) {
	virtually(t, func(t *testing.T, w *virtual.World) {
		limit := time.Minute
		o := permits(1)
		o.AcquireTimeout = &limit
		s, err := classic.NewSemaphore(member(w, "mine").Client, desks, o)
		require.NoError(t, err)
		other, err := classic.NewSemaphore(member(w, "other").Client, desks, permits(1))
		require.NoError(t, err)
		held, err := other.Acquire(t.Context())
		require.NoError(t, err)

		_, err = s.Acquire(t.Context())
		short := noPermits(t, err)
		require.Equal(t, 0, short.Left)
		require.Equal(t, 1, short.Limit)
		require.ErrorContains(t, err, "0 of 1 are free")

		// and the outcome is unknown while ZooKeeper is silent
		limit = time.Second
		w.Partition("mine")
		_, err = s.Acquire(t.Context())
		require.Equal(t, 1, noPermits(t, err).Wanted)
		require.ErrorAs(t, err, new(*lock.UnavailableError))
		require.NotContains(t, err.Error(), "free", "unknown")
		w.Heal()
		require.NoError(t, held.Release(t.Context()))
	})
}

// Curator S2
func TestWaiterProceedsWhenTheLimitIsRaised(t *testing.T) {
	t.Parallel()
	f := share(t)
	o := classic.SemaphoreOptions{Limit: 1, LimitPath: howMany}
	mine, other := f.semaphore(f.client(), o), f.semaphore(f.client(), o)

	// given a limit of one, one that holds, and one that waits
	first := f.hold("first", mine.Acquire)
	second := f.ask("second", other.Acquire)
	f.Watched(howMany, 1)
	second.IsPending()

	// when the limit is raised
	require.NoError(t, mine.SetLimit(t.Context(), 2))

	// then the waiter proceeds
	second.Granted()
	require.NoError(t, first.Granted().Check())
	data, _ := f.Get(howMany)
	require.Equal(t, []byte{0, 0, 0, 2}, data, "as Curator's SharedCount")
	limit, err := other.Limit(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, limit)

	// and when it is lowered, holders keep what they have, and no new lease is
	// granted
	require.NoError(t, mine.SetLimit(t.Context(), 1))
	require.NoError(t, second.Granted().Check())
	third := f.ask("third", other.Acquire)
	f.Filled(line, 1)
	first.Release()
	f.Watched(howMany, 1)
	third.IsPending()
	f.free(mine, 0)
	second.Release()
	third.Granted()
}

func TestPermitIsNotTakenByALimitThatWasLowered(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, proxy := f.proxied()
	o := classic.SemaphoreOptions{Limit: 1, LimitPath: howMany}
	mine, other := f.semaphore(c, o), f.semaphore(f.client(), o)
	f.hold("before", mine.Acquire).Release()

	// given one that is about to take the permit
	taking := proxy.On(f.on(zktest.Multi, leases+"/*").Nth(1)).Hold()
	first := f.ask("first", mine.Acquire)
	reached(t, taking)

	// when the limit is lowered
	require.NoError(t, other.SetLimit(t.Context(), 0))
	taking.Release()

	// then it waits until that is raised
	f.Watched(howMany, 1)
	first.IsPending()
	require.NoError(t, other.SetLimit(t.Context(), 1))
	first.Granted()
}

// Kazoo K27, K28. Kazoo does not check foreign data as a limit; what other clients use is unknown.
func TestLimitThatIsAnothersOrMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node, data string
		o          classic.SemaphoreOptions
	}{
		"another limit":              {desks, "1", classic.SemaphoreOptions{Naming: classic.NamingKazoo, Limit: 2}},
		"foreign data":               {desks, "a letter", classic.SemaphoreOptions{Naming: classic.NamingKazoo, Limit: 1}},
		"no number of SharedCount's": {howMany, "two", classic.SemaphoreOptions{Limit: 1, LimitPath: howMany}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			if name == "another limit" { // which a user of ours writes
				f.hold("first", f.semaphore(f.client(), classic.SemaphoreOptions{Naming: classic.NamingKazoo, Limit: 1}).Acquire).Release()
				data, _ := f.Get(desks)
				require.Equal(t, c.data, string(data))
			} else {
				f.Create(c.node, []byte(c.data), 0)
			}

			_, err := f.semaphore(f.client(), c.o).Acquire(t.Context())

			var bad *classic.LimitError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, classic.LimitError{Path: desks, Node: c.node, Data: c.data, Wanted: c.o.Limit}, *bad)
			require.ErrorContains(t, err, c.data)
			f.NoEphemerals()
		})
	}
}

func TestRequestThatLosesItsPlaceWhileItTakesPermitsQueuesAgain(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, proxy := f.proxied()
	s := f.semaphore(c, permits(1))
	f.hold("before", s.Acquire).Release()

	// given one that is about to take the permit
	taking := proxy.On(f.on(zktest.Multi, leases+"/*").Nth(1)).Hold()
	first := f.ask("first", s.Acquire)
	reached(t, taking)
	second := f.ask("second", f.semaphore(f.client(), permits(1)).Acquire)

	// when its place is deleted, and the next takes it
	f.Delete(line + "/" + f.Filled(line, 2)[0])
	second.Granted()
	taking.Release()

	// then it waits
	f.Filled(line, 1)
	first.IsPending()
	second.Release()
	first.Granted()
}

func TestOnlyTheFirstInLineWatchesThePermits(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	for i := range 6 {
		c := harness.NewClient(t, lock.Config{Servers: []string{server.Addr()}})
		s, err := classic.NewSemaphore(c.Client, desks, permits(1))
		require.NoError(t, err)
		harness.Begin(t, "a request", func(ctx context.Context) (*classic.Grant, error) {
			g, err := s.Acquire(ctx)
			if err == nil {
				<-ctx.Done()
				_ = g.Release(context.Background())
			}
			return g, err
		})
		harness.Eventually(t, func() bool { return len(server.Tree(line)) == 1+i && len(server.Tree(leases)) == 2 }, "request %d is not there", i)
	}
	harness.Eventually(t, func() bool {
		watches := map[string]int{}
		for _, w := range server.Watches() {
			if w.Path == leases || w.Kind == zktest.DataWatch && strings.HasPrefix(w.Path, line+"/") {
				watches[strings.Join(strings.Split(w.Path, "/")[:4], "/")]++
			}
		}
		return watches[leases] == 1 && watches[line] == 5 // of each the one in front, of the first its own
	}, "others watch the permits, or not the one in front")
}

func TestDrawOfWhichAPermitIsDeletedAsItsReplyIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, proxy := f.proxied()
	s := f.semaphore(c, permits(3))
	f.Create(line, nil, 0)
	f.Create(leases, nil, 0)

	taking := proxy.On(f.on(zktest.Multi, leases+"/*").Nth(1)).HoldReply()
	draw := harness.Go(t, "the draw", func() ([]*classic.Grant, error) { return s.AcquireN(t.Context(), 2) })
	reached(t, taking)
	f.Delete(leases + "/" + f.Filled(leases, 2)[0])
	id, _ := c.Session()
	require.True(t, proxy.Disconnect(id))
	taking.Release()

	held := draw.Granted()
	require.NoError(t, errors.Join(held[0].Check(), held[1].Check()))
	f.Filled(leases, 2) // and the other of the first try is given back
	require.NoError(t, s.Release(t.Context(), held...))
	f.NoEphemerals()
}

func TestDrawThatDoesNotFitIntoOneRequestIsRefused(t *testing.T) {
	eachLayout(t, func(t *testing.T, f *fixture, o classic.SemaphoreOptions) {
		o.Limit = 20000
		s := f.semaphore(f.client(), o)

		_, err := s.AcquireN(t.Context(), 8000)

		var refused *lock.RequestError
		require.ErrorAs(t, err, &refused)
		var most int
		_, err = fmt.Sscanf(refused.Reason, "8000 do not fit into one request; write %d at most", &most)
		require.NoError(t, err, refused.Reason)
		require.NoError(t, s.Release(t.Context(), f.take(s, most)...), "as many as it says do")
	})
}

// A cluster is what a client needs and a test can make unable to serve.
type cluster struct {
	servers []string
	cripple func() error
	repair  func(context.Context) error
}

// newCluster is three real servers, of which two are stopped, or the one of the embedded kind.
func newCluster(t *testing.T) cluster {
	t.Helper()
	backend, err := testbed.Selected()
	require.NoError(t, err)
	if backend == testbed.Embedded {
		server := testbed.Start(t, testbed.Settings{})
		return cluster{[]string{server.Addr()}, server.Stop, server.Restart}
	}
	e, err := zkserver.RunEnsemble(t.Context(), zkserver.WithSessionTimeouts(time.Second, time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	followers := slices.DeleteFunc(slices.Clone(e.Servers()), func(s *zkserver.Server) bool { return s == leader })
	return cluster{e.Addrs(), func() error { return errors.Join(leader.Stop(), followers[0].Stop()) }, e.Restart}
}

// Curator S1, S14
func TestPermitsStopWithoutAQuorumAndGoOnWithOne(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	inside := harness.Occupancy{Limit: 2}
	var turns atomic.Int64

	// given workers that take permits and return them, over and over
	var crowd []*harness.Running
	for i := range 4 {
		c := harness.NewClient(t, lock.Config{Servers: cluster.servers, SessionTimeout: 30 * time.Second, ConnectTimeout: time.Second})
		require.NoError(t, c.Ready(t.Context()))
		s, err := classic.NewSemaphore(c.Client, desks, permits(2))
		require.NoError(t, err)
		crowd = append(crowd, harness.Run(t, "a worker", func(ctx context.Context) error {
			for ctx.Err() == nil {
				g, err := s.Acquire(ctx)
				if err != nil { // no answer for long
					continue
				}
				inside.Enter(fmt.Sprint(i), 0)
				turns.Add(1)
				inside.Leave(fmt.Sprint(i))
				_ = g.Release(context.WithoutCancel(ctx))
			}
			return nil
		}))
	}
	goesOn := func() {
		t.Helper()
		before := turns.Load()
		harness.Eventually(t, func() bool { return turns.Load() > before+20 }, "no holder changes")
	}
	goesOn()

	// when the quorum is lost
	require.NoError(t, cluster.cripple())

	// then those that are outside stay there: each has one turn under way at most
	at := turns.Load()
	other, err := classic.NewSemaphore(harness.NewClient(t, lock.Config{Servers: cluster.servers}).Client, desks, permits(2))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = other.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.LessOrEqual(t, turns.Load(), at+int64(len(crowd)))

	// and go on when it is back
	require.NoError(t, cluster.repair(t.Context()))
	goesOn()
	for _, c := range crowd {
		c.Cancel()
		c.Granted()
	}
	inside.WasExclusive(t, int(turns.Load()))
}
