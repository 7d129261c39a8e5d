package classic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Helix 20 to 23
func TestPermitsAreTakenAllOrNoneAndReturnedOnce(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := h.semaphore(h.client(), permits(5))

	// given a capacity of five: one is taken, four are left
	one := h.hold("one", s.Acquire)
	require.Equal(t, 4, h.left(s))

	// when four are taken, none is left for four more, and one call takes nothing
	require.NoError(t, one.grant.Release(t.Context()))
	four, err := s.TryAcquire(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, 1, h.left(s))
	none, err := s.TryAcquire(t.Context(), 4)
	require.Nil(t, none)
	require.Equal(t, 1, refusedPermits(t, err).Left)
	require.Equal(t, 1, h.left(s))

	// then one is returned, and a second time without harm
	require.NoError(t, four[0].Release(t.Context()))
	require.ErrorIs(t, four[0].Release(t.Context()), recipes.ErrReleased)
	require.Equal(t, 2, h.left(s))

	// and all the others
	require.NoError(t, s.Release(t.Context(), four[1:]...))
	require.Equal(t, 5, h.left(s))
	h.nobodyThere()
}

// Helix 24: what is not implemented there.
func TestTryTakesWhatIsFreeOrLeavesNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := h.semaphore(h.client(), permits(2))
	before, err := s.TryAcquire(t.Context(), 2)
	require.NoError(t, err)
	h.gone(h.shell(), desks+"/locks") // nobody stands in line, and so nobody misses the directory

	for range 100 {
		_, err := s.TryAcquire(t.Context(), 1)
		refusedPermits(t, err)
	}

	require.False(t, h.exists(h.shell(), desks+"/locks"), "nobody has stood in line")
	require.NoError(t, s.Release(t.Context(), before...))
}

func TestTryIsRefusedWhileSomebodyWaitsForMore(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := h.semaphore(h.client(), permits(3))
	h.hold("one", s.Acquire)
	many := h.begin(func(ctx context.Context) error {
		held, err := s.AcquireN(ctx, 3)
		return errors.Join(err, s.Release(context.WithoutCancel(ctx), held...))
	})
	h.queued(1)
	many.goesOn()

	// two are free, but the one in line needs them
	_, err := s.TryAcquire(t.Context(), 1)
	short := refusedPermits(t, err)
	require.Equal(t, 2, short.Left)
	require.ErrorContains(t, err, "1 stand in line")
	h.queued(1)
	many.cancel()
	require.ErrorIs(t, many.ended(), context.Canceled)
}

// With Curator two of them could wait for each other for ever.
func TestThoseWhoWantManyDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var crowd []*call
	for range 3 {
		s := h.semaphore(h.client(), permits(4))
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			for range 10 {
				held, err := s.AcquireN(ctx, 3)
				if err != nil {
					return err
				}
				if err := s.Release(ctx, held...); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
}

func TestPermitIsLostBeforeTheServerCanGiveItToAnother(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	network := netfault.New(t, h.server.Addr())
	first := h.hold("first", h.semaphore(h.client(behind(network), timeout(2*time.Second)), permits(1)).Acquire)
	second := h.ask("second", h.semaphore(h.client(), permits(1)).Acquire)
	h.queued(1)

	require.NoError(t, network.Blackhole())

	require.Equal(t, recipes.LossSession, first.lost().Reason)
	second.waits()
	second.granted()
	require.NoError(t, network.Pass())
}

// The answer is lost at each step in turn.
func TestRequestForPermitsGoesOnWhateverReplyIsLost(t *testing.T) {
	t.Parallel()
	for naming, name := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			w := &wire{}
			mine := h.client(through(w), timeout(30*time.Second))
			require.NoError(t, mine.Ready(t.Context()))
			o := permits(3)
			o.Naming = naming
			s := h.semaphore(mine, o)
			require.NoError(t, s.Release(t.Context(), h.take(s, 2)...)) // the directories are there
			for step, lost := 0, true; lost; step++ {
				w.behind(opAny, step, w.cut)
				held := h.take(s, 2)
				require.NoError(t, held[0].Check())
				require.NoError(t, s.Release(t.Context(), held...))
				lost = w.unset()
				require.Empty(t, h.ephemerals(), "answer %d was lost", step)
				require.NoError(t, mine.Ready(t.Context()))
			}
		})
	}
}

func (h *house) take(s *recipes.Semaphore, n int) []*recipes.ClassicGrant {
	h.t.Helper()
	held, err := s.AcquireN(h.t.Context(), n)
	require.NoError(h.t, err)
	require.Len(h.t, held, n)
	return held
}

func TestRequestThatLosesItsPlaceWhileItTakesPermitsQueuesAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	proxy := zktest.RunProxyT(t, h.server.Addr())
	s := h.semaphore(h.client(by(proxy)), permits(1))
	require.NoError(t, h.hold("before", s.Acquire).grant.Release(t.Context()))

	// given one that is about to take the permit
	taking := proxy.On(zktest.Op(zktest.Multi).Path(h.at(desks) + "/leases/*").Nth(1)).Hold()
	first := h.ask("first", s.Acquire)
	<-taking.Reached()
	second := h.ask("second", h.semaphore(h.client(), permits(1)).Acquire)
	place := h.queued(2)[0]

	// when its place is deleted, and the next takes it
	require.NoError(t, h.shell().Delete(h.at(desks+"/locks/"+place), -1))
	second.granted()
	taking.Release()

	// then it waits
	h.queued(1)
	first.waits()
	second.release()
	first.granted()
}

