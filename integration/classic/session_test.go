package classic

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Curator M2
func TestBothThatContendFinishWhenTheServerStopsAndStartsAgain(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	patient := timeout(30 * time.Second) // a busy machine needs many to start a server
	holder := h.hold("ann", h.mutex(h.client(patient)).Acquire)
	waiter := h.queue("bob", h.client(patient))

	require.NoError(t, h.server.Stop())
	require.NoError(t, h.server.Restart(t.Context()))

	require.NoError(t, holder.grant.Check())
	waiter.waits()
	holder.release()
	waiter.granted()
}

// Curator M3, Kazoo K3, etcd T1
func TestWaiterOfTheSessionThatEndsStandsInLineAnewAndIsGrantedLater(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	holder := h.hold("ann", h.mutex(c).Acquire)
	told := h.listen("bob")
	waiter := h.ask("bob", h.mutex(c, telling(told)).Acquire)
	await[recipes.Queued](t, told)

	id := h.expire(c)

	require.Equal(t, recipes.LossSession, holder.lost().Reason)
	require.ErrorAs(t, holder.grant.Release(t.Context()), new(*recipes.LostError))
	await[recipes.Requeued](t, told)
	waiter.granted()
	participants, err := h.mutex(c).Participants(t.Context())
	require.NoError(t, err)
	require.Len(t, participants, 1)
	require.NotEqual(t, id, participants[0].Session)
}

// etcd T4
func TestWaiterBehindOneWhoseSessionEndsStillWaitsForTheHolder(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold("ann", h.mutex(h.client()).Acquire)
	victim := h.client()
	h.queue("bob", victim).h.story.tell("bob", "will die")
	waiter := h.queue("eve", h.client())

	h.expire(victim)

	require.Eventually(t, func() bool { // until she watches the holder
		n := 0
		for _, p := range h.watched() {
			if p == holder.grant.Path() {
				n++
			}
		}
		return n == 2
	}, soon, 5*time.Millisecond)
	waiter.waits()
	holder.release()
	waiter.granted()
}

// N2
func TestWaiterWhoseNodeIsDeletedIsToldAndNotGranted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	holder := h.hold("ann", h.mutex(h.client()).Acquire)
	victim, next := h.queue("bob", h.client()), h.queue("eve", h.client())
	line := h.crowdOf(shell, users, 3)

	require.NoError(t, shell.Delete(h.at(users)+"/"+line[1], -1))
	next.waits()
	holder.release()

	var evicted *recipes.EvictedError
	require.ErrorAs(t, victim.refused(), &evicted)
	require.Equal(t, users, evicted.Scope)
	next.granted()
}

func TestHolderWhoseNodeIsDeletedIsToldThatItHasLost(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	told := h.listen("ann")
	holder := h.hold("ann", h.mutex(h.client(), telling(told)).Acquire)
	ctx := holder.grant.Context(t.Context())
	token := holder.token()
	waiter := h.queue("bob", h.client())

	require.NoError(t, h.shell().Delete(h.at(holder.grant.Path()), -1))

	loss := await[recipes.Lost](t, told).Err
	require.Equal(t, recipes.LossDeleted, loss.Reason)
	require.Equal(t, users, loss.Scope)
	require.Equal(t, token, loss.Token)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), loss)
	require.ErrorIs(t, holder.grant.Release(t.Context()), loss)
	waiter.granted()
}

// A hold that is shorter than it takes to hear of anything finds out at its release.
func TestReleaseOfANodeThatWasDeletedSaysSo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	wire := &wire{}
	m := h.mutex(h.client(through(wire)))
	g, err := m.Acquire(t.Context())
	require.NoError(t, err)
	wire.before(opDelete, 0, func() { _ = shell.Delete(h.at(g.Path()), -1) })
	var loss *recipes.LostError
	require.ErrorAs(t, g.Release(t.Context()), &loss)
	require.Equal(t, recipes.LossDeleted, loss.Reason)
	require.True(t, wire.unset())
}

// N1
func TestNodeIsNeverCreatedInAnotherSessionThanItWasAskedForIn(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &wire{}
	c, shell := h.client(through(wire)), h.shell()
	require.NoError(t, c.Ready(t.Context()))

	// when the session ends right before the node is created
	wire.before(opCreate, 1, func() { h.expire(c) }) // the first finds no directory
	u := h.hold("ann", h.mutex(c).Acquire)
	require.True(t, wire.unset())

	// then what is held is a node of the present session, and the only one
	now, _ := c.Session()
	_, stat, err := shell.Get(h.at(u.grant.Path()))
	require.NoError(t, err)
	require.Equal(t, now, stat.EphemeralOwner)
	require.Len(t, h.children(shell, users), 1)
}

