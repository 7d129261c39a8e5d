package classic

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const meeting = "/meetings/noon"

func (h *house) doubleBarrier(c *recipes.Client, members int) *recipes.DoubleBarrier {
	h.t.Helper()
	b, err := c.DoubleBarrier(meeting, members)
	require.NoError(h.t, err)
	return b
}

// A guest enters a double barrier in the background.
type guest struct {
	*call
	member *recipes.BarrierMember
}

func (h *house) enter(b *recipes.DoubleBarrier) *guest {
	h.t.Helper()
	g := &guest{}
	g.call = h.begin(func(ctx context.Context) (err error) {
		g.member, err = b.Enter(ctx)
		return err
	})
	return g
}

func (g *guest) inside() *recipes.BarrierMember {
	g.t.Helper()
	require.NoError(g.t, g.ended())
	return g.member
}

func TestMembersOfADoubleBarrierBeginAndEndTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()

	// given all members but one, in three processes
	const members = 5
	clients := []*recipes.Client{h.client(), h.client(), h.client()}
	var guests []*guest
	for i := range members - 1 {
		guests = append(guests, h.enter(h.doubleBarrier(clients[i%3], members)))
	}
	h.fills(conn, meeting, members-1)
	for _, g := range guests {
		g.goesOn()
	}

	// when the last comes
	guests = append(guests, h.enter(h.doubleBarrier(clients[0], members)))

	// then all are inside
	for _, g := range guests {
		g.inside()
	}

	// when all but one leave
	var leavers []*call
	for _, g := range guests[1:] {
		leavers = append(leavers, h.begin(g.member.Leave))
	}
	require.Eventually(t, func() bool { return len(h.children(conn, meeting)) <= 3 }, soon, time.Millisecond) // that one, "ready", and the lowest
	for _, l := range leavers {
		l.goesOn()
	}

	// then they end when that one does
	require.NoError(t, guests[0].member.Leave(t.Context()))
	for _, l := range leavers {
		require.NoError(t, l.ended())
	}
	h.gone(conn, meeting) // and nothing is left of it
	require.NoError(t, guests[0].member.Leave(t.Context()), "who is out stays out")
}

func TestDoubleBarrierServesRoundAfterRound(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const members, rounds = 4, 5
	var inside atomic.Int32
	var crowd sync.WaitGroup
	for i := range members {
		c := h.client()
		crowd.Go(func() {
			for round := range rounds {
				b, err := c.DoubleBarrier(fmt.Sprintf("%s-%d", meeting, round), members)
				if err != nil {
					t.Error(err)
					return
				}
				inside.Add(1)
				m, err := b.Enter(t.Context())
				if err != nil {
					t.Errorf("member %d, round %d: enter: %v", i, round, err)
					return
				}
				if n := inside.Load(); int(n) < members*(round+1) {
					t.Errorf("round %d began with %d", round, n)
				}
				if err := m.Leave(t.Context()); err != nil {
					t.Errorf("member %d, round %d: leave: %v", i, round, err)
					return
				}
			}
		})
	}
	crowd.Wait()
	h.nobodyThere()
}

func TestMemberThatGivesUpIsNotCounted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	c := h.client()

	// given two of three, one of whom gives up
	first, second := h.enter(h.doubleBarrier(c, 3)), h.enter(h.doubleBarrier(h.client(), 3))
	h.fills(conn, meeting, 2)
	first.cancel()
	require.ErrorIs(t, first.ended(), context.Canceled)
	h.fills(conn, meeting, 1)

	// when another comes
	third := h.enter(h.doubleBarrier(c, 3))
	h.fills(conn, meeting, 2)

	// then they wait for one more
	second.goesOn()
	third.goesOn()
	fourth := h.enter(h.doubleBarrier(c, 3))
	for _, g := range []*guest{second, third, fourth} {
		g.inside()
	}
}

