package classic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const desks = "/app/desks"

func permits(limit int) recipes.SemaphoreOptions { return recipes.SemaphoreOptions{Limit: limit} }

func (h *house) semaphore(c *recipes.Client, o recipes.SemaphoreOptions) *recipes.Semaphore {
	h.t.Helper()
	s, err := c.Semaphore(desks, o)
	require.NoError(h.t, err)
	return s
}

// left is how many permits are free.
func (h *house) left(s *recipes.Semaphore) int {
	h.t.Helper()
	n, err := s.Left(h.t.Context())
	require.NoError(h.t, err)
	return n
}

// queued waits until so many stand in the line of the semaphore.
func (h *house) queued(n int) []string { return h.crowdOf(h.shell(), desks+"/locks", n) }

// refusedPermits is what a try or a timeout returns.
func refusedPermits(t testing.TB, err error) *recipes.NoPermitsError {
	t.Helper()
	var short *recipes.NoPermitsError
	require.ErrorAs(t, err, &short)
	var other *recipes.NotAcquiredError
	require.ErrorAs(t, err, &other, "as every recipe's refusal")
	return short
}

// Curator S1
func TestPermitsAreGivenAgainWhenALostServerComesBack(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)

	// given ten clients, one permit, and a request whose node has just been made
	proxy := zktest.RunProxyT(t, h.server.Addr())
	made := proxy.On(zktest.Op(zktest.Create).Path(h.at(desks) + "/locks/*")).HoldReply()
	var desk room
	var crowd []*call
	for i := range 10 {
		change := []func(*recipes.Config){timeout(40 * time.Second), patient}
		if i == 0 {
			change = append(change, by(proxy))
		}
		s := h.semaphore(h.client(change...), permits(1))
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			for range 3 {
				g, err := s.Acquire(ctx)
				if err != nil {
					return err
				}
				desk.enter(fmt.Sprint(i))
				desk.leave(fmt.Sprint(i))
				if err := g.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
		if i == 0 {
			<-made.Reached()
		}
	}

	// when the server is lost and comes back
	require.NoError(t, h.server.Kill())
	made.Release()
	require.NoError(t, h.server.Restart(t.Context()))

	// then everybody has its turns, and nothing is left
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
	desk.wasOrderly(t, 30)
	h.nobodyThere()
}

// patient makes new requests wait for a server that starts slowly.
func patient(cfg *recipes.Config) { cfg.ConnectTimeout = soon }

// Curator S2
func TestWaiterProceedsWhenTheLimitIsRaised(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	o := recipes.SemaphoreOptions{Limit: 1, LimitPath: "/app/how-many"}
	mine, other := h.semaphore(h.client(), o), h.semaphore(h.client(), o)

	// given a limit of one, one that holds, and one that waits
	first := h.hold("first", mine.Acquire)
	second := h.ask("second", other.Acquire)
	h.becomesWatched("/app/how-many", 1)
	second.waits()

	// when the limit is raised
	require.NoError(t, mine.SetLimit(t.Context(), 2))

	// then the waiter proceeds
	second.granted()
	require.NoError(t, first.grant.Check())
	data, _, err := h.shell().Get(h.at("/app/how-many"))
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 2}, data, "as Curator's SharedCount")
	limit, err := other.Limit(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, limit)

	// and when it is lowered, holders keep what they have, and nobody gets more
	require.NoError(t, mine.SetLimit(t.Context(), 1))
	require.NoError(t, second.grant.Check())
	third := h.ask("third", other.Acquire)
	h.queued(1)
	first.release()
	h.becomesWatched("/app/how-many", 1)
	third.waits()
	require.Zero(t, h.left(mine))
	second.release()
	third.granted()
}