// N5
func TestHolderThatIsCutOffLosesBeforeTheNextIsGranted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	proxy := netfault.New(t, h.server.Addr())
	told := h.listen("ann")
	c := h.client(timeout(2*time.Second), func(cfg *recipes.Config) { cfg.Servers = []string{proxy.Addr()} })
	holder := h.hold("ann", h.mutex(c, telling(told)).Acquire)
	waiter := h.queue("bob", h.client())
	granted := make(chan time.Time, 1)
	go func() {
		<-waiter.done
		granted <- time.Now()
	}()

	// when its connection falls silent
	require.NoError(t, proxy.Blackhole())
	cut := time.Now()
	latest := holder.grant.Deadline()

	// then it loses in time, and is told before
	loss := holder.lost()
	lost := time.Now()
	require.Equal(t, recipes.LossSession, loss.Reason)
	require.Positive(t, count[recipes.AtRisk](told))
	next := <-granted
	waiter.granted()
	require.True(t, lost.Before(next), "lost %s after the cut, the next was granted after %s", lost.Sub(cut), next.Sub(cut))
	t.Logf("lost %s after the cut (deadline %s), %s before the next was granted", lost.Sub(cut), latest.Sub(cut), next.Sub(lost))
	require.NoError(t, proxy.Pass())
}

// N9
func TestAcquireReturnsAtItsDeadlineFromAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	c, err := recipes.NewClient(recipes.Config{Servers: []string{listener.Addr().String()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	m, err := c.Mutex(users, recipes.MutexOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()

	before := time.Now()
	_, err = m.Acquire(ctx)

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorAs(t, err, new(*recipes.UnavailableError))
	require.Less(t, time.Since(before), soon)
}

// N10 for a mutex
func TestTokensGrowThroughSessionsAndRestarts(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	c := h.client()
	m := h.mutex(c)
	var tokens []recipes.Token
	turn := func() {
		require.NoError(t, c.Ready(t.Context())) // a new request would not wait for long
		u := h.hold("ann", m.Acquire)
		tokens = append(tokens, u.token())
		u.release()
	}
	turn()
	h.expire(c)
	turn()
	require.NoError(t, h.server.Kill())
	require.NoError(t, h.server.Restart(t.Context()))
	turn()
	h.gone(h.shell(), users)
	turn()
	require.IsIncreasing(t, tokens)
}

// A crowd on connections that keep breaking.
func TestCrowdOnConnectionsThatKeepBreakingIsNeverInsideTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const clients, threads, turns = 3, 4, 5
	var inside room
	var crowd sync.WaitGroup
	var proxies []*netfault.Proxy
	visits := make(chan struct{}, clients*threads*turns)
	for i := range clients {
		proxy := netfault.New(t, h.server.Addr())
		proxies = append(proxies, proxy)
		naming := func(*recipes.MutexOptions) {}
		if i == 0 {
			naming = kazoo
		}
		m := h.mutex(h.client(timeout(30*time.Second), func(cfg *recipes.Config) { cfg.Servers = []string{proxy.Addr()} }), naming)
		for n := range threads {
			crowd.Go(func() {
				for range turns {
					if err := visit(t.Context(), m.Acquire, &inside, fmt.Sprint(i, n)); err != nil {
						t.Error(err)
						return
					}
					visits <- struct{}{}
				}
			})
		}
	}
	done := make(chan struct{})
	var saboteur sync.WaitGroup
	saboteur.Go(func() {
		for i := 0; ; i++ {
			for range 3 {
				select {
				case <-visits:
				case <-done:
					return
				}
			}
			if err := proxies[i%clients].Reset(); err != nil {
				t.Error(err)
			}
		}
	})
	crowd.Wait()
	close(done)
	saboteur.Wait()
	inside.wasOrderly(t, clients*threads*turns)
	h.nobodyThere()
}

// The client hears no answers, so its hold ends; the server hears the client, so
// the session lives on. The node must not.
func TestHolderThatHearsNoAnswersLosesAndLeavesNothingInTheWay(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	proxy := netfault.New(t, h.server.Addr())
	c := h.client(timeout(4*time.Second), func(cfg *recipes.Config) {
		cfg.Servers = []string{proxy.Addr()}
		cfg.Margin = 4 * time.Second / 3 // a hold ends long before the session
	})
	holder := h.hold("ann", h.mutex(c).Acquire)
	waiter := h.queue("bob", h.client())
	id, _ := c.Session()

	require.NoError(t, proxy.Blackhole(netfault.ToClient))
	require.Equal(t, recipes.LossSession, holder.lost().Reason)
	require.NoError(t, proxy.Reset())
	require.NoError(t, proxy.Pass())

	waiter.granted()
	require.NoError(t, c.Ready(t.Context()))
	again, _ := c.Session()
	require.Equal(t, id, again)
}