func TestDoubleBarrierDoesNotOpenForOneThatHasGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	proxy := zktest.RunProxyT(t, h.server.Addr())

	// given the last of two, who is about to open
	first := h.enter(h.doubleBarrier(h.client(), 2))
	h.fills(conn, meeting, 1)
	opening := proxy.On(zktest.Op(zktest.Multi).Path(h.at(meeting) + "/ready").Nth(1)).Hold()
	second := h.enter(h.doubleBarrier(h.client(by(proxy)), 2))
	<-opening.Reached()

	// when the other gives up
	first.cancel()
	require.ErrorIs(t, first.ended(), context.Canceled)
	h.fills(conn, meeting, 1)
	opening.Release()

	// then it stays closed
	h.becomesWatched(meeting+"/"+h.memberName(), 1)
	second.goesOn()
	require.False(t, h.exists(conn, meeting+"/ready"))
	third := h.enter(h.doubleBarrier(h.client(), 2))
	second.inside()
	third.inside()
}

// Curator's members leave, and take "ready" away, when one is left inside: even
// one that has not seen it.
func TestMemberGoesInWhenOthersHaveOpenedAndShutMeanwhile(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	g := h.enter(h.doubleBarrier(h.client(), 2))
	h.fills(conn, meeting, 1)
	h.becomesWatched(meeting+"/"+h.memberName(), 1)

	ready := h.at(meeting) + "/ready"
	_, err := conn.Multi(&zk.CreateRequest{Path: ready, Acl: zk.WorldACL(zk.PermAll)}, &zk.DeleteRequest{Path: ready, Version: -1})
	require.NoError(t, err)

	require.NoError(t, g.inside().Leave(t.Context()))
}

func TestMemberWhoseSessionEndsWhileItWaitsComesAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	c := h.client()
	first := h.enter(h.doubleBarrier(c, 2))
	before := h.fills(conn, meeting, 1)

	h.expire(c)
	require.Eventually(t, func() bool {
		now := h.children(conn, meeting)
		return len(now) == 1 && now[0] != before[0]
	}, soon, time.Millisecond)
	first.goesOn()

	second := h.enter(h.doubleBarrier(h.client(), 2))
	first.inside()
	second.inside()
}

func TestMemberWhoseSessionEndsInsideIsToldWhenItLeaves(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, other := h.client(), h.client()
	first, second := h.enter(h.doubleBarrier(c, 2)), h.enter(h.doubleBarrier(other, 2))
	mine, theirs := first.inside(), second.inside()

	// when its session ends
	dead := h.expire(c)
	require.Eventually(t, func() bool { id, _ := c.Session(); return id != 0 && id != dead }, soon, time.Millisecond)

	// then its leaving fails, and the other does not wait for it
	var loss *recipes.LostError
	require.ErrorAs(t, mine.Leave(t.Context()), &loss)
	require.Equal(t, recipes.LossSession, loss.Reason)
	require.NoError(t, theirs.Leave(t.Context()))
	require.ErrorAs(t, mine.Leave(t.Context()), &loss)
	h.nobodyThere()
}

func TestMemberDeletedByAnAdministratorIsTold(t *testing.T) {
	t.Parallel()

	t.Run("while it waits", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)
		conn := h.shell()
		first := h.enter(h.doubleBarrier(h.client(), 2))
		name := h.fills(conn, meeting, 1)[0]
		h.becomesWatched(meeting+"/"+name, 1)
		require.NoError(t, conn.Delete(h.at(meeting+"/"+name), -1))
		var evicted *recipes.EvictedError
		require.ErrorAs(t, first.ended(), &evicted)
	})

	t.Run("inside", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)
		conn := h.shell()
		first := h.enter(h.doubleBarrier(h.client(), 1)).inside()
		for _, name := range h.children(conn, meeting) {
			require.NoError(t, conn.Delete(h.at(meeting+"/"+name), -1))
		}
		var loss *recipes.LostError
		require.ErrorAs(t, first.Leave(t.Context()), &loss)
		require.Equal(t, recipes.LossDeleted, loss.Reason)
	})
}

