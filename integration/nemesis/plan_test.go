package nemesis

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSameSeedDrawsTheSameSteps(t *testing.T) {
	o, err := Options{Clients: []string{"a", "b", "c"}, Seed: 7}.complete()
	require.NoError(t, err)
	draw := func(o Options, lane uint64) (steps []Step) {
		p := newPlanner(o, lane, All())
		for range 200 {
			steps = append(steps, p.next())
		}
		return steps
	}

	once, again := draw(o, 1), draw(o, 1)
	require.Equal(t, once, again)
	require.NotEqual(t, draw(o, 1), draw(o, 2), "two lanes play the same")
	other := o
	other.Seed++
	require.NotEqual(t, draw(o, 1), draw(other, 1))
}

func TestDrawnStepsLastAsLongAsTheirKindAsks(t *testing.T) {
	o, err := Options{Clients: []string{"a", "b", "c"}, Session: 3 * time.Second, Hold: time.Second}.complete()
	require.NoError(t, err)
	p := newPlanner(o, 1, All())
	kinds, clients, servers, reaches := map[Kind]int{}, map[string]int{}, map[int]int{}, map[Reach]int{}
	for range 1000 {
		s := p.next()
		kinds[s.Kind]++
		clients[s.Client]++
		servers[s.Server]++
		reaches[s.Reach]++
		require.LessOrEqual(t, s.After, 2*o.Rest)
		require.LessOrEqual(t, s.For, max(2*o.Session, 2*o.Hold), s.Kind)
		switch s.Kind {
		case ServerPause, LeaderPause, LeaderPartition, LeaderTrap, FollowerKillAcked, FollowerPauseAcked, FollowerPartitionAcked:
			require.Greater(t, s.For, o.Session, "%s ends before a session does", s.Kind)
		case SessionExpire, LinkReset, ClientKill:
			require.Zero(t, s.For)
		default: // as long as was drawn
		}
		require.NotZero(t, s.Offset)
	}
	require.Len(t, kinds, len(All()))
	require.Len(t, clients, 3)
	require.Len(t, servers, 4, "each server, and all")
	require.Len(t, reaches, 2)
	require.Greater(t, reaches[Alone], reaches[Elsewhere])
}

func TestStepKeepsWhatItNames(t *testing.T) {
	o, err := Options{Clients: []string{"a", "b"}}.complete()
	require.NoError(t, err)
	named := Step{Kind: LinkCut, Client: "b", Server: 2, For: time.Minute, After: time.Second, Offset: -time.Second, Reach: Elsewhere}
	s := newPlanner(o, 0, nil).complete(named, false)
	s.dice = 0
	require.Equal(t, named, s)

	s = newPlanner(o, 0, nil).complete(Step{Kind: LinkCut, Client: "b"}, false)
	require.Zero(t, s.Server, "all links")
}

func TestOptionsThatCannotBe(t *testing.T) {
	for want, o := range map[string]Options{
		"no clients":      {},
		"occurs twice":    {Clients: []string{"a", "b", "a"}},
		"called \"fire\"": {Clients: []string{"a"}, Kinds: []Kind{"fire"}},
		"negative":        {Clients: []string{"a"}, Hold: -1},
	} {
		_, err := New(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
	_, err := New(t.Context(), Options{Clients: []string{"a"}, Kinds: []Kind{ClientKill}})
	require.ErrorContains(t, err, "no processes of their own")
}

func TestFaultsOfOneVictimWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClaims()
		never := make(chan struct{})
		giveBack := c.take(never, []string{"client a", "servers"})
		require.NotNil(t, giveBack)

		other := c.take(never, []string{"client b"})
		require.NotNil(t, other)
		over := make(chan struct{})
		close(over)
		require.Nil(t, c.take(over, []string{"client c", "servers"}), "taken twice")

		got := make(chan func(), 1)
		go func() { got <- c.take(never, []string{"client a"}) }()
		synctest.Wait() // until it waits
		other()
		synctest.Wait()
		require.Empty(t, got, "given although it was taken")
		giveBack()
		(<-got)()
	})
}