// Curator S3: a client that holds cannot be closed by mistake, but it can die.
func TestPermitOfAClientThatEndsGoesToAnother(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	mine := h.client()
	first := h.hold("first", h.semaphore(mine, permits(1)).Acquire)
	token := first.token()
	second := h.ask("second", h.semaphore(h.client(), permits(1)).Acquire)
	h.queued(1)
	var busy *recipes.BusyError
	require.ErrorAs(t, mine.Close(t.Context()), &busy)

	h.expire(mine)

	require.Equal(t, recipes.LossSession, first.lost().Reason)
	second.granted()
	require.Greater(t, second.token(), token)
}

// Curator S4
func TestSumOfRandomQuantitiesNeverExceedsTheLimit(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const clients, rounds, limit = 10, 10, 7
	desk := &room{limit: limit}
	var crowd []*call
	visits := 0
	for i := range clients {
		s := h.semaphore(h.client(), permits(limit))
		wanted := make([]int, rounds)
		for j := range wanted {
			wanted[j] = 1 + rand.N(limit)
			visits += wanted[j]
		}
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			for round, n := range wanted {
				held, err := s.AcquireN(ctx, n)
				if err != nil {
					return err
				}
				for p := range n {
					desk.enter(fmt.Sprint(i, round, p))
				}
				<-time.After(rand.N(3 * time.Millisecond))
				for p := range n {
					desk.leave(fmt.Sprint(i, round, p))
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
	desk.wasOrderly(t, visits)
	h.nobodyThere()
	require.Equal(t, limit, h.left(h.semaphore(h.client(), permits(limit))))
}

// Curator S5
func TestAsManyAsThereArePermitsAreInsideAtATime(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const clients, limit = 10, 5
	desk := &room{limit: limit}
	full := make(chan struct{})
	var crowd []*call
	for i := range clients {
		s := h.semaphore(h.client(), permits(limit))
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			g, err := s.Acquire(ctx)
			if err != nil {
				return err
			}
			desk.enter(fmt.Sprint(i))
			select {
			case <-full:
			case <-ctx.Done():
			}
			desk.leave(fmt.Sprint(i))
			return g.Release(ctx)
		}))
	}

	// when the others stand in line, and nobody leaves
	h.queued(clients - limit)
	require.Eventually(t, func() bool { return desk.count() == limit }, soon, time.Millisecond)
	h.queued(clients - limit)
	close(full)

	// then all have been inside, never more than there are permits
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
	desk.wasOrderly(t, clients)
	require.Equal(t, limit, desk.most)
	h.nobodyThere()
}

// count is how often somebody has entered.
func (r *room) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visits
}

// Curator S6
func TestManyThreadsAndRandomBurstsOfReleasesKeepTheLimit(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const threads, limit = 100, 11
	desk := &room{limit: limit}
	s := h.semaphore(h.client(), permits(limit))
	held := make(chan *recipes.ClassicGrant, threads)
	var crowd []*call
	for range threads {
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			g, err := s.Acquire(ctx)
			if err != nil {
				return err
			}
			desk.enter(nodeName(g))
			held <- g
			return nil
		}))
	}
	for done := 0; done < threads; {
		burst := min(1+rand.N(limit), threads-done)
		var some []*recipes.ClassicGrant
		for range burst {
			some = append(some, <-held)
			done++
			if len(held) == 0 {
				break
			}
		}
		for _, g := range some {
			desk.leave(nodeName(g))
		}
		require.NoError(t, s.Release(t.Context(), some...))
	}
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
	desk.wasOrderly(t, threads)
	h.nobodyThere()
}

// Curator S7
func TestThreadsOfOneSemaphoreTakeTurns(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := h.semaphore(h.client(), permits(1))
	var desk room
	var crowd []*call
	for i := range 10 {
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			g, err := s.Acquire(ctx)
			if err != nil {
				return err
			}
			desk.enter(fmt.Sprint(i))
			<-time.After(rand.N(5 * time.Millisecond))
			desk.leave(fmt.Sprint(i))
			return g.Release(ctx)
		}))
	}
	start := time.Now()
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
	require.Less(t, time.Since(start), 25*time.Second)
	desk.wasOrderly(t, 10)
}