func TestLeavingEndsWithItsContextAndMayBeTakenUpAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	c := h.client()
	guests := []*guest{h.enter(h.doubleBarrier(c, 3)), h.enter(h.doubleBarrier(c, 3)), h.enter(h.doubleBarrier(c, 3))}
	for _, g := range guests {
		g.inside()
	}

	// when one gives up to wait for the others
	leaving := h.begin(guests[0].member.Leave)
	leaving.goesOn()
	leaving.cancel()
	require.ErrorIs(t, leaving.ended(), context.Canceled)

	// then it has left all the same, and can wait on
	h.fills(conn, meeting, 3) // two and "ready"
	again := h.begin(guests[0].member.Leave)
	again.goesOn()
	other := h.begin(guests[1].member.Leave)
	require.NoError(t, guests[2].member.Leave(t.Context()))
	require.NoError(t, other.ended())
	require.NoError(t, again.ended())
	h.gone(conn, meeting)
}

// The answer is lost at each step in turn.
func TestDoubleBarrierGoesOnWhateverReplyIsLost(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	w := &wire{}
	mine, other := h.client(through(w), timeout(30*time.Second)), h.client()
	require.NoError(t, mine.Ready(t.Context()))
	id, _ := mine.Session()
	steps := 0
	for lost := true; lost; steps++ {
		at := fmt.Sprintf("%s-%d", meeting, steps)
		a, err := mine.DoubleBarrier(at, 2)
		require.NoError(t, err)
		b, err := other.DoubleBarrier(at, 2)
		require.NoError(t, err)

		// when it is lost there
		w.behind(opAny, steps, w.cut)
		first, second := h.enter(a), h.enter(b)

		// then both meet all the same
		first.inside()
		second.inside()
		l1, l2 := h.begin(first.member.Leave), h.begin(second.member.Leave)
		require.NoError(t, l1.ended(), "answer %d was lost", steps)
		require.NoError(t, l2.ended())
		lost = w.unset()
		require.Empty(t, h.ephemerals())
		require.NoError(t, mine.Ready(t.Context()))
	}
	t.Logf("lost each of %d answers", steps-1)
	again, _ := mine.Session()
	require.Equal(t, id, again)
}

// fills waits until a directory has n children, and returns them in no order.
func (h *house) fills(conn *zk.Conn, dir string, n int) (names []string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		names = h.children(conn, dir)
		return len(names) == n
	}, soon, 2*time.Millisecond, "%s has not got %d children", dir, n)
	return names
}

func TestMemberThatCouldNotSeeWhoIsInsideWaitsForAll(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	first, second := h.enter(h.doubleBarrier(h.client(), 2)), h.enter(h.doubleBarrier(h.client(), 2))
	mine, theirs := first.inside(), second.inside()

	// given one that was in a hurry to leave
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, mine.Leave(ctx), context.Canceled)
	h.fills(h.shell(), meeting, 2) // the other and "ready"

	// when it takes its time
	again := h.begin(mine.Leave)
	h.becomesWatched(meeting+"/"+h.memberName(), 1)

	// then it waits for the other
	again.goesOn()
	require.NoError(t, theirs.Leave(t.Context()))
	require.NoError(t, again.ended())
}

// memberName is the name of the only member's node.
func (h *house) memberName() string {
	h.t.Helper()
	nodes := h.ephemerals()
	require.Len(h.t, nodes, 1)
	return nodes[0][len(meeting)+1:]
}

func TestMemberThatGivesUpAsTheBarrierOpensIsInside(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *testing.T, w *world) {
		mine, other := w.client("mine"), w.client("other")
		a, err := mine.DoubleBarrier(meeting, 2)
		require.NoError(t, err)
		b, err := other.DoubleBarrier(meeting, 2)
		require.NoError(t, err)

		// given one that has not heard yet that the barrier is open
		opened := w.zk.On(zktest.Event(zktest.NodeCreated).From("mine")).Hold()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		entered := make(chan error, 1)
		go func() {
			_, err := a.Enter(ctx)
			entered <- err
		}()
		synctest.Wait()
		_, err = b.Enter(t.Context())
		require.NoError(t, err)
		<-opened.Reached()

		// when it gives up in that moment
		cancel()
		synctest.Wait()
		opened.Release()

		// then it is inside, as the other believes
		require.NoError(t, <-entered)
	})
}
