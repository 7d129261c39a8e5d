package groups

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The answer to each kind of write is lost, whether or not it was executed.
func TestWriteWhoseAnswerIsLostIsNotRepeatedAndNotForgotten(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]func(*house) zktest.Match{
		"the spec": func(h *house) zktest.Match {
			return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(h.path()).Nth(1)
		},
		"the join":        func(h *house) zktest.Match { return zktest.Op(zktest.Create).Path(h.path("members", "*")).Nth(1) },
		"the revocation":  func(h *house) zktest.Match { return h.decides().Nth(2) },
		"the grant":       func(h *house) zktest.Match { return h.decides().Nth(3) },
		"the first grant": func(h *house) zktest.Match { return h.decides().Nth(1) },
		"the release":     func(h *house) zktest.Match { return h.tells().Nth(1) },
		"the leave":       func(h *house) zktest.Match { return zktest.Op(zktest.Delete).Path(h.path("members", "*")).Nth(1) },
	} {
		for _, executed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, executed %t", name, executed), func(t *testing.T) {
				t.Parallel()
				h := shareHouse(t)
				s := spec(4)

				// given a participant whose connection breaks there
				proxy := zktest.RunProxyT(t, h.server.Addr())
				if fault := proxy.On(what(h)); executed {
					fault.DropReply()
				} else {
					fault.DropRequest()
				}
				one := h.player("node1", h.client(behind(proxy)))
				one.join(s)
				h.share(s, map[*player]int{one: 4})
				id, _ := one.c.Session()

				// when locks move, and it leaves
				two := h.join(s, "node2")
				h.share(s, map[*player]int{one: 2, two: 2})
				one.leave()
				h.share(s, map[*player]int{two: 4})

				// then it was one session all the time, and one node
				again, _ := one.c.Session()
				require.Equal(t, id, again)
				require.Len(t, h.members(), 1)
				require.Len(t, all[recipes.GroupJoined](one.told), 1)
				require.Empty(t, all[recipes.GroupLost](one.told))
			})
		}
	}
}

func TestParticipantThatIsCutOffStopsBeforeTheServerGivesItsLocksAway(t *testing.T) {
	t.Parallel()
	const session = 2 * time.Second
	for name, fault := range map[string]func(*netfault.Proxy) error{
		"packets vanish": func(p *netfault.Proxy) error { return p.Blackhole() },
		"they are late":  func(p *netfault.Proxy) error { return p.Stall() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			s := spec(12)

			// given participants, the controller among them, one of them behind a network that fails
			proxy := netfault.New(t, h.server.Addr())
			cut := h.join(s, "node1", timeout(session), at(proxy.Addr()))
			two, three := h.join(s, "node2"), h.join(s, "node3")
			h.share(s, map[*player]int{cut: 4, two: 4, three: 4})
			held, gave := cut.locks(), len(cut.gaveUp())

			// when it does
			require.NoError(t, fault(proxy))
			start := time.Now()

			// then all its contexts have ended before another one has its locks: the referee knows
			lost := await[recipes.GroupLost](t, cut.told)
			require.Equal(t, recipes.LossSession, lost.Err.Reason)
			ended := time.Since(start)
			require.Empty(t, cut.m.Locks())
			h.share(s, map[*player]int{cut: 0, two: 6, three: 6})
			taken := time.Since(start)
			t.Logf("session timeout %s: contexts ended %s after the cut, all taken over %s after it",
				session, ended.Round(time.Millisecond), taken.Round(time.Millisecond))
			require.Less(t, ended, session)
			require.Greater(t, taken-ended, session/8)
			cut.mu.Lock()
			for _, lock := range held {
				require.Contains(t, cut.lost, lock)
			}
			cut.mu.Unlock()

			// and it comes back
			require.NoError(t, proxy.Pass())
			h.share(s, map[*player]int{cut: 4, two: 4, three: 4})
			require.Len(t, cut.gaveUp(), gave)
		})
	}
}

// expires cuts a participant off until the server has ended its session, and so
// many participants are left.
func (h *house) expires(p *player, proxy *netfault.Proxy, left int) {
	h.t.Helper()
	require.NoError(h.t, proxy.Blackhole())
	await[recipes.GroupLost](h.t, p.told)
	require.Eventually(h.t, func() bool { return len(h.members()) == left }, soon, 5*time.Millisecond)
	require.NoError(h.t, proxy.Pass())
}

func TestSessionThatExpiresCostsItsLocksAndTheParticipantComesBack(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"the controller", "another one"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			s := spec(12, debounce(3*time.Second))
			proxy := netfault.New(t, h.server.Addr())
			var players []*player
			for n, name := range []string{"node1", "node2"} {
				if n == i {
					players = append(players, h.join(s, name, at(proxy.Addr()), timeout(3*time.Second)))
				} else {
					players = append(players, h.join(s, name))
				}
			}
			h.share(s, map[*player]int{players[0]: 6, players[1]: 6})
			before := h.state()

			// when a session expires and its participant is back within the debounce
			victim, other := players[i], players[1-i]
			held := victim.locks()
			gave := len(other.gaveUp())
			h.expires(victim, proxy, 1)
			await[recipes.GroupJoined](t, victim.told)
			h.share(s, map[*player]int{victim: 6, other: 6})

			// then it has the same locks, under new tokens, and nothing else has moved
			require.Equal(t, held, victim.locks())
			require.Equal(t, before.MovedTotal, h.state().MovedTotal)
			require.Len(t, other.gaveUp(), gave)
			for _, lock := range held {
				calls := victim.history(lock)
				require.Equal(t, []string{"locked", "released", "locked"}, calls[len(calls)-3:])
			}
		})
	}
}

func TestWhileZooKeeperIsSilentALeaveAndACloseAreNotHeldUp(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	s := spec(4)
	one := h.join(s, "node1", timeout(4*time.Second))
	h.share(s, map[*player]int{one: 4})

	// when ZooKeeper falls silent
	require.NoError(t, h.server.Pause())
	start := time.Now()

	// then another join fails with what is known
	two := h.player("node2", one.c)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := two.group(s).Join(ctx, "node2", two)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// and a leave ends all contexts at once, and returns with its own
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = one.m.Leave(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, one.m.Locks())
	require.Equal(t, []string{"locked", "released", "dropped"}, one.history(groupName+"_0"))
	require.Zero(t, h.referee.count())

	// and so does the client, which ends with it
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := one.c.Close(ctx); err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Less(t, time.Since(start), 20*time.Second)
	require.NoError(t, h.server.Resume())
	<-one.m.Done()
	h.nobodyThere()
}

func TestClientDoesNotCloseWhileItTakesPart(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4)
	one := h.join(s, "node1")
	h.share(s, map[*player]int{one: 4})
	var busy *recipes.BusyError
	require.ErrorAs(t, one.c.Close(t.Context()), &busy)
	require.Equal(t, []string{"group lock-group as node1"}, busy.Held)
	require.Len(t, one.m.Locks(), 4)
	one.leave()
	require.NoError(t, one.c.Close(t.Context()))
	require.NotErrorIs(t, one.m.Err(), recipes.ErrClosed)
	_, err := one.group(s).Join(t.Context(), "node1", one)
	require.ErrorIs(t, err, recipes.ErrClosed)
}