// Curator S8
func TestRequestForAHeldPermitTimesOut(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wait := 100 * time.Millisecond
	o := permits(1)
	o.AcquireTimeout = &wait
	s := h.semaphore(h.client(), o)
	h.hold("first", h.semaphore(h.client(), permits(1)).Acquire)

	start := time.Now()
	g, err := s.Acquire(t.Context())
	require.Nil(t, g)
	require.GreaterOrEqual(t, time.Since(start), wait)
	short := refusedPermits(t, err)
	require.Equal(t, 0, short.Left)
	require.Equal(t, 1, short.Limit)
	require.ErrorContains(t, err, "0 of 1 are free")
	require.Len(t, h.ephemerals(), 1)
}

// Curator S9
func TestPermitThatIsReturnedCanBeAcquiredAfterATimeout(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := h.semaphore(h.client(), permits(3))
	held, err := s.AcquireN(t.Context(), 3)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, held[1].Release(t.Context()))

	again := h.hold("again", s.Acquire)
	again.release()
	require.NoError(t, s.Release(t.Context(), held[0], held[2]))
	h.nobodyThere()
}

// Curator S10
func TestPermitsThatAreHeldAreListed(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	mine := h.client()
	o := permits(3)
	o.ID = "ann"
	s := h.semaphore(mine, o)
	none, err := s.Permits(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	held, err := s.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	third := h.hold("third", s.Acquire)

	all, err := h.semaphore(h.client(), permits(3)).Permits(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	session, _ := mine.Session()
	var nodes []string
	for _, p := range all {
		require.Equal(t, "ann", p.ID)
		require.Equal(t, session, p.Session)
		nodes = append(nodes, p.Node)
	}
	require.ElementsMatch(t, []string{held[0].Path(), held[1].Path(), third.grant.Path()}, nodes)
	require.Equal(t, third.token(), all[2].Token)
	require.Less(t, all[1].Token, all[2].Token)

	var busy *recipes.BusyError
	require.ErrorAs(t, mine.Close(t.Context()), &busy)
	require.Equal(t, []string{desks, desks, desks}, busy.Held)
	require.NoError(t, s.Release(t.Context(), held...))
}

// Curator S11
func TestWaiterWhoseNodeIsDeletedQueuesAgainAndAcquires(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"first in line", "behind another"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			conn := h.shell()
			s := h.semaphore(h.client(), permits(1))
			holder := h.hold("holder", s.Acquire)
			waiters := []*user{h.ask("first", s.Acquire)}
			node := h.queued(1)[0]
			h.becomesWatched(desks+"/locks/"+node, 1)
			if place == "behind another" {
				waiters = append(waiters, h.ask("second", h.semaphore(h.client(), permits(1)).Acquire))
				h.becomesWatched(desks+"/locks/"+node, 2)
				node = h.queued(2)[1]
			}

			// when an administrator deletes the waiter's node
			require.NoError(t, conn.Delete(h.at(desks+"/locks/"+node), -1))
			if place == "first in line" { // it notices at once
				require.NotEqual(t, node, h.queued(1)[0])
			}

			// and the holder releases
			holder.release()

			// then it acquires all the same, and nothing is left
			for _, w := range waiters {
				w.release()
			}
			h.nobodyThere()
		})
	}
}

// Curator S12
func TestWaiterThatGivesUpIsInNobodysWay(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := h.semaphore(h.client(), permits(1))
	holder := h.hold("holder", s.Acquire)
	waiter := h.ask("waiter", s.Acquire)
	h.queued(1)

	waiter.cancel()
	require.ErrorIs(t, waiter.refused(), context.Canceled)

	h.queued(0)
	third := h.ask("third", h.semaphore(h.client(), permits(1)).Acquire)
	h.queued(1)
	holder.release()
	third.release()
	h.nobodyThere()
}
