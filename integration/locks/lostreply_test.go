package locks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The connection breaks at each request in turn, right after it was sent: its
// answer is lost, and whether it was executed is not known. The request goes
// on as if nothing had happened, and leaves nothing behind.
func TestRequestWhoseAnswerIsLostAtAnyStepGoesOn(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		name := "its caller waits"
		if leaves {
			name = "its caller leaves at the same moment"
		}
		t.Run(name, func(t *testing.T) {
			h := share(t)

			// given a client whose connection can break at each request
			wire := &tripwire{}
			mine, others := h.Client(through(wire)), h.Client()
			require.NoError(t, h.warm(mine, others))
			id, _ := mine.Session()

			for _, c := range courses(h, mine, others) {
				steps := 0
				for tripped := true; tripped; steps++ {
					h.History.Add("test", "%s, answer %d is lost", c.name, steps)
					ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)

					// when it breaks there
					wire.set(afterRequest, steps, func() {
						wire.cut()
						if leaves {
							cancel()
						}
					})
					err := c.run(ctx, cancel, fmt.Sprintf("%s %d", c.name, steps))
					tripped = wire.unset()

					// then the request is granted all the same, unless its caller left
					if ctx.Err() == nil {
						require.NoError(t, err, "%s, answer %d is lost", c.name, steps)
					} else if err != nil {
						require.ErrorIs(t, err, context.Canceled, "%s, answer %d is lost", c.name, steps)
					}
					cancel()

					// and no node is left
					harness.Eventually(t, func() bool { return len(h.Ephemerals()) == 0 }, "no node is left: %s, answer %d lost", c.name, steps)
					require.NoError(t, mine.Ready(t.Context()))
				}
				t.Logf("%s: lost each of %d answers", c.name, steps-1)
			}

			// and it was one session all the time
			again, _ := mine.Session()
			require.Equal(t, id, again)
		})
	}
}

// The same by chance, with many requests under way at once.
func TestCrowdOnConnectionsThatKeepBreakingIsNeverInsideTogether(t *testing.T) {
	h := share(t)

	// given three clients with six threads each, on two locks
	var rooms [2]harness.Occupancy
	var proxies []*netfault.Proxy
	var crowd sync.WaitGroup
	const threads, turns = 6, 6
	visits := make(chan struct{}, 3*threads*turns)
	for i := range 3 {
		proxy := netfault.New(t, h.Server.Addr())
		proxies = append(proxies, proxy)
		c := h.Client(harness.Servers(proxy.Addr()), harness.SessionTimeout(30*time.Second))
		for n := range threads {
			l := h.Lock(c, fmt.Sprint("room ", n%2))
			crowd.Go(func() {
				for turn := range turns {
					r := recipes.Request{Owner: fmt.Sprintf("client %d thread %d turn %d", i, n, turn), Priority: priority.Level(n % 3), CleanupTimeout: time.Minute}
					if err := visit(t.Context(), l, r, &rooms[n%2]); err != nil {
						t.Error(err)
						return
					}
					visits <- struct{}{}
				}
			})
		}
	}

	// when one of their connections breaks after every third visit
	done := make(chan struct{})
	var saboteur sync.WaitGroup
	saboteur.Go(func() {
		visited := 0
		for i := 0; ; i++ {
			for range 3 {
				select {
				case <-visits:
					visited++
				case <-done:
					t.Logf("%d visits, %d breaks", visited, i)
					return
				}
			}
			if err := proxies[i%len(proxies)].Reset(); err != nil {
				t.Error(err)
			}
		}
	})
	crowd.Wait()
	close(done)
	saboteur.Wait()

	// then each had its turns, never two were inside, and nothing is left behind
	for i := range rooms {
		rooms[i].WasExclusive(t, 3*threads/2*turns)
	}
	h.NoEphemerals()
}

// N15
func TestClientWhoseConnectionBreaksAsItShowsItsCredentialsRecovers(t *testing.T) {
	h := share(t)

	// given a client with credentials that holds
	wire := &tripwire{}
	c := h.Client(through(wire), as("ann"))
	holder := h.Hold(h.lock(c), "ann")
	id, _ := c.Session()

	for _, where := range []spot{beforeRequest, afterRequest} {
		// when its connection breaks, and the next one with its first request, which shows them
		again := make(chan struct{})
		wire.set(where, 0, func() {
			wire.cut()
			close(again)
		})
		wire.cut()
		<-again

		// then it comes back in the same session, and what it made is its own
		require.NoError(t, holder.Granted().Extend(t.Context(), time.Hour))
		h.heldBy(c, "ann")
	}
	now, _ := c.Session()
	require.Equal(t, id, now)
	holder.Release()
}
