package groups

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The answer to each kind of write is lost, whether or not it was executed.
func TestWriteWhoseAnswerIsLostIsNotRepeatedAndNotForgotten(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]func(*fixture) zktest.Match{
		"the spec": func(f *fixture) zktest.Match {
			return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(f.path()).Nth(1)
		},
		"the join":        func(f *fixture) zktest.Match { return zktest.Op(zktest.Create).Path(f.path("members", "*")).Nth(1) },
		"the revocation":  func(f *fixture) zktest.Match { return f.decides().Nth(2) },
		"the grant":       func(f *fixture) zktest.Match { return f.decides().Nth(3) },
		"the first grant": func(f *fixture) zktest.Match { return f.decides().Nth(1) },
		"the release":     func(f *fixture) zktest.Match { return f.tells().Nth(1) },
		"the leave":       func(f *fixture) zktest.Match { return zktest.Op(zktest.Delete).Path(f.path("members", "*")).Nth(1) },
	} {
		for _, executed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, executed %t", name, executed), func(t *testing.T) {
				t.Parallel()
				f := share(t)
				s := spec(4)

				// given a participant whose connection breaks there
				proxy := zktest.RunProxyT(t, f.Server.Addr())
				if fault := proxy.On(what(f)); executed {
					fault.DropReply()
				} else {
					fault.DropRequest()
				}
				one := f.join(s, "node1", behind(proxy))
				f.share(4, one)
				id, _ := one.c.Session()

				// when locks move, and it leaves
				two := f.join(s, "node2")
				f.share(2, one, two)
				one.leave()
				f.share(4, two)

				// then it was one session all the time, and one node
				again, _ := one.c.Session()
				require.Equal(t, id, again)
				require.Len(t, f.Ephemerals(), 1)
				require.Len(t, harness.All[group.Joined](one.Notices), 1)
				require.Empty(t, harness.All[group.Lost](one.Notices))
			})
		}
	}
}

// cutOff cuts one of three participants off, the controller among them, until its session has ended.
func (f *fixture) cutOff(way []func(*lock.Config), fail, pass func()) {
	f.Helper()
	s := spec(12)
	cut := f.join(s, "node1", way...)
	two, three := f.join(s, "node2"), f.join(s, "node3")
	f.share(4, cut, two, three)
	held, gave := cut.locks(), given(cut)

	// when its network fails
	fail()

	// then all its contexts end with the loss, and the others have its locks
	require.Equal(f, lock.LossSession, harness.Await[group.Lost](f, cut.Notices).Err.Reason)
	f.share(6, two, three)
	require.Empty(f, cut.locks())
	cut.mu.Lock()
	for _, lock := range held {
		require.True(f, cut.lost[lock], lock)
	}
	cut.mu.Unlock()

	// and it comes back
	pass()
	f.share(4, cut, two, three)
	require.Equal(f, gave, given(cut))
}

func TestParticipantThatIsCutOffStopsBeforeTheServerGivesItsLocksAway(t *testing.T) {
	virtually(t, func(_ *testing.T, f *fixture) { // the referee sees that no other one was too early
		f.cutOff([]func(*lock.Config){f.from("cut")}, func() { f.zk.Partition("cut") }, func() { f.zk.Heal("cut") })
	})
}

func TestParticipantThatIsCutOffComesBack(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*netfault.Proxy) error{
		"packets vanish": func(p *netfault.Proxy) error { return p.Blackhole() },
		"they are late":  (*netfault.Proxy).Stall,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			f.referee.holders = 2 // a busy machine may let it know late
			network := newNetwork(f)
			f.cutOff([]func(*lock.Config){harness.Servers(network.Addr()), harness.SessionTimeout(harness.Mortal)},
				func() { require.NoError(t, fault(network)) }, func() { require.NoError(t, network.Pass()) })
		})
	}
}

// expires ends a participant's session at the server.
func (p *player) expires() {
	p.f.Helper()
	id, _ := p.c.Session()
	require.True(p.f, p.f.zk.Expire(id))
	harness.Await[group.Lost](p.f, p.Notices)
	harness.Await[group.Joined](p.f, p.Notices)
}

func TestSessionThatExpiresCostsItsLocksAndTheParticipantComesBack(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"the controller", "another one"} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, f *fixture) {
				s := spec(12, debounce(time.Minute))
				players := []*player{f.join(s, "node1"), f.join(s, "node2")}
				f.share(6, players...)
				before := f.state()

				// when a session expires and its participant is back within the debounce
				victim, other := players[i], players[1-i]
				held, gave := victim.locks(), given(other)
				harness.Await[group.Joined](t, victim.Notices) // the first one
				victim.expires()
				f.share(6, victim, other)

				// then it has the same locks, under new tokens, and nothing else has moved
				require.Equal(t, held, victim.locks())
				require.Equal(t, before.MovedTotal, f.state().MovedTotal)
				require.Equal(t, gave, given(other))
				for _, lock := range held {
					calls := victim.history(lock)
					require.Equal(t, []string{"locked", "released", "locked"}, calls[len(calls)-3:])
				}
			})
		})
	}
}

func TestWhileZooKeeperIsSilentALeaveAndACloseAreNotHeldUp(t *testing.T) {
	t.Parallel()
	f := alone(t)
	s := spec(4)
	one := f.join(s, "node1")
	f.share(4, one)
	briefly := func(call func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return harness.Run(t, "the call", func(context.Context) error { return call(ctx) }).Err()
	}

	// when ZooKeeper falls silent
	require.NoError(t, f.Server.Pause())

	// then another join fails with what is known
	two := f.player("node2", one.c)
	require.ErrorIs(t, briefly(func(ctx context.Context) error {
		_, err := two.group(s).Join(ctx, "node2", two)
		return err
	}), context.DeadlineExceeded)

	// and a leave ends all contexts at once, and returns with its own
	require.ErrorIs(t, briefly(one.m.Leave), context.DeadlineExceeded)
	require.Empty(t, one.locks())
	harness.Eventually(t, func() bool {
		return f.referee.count() == 0 && given(one) == 4 && slices.Equal([]string{"locked", "released", "dropped"}, one.history(first))
	}, "it cleans up")

	// and so does the client, which ends with it
	if err := briefly(one.c.Close); err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, f.Server.Resume())
	harness.Receive(t, one.m.Done(), "the membership goes on")
	f.NoEphemerals()
}

func TestClientDoesNotCloseWhileItTakesPart(t *testing.T) {
	t.Parallel()
	f := share(t)
	one := f.join(spec(4), "node1")
	f.share(4, one)
	var busy *lock.BusyError
	require.ErrorAs(t, one.c.Close(t.Context()), &busy)
	require.Equal(t, []string{"group lock-group as node1"}, busy.Held)
	require.Len(t, one.locks(), 4)
	one.leave()
	require.NoError(t, one.c.Close(t.Context()))
	require.NotErrorIs(t, one.m.Err(), lock.ErrClosed)
	_, err := one.group(spec(4)).Join(t.Context(), "node1", one)
	require.ErrorIs(t, err, lock.ErrClosed)
}