func TestPermitIsNotTakenByALimitThatWasLowered(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	proxy := zktest.RunProxyT(t, h.server.Addr())
	o := recipes.SemaphoreOptions{Limit: 1, LimitPath: "/app/how-many"}
	mine, other := h.semaphore(h.client(by(proxy)), o), h.semaphore(h.client(), o)
	require.NoError(t, h.hold("before", mine.Acquire).grant.Release(t.Context()))

	// given one that is about to take the permit
	taking := proxy.On(zktest.Op(zktest.Multi).Path(h.at(desks) + "/leases/*").Nth(1)).Hold()
	first := h.ask("first", mine.Acquire)
	<-taking.Reached()

	// when the limit is lowered
	require.NoError(t, other.SetLimit(t.Context(), 0))
	taking.Release()

	// then it waits until that is raised
	h.becomesWatched("/app/how-many", 1)
	first.waits()
	require.NoError(t, other.SetLimit(t.Context(), 1))
	first.granted()
}

func TestLimitThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	h.make(h.shell(), "/app/how-many", []byte("two"), 0)
	s := h.semaphore(h.client(), recipes.SemaphoreOptions{Limit: 1, LimitPath: "/app/how-many"})
	_, err := s.Acquire(t.Context())
	var bad *recipes.LimitError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "/app/how-many", bad.Node)
	h.nobodyThere()
}

func TestOnlyTheFirstInLineWatchesThePermits(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	c, err := recipes.NewClient(recipes.Config{Servers: []string{server.Addr()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
	var crowd sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	var clients []*recipes.Client
	for i := range 6 {
		c, err := recipes.NewClient(recipes.Config{Servers: []string{server.Addr()}})
		require.NoError(t, err)
		clients = append(clients, c)
		s, err := c.Semaphore(desks, permits(1))
		require.NoError(t, err)
		crowd.Go(func() {
			if g, err := s.Acquire(ctx); err == nil {
				<-ctx.Done()
				_ = g.Release(context.WithoutCancel(ctx))
			}
		})
		require.Eventually(t, func() bool { return len(server.Tree(desks+"/locks")) == 1+i && len(server.Tree(desks+"/leases")) == 2 }, soon, time.Millisecond)
	}
	require.Eventually(t, func() bool {
		permits, places := 0, 0
		for _, w := range server.Watches() {
			if w.Path == desks+"/leases" {
				permits++
			}
			if w.Kind == zktest.DataWatch && len(w.Path) > len(desks+"/locks/") && w.Path[:len(desks)+7] == desks+"/locks/" {
				places++
			}
		}
		return permits == 1 && places == 5 // of each the one in front, of the first its own
	}, soon, time.Millisecond)
	cancel()
	crowd.Wait()
	for _, c := range clients {
		require.NoError(t, c.Close(context.WithoutCancel(t.Context())))
	}
}

var layouts = map[recipes.Naming]string{recipes.NamingCurator: "as Curator", recipes.NamingKazoo: "as Kazoo"}

func TestDrawOfWhichAPermitIsDeletedAsItsReplyIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	w := &wire{}
	s := h.semaphore(h.client(through(w)), permits(3))
	h.make(shell, desks+"/locks", nil, 0)
	h.make(shell, desks+"/leases", nil, 0)

	w.behind(opMulti, 0, func() {
		names := h.crowdOf(shell, desks+"/leases", 2)
		if err := shell.Delete(h.at(desks+"/leases/"+names[0]), -1); err != nil {
			t.Error(err)
		}
		w.cut()
	})
	held := h.take(s, 2)

	require.True(t, w.unset())
	for _, g := range held {
		require.NoError(t, g.Check())
	}
	h.crowdOf(shell, desks+"/leases", 2) // and the other of the first try is given back
	require.NoError(t, s.Release(t.Context(), held...))
	h.nobodyThere()
}

func TestDrawThatDoesNotFitIntoOneRequestIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	for naming, name := range layouts {
		o := permits(20000)
		o.Naming = naming
		s := h.semaphore(h.client(), o)

		_, err := s.AcquireN(t.Context(), 8000)

		var refused *recipes.RequestError
		require.ErrorAs(t, err, &refused, name)
		var most int
		_, err = fmt.Sscanf(refused.Reason, "8000 do not fit into one request; write %d at most", &most)
		require.NoError(t, err, refused.Reason)
		require.NoError(t, s.Release(t.Context(), h.take(s, most)...), "as many as it says do")
	}
}

func TestPermitsThatAreNotGrantedInTimeAreThatErrorThoughZooKeeperIsSilent(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	proxy := netfault.New(t, h.server.Addr())
	o, c := permits(1), h.client(behind(proxy))
	h.hold("before", h.semaphore(c, o).Acquire).release()
	limit := 200 * time.Millisecond
	o.AcquireTimeout = &limit
	s := h.semaphore(c, o)
	require.NoError(t, proxy.Blackhole())

	_, err := s.Acquire(t.Context())

	none := refusedPermits(t, err)
	require.Equal(t, 1, none.Wanted)
	require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
	require.ErrorAs(t, err, new(*recipes.UnavailableError))
	require.NotContains(t, err.Error(), "free", "nobody knows")
	require.NoError(t, proxy.Pass())
	require.NoError(t, proxy.Reset())
}
