package recipes

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func member(id string, change ...func(*Contender)) Contender {
	return aHolder(id, append([]func(*Contender){func(c *Contender) { c.Hold, c.Token = "order-17", 7 }}, change...)...)
}

// Two exclusive holders are one hold: whoever waits has to wait for both.
func TestOutlookBehindCompanions(t *testing.T) {
	boss := aWaiter("boss")
	boss.Priority, boss.Forceful = 9, true
	s := lockNamed("l", []Contender{member("agent"), member("activity", func(c *Contender) { c.CleanupTimeout = 2 * time.Minute })}, boss, aWaiter("next"))
	outlook := s.Outlook()
	require.Equal(t, fate{"boss", OutcomeTakesOver, 2 * time.Minute}, endsOf(outlook)[0])
	require.Len(t, outlook[0].Asks, 2)
	plan, ok := s.PlanOf("boss")
	require.True(t, ok)
	require.Equal(t, OutcomeTakesOver, plan.Outcome)
	require.Len(t, plan.Obstacles, 2)
}

// A companion that waits for another lock under the hold closes a circle like any
// holder, whoever else is in the hold.
func TestCircleThroughACompanion(t *testing.T) {
	states := []LockState{
		lockNamed("orders", []Contender{member("agent"), member("activity")}, aWaiter("o2", "u2")),
		lockNamed("users", []Contender{aHolder("u2")}, aWaiter("u1", "activity")),
	}
	g := WaitFor(states)
	require.Equal(t, []string{"o2>agent", "o2>activity"}, drawn(g.From("o2")))
	require.Len(t, g.Circles(), 1)
	require.ElementsMatch(t, []string{"o2>activity", "activity>u1", "u1>u2", "u2>o2"}, drawn(g.Circles()[0].Edges))
}

func TestDeadMembersOfAHoldAreNamedWithinLimits(t *testing.T) {
	const first = "aaaaaaaaaaaaaaaaaaaaaaaa"
	v := &holdView{there: []child{{guid: "alive"}}}
	v.g.Holders = []string{first, "alive"}
	for range 3 * maxDead {
		v.g.Holders = append(v.g.Holders, znode.NewGUID())
	}
	youngest := v.g.Holders[len(v.g.Holders)-1]

	joined := v.holders(priority.Exclusive, "", "me")
	require.Len(t, joined, 1+1+maxDead+1)
	require.Equal(t, []string{first, "alive"}, joined[:2], "the place of the first one can always be taken")
	require.Equal(t, []string{youngest, "me"}, joined[len(joined)-2:])

	adopted := v.holders(priority.Exclusive, first, "me")
	require.Equal(t, []string{"me", "alive"}, adopted[:2])
	require.NotContains(t, adopted, first)

	require.Equal(t, []string{"alive", "me"}, v.holders(priority.Shared, "", "me"))
}

// The session may end at the moment at which the connection does, and nobody knows what
// became of the transaction.
func TestAdopterRemembersWhatItHasTriedInASessionThatHasEnded(t *testing.T) {
	c := unconnected(t)
	s := c.Current()
	require.NoError(t, c.Close(t.Context()))
	k := &accession{a: &attempt{l: &PriorityLock{c: c, scope: "users", path: "/lockkeeper/locks/13/users"}}}
	v := &holdView{stat: &zkclient.Stat{}}
	_, err := k.make(t.Context(), s, v, &zkclient.CheckVersionRequest{Path: c.Root()}, 0, contenderRecord{Mode: priority.Exclusive}, lockRecord{}, "")
	require.ErrorIs(t, err, zkclient.ErrSessionOver)
	require.Len(t, k.tried, 1)
}

// As many as can share a lock do: nobody joins them, and each can be adopted.
func TestOfACrowdThatIsFullEachCanBeAdopted(t *testing.T) {
	c := unconnected(t)
	s := c.Current()
	require.NoError(t, c.Close(t.Context()))
	v := &holdView{stat: &zkclient.Stat{}}
	for range maxSharing {
		guid := znode.NewGUID()
		v.there = append(v.there, child{guid: guid, mode: priority.Shared})
		v.g.Holders = append(v.g.Holders, guid)
	}
	m := &holding{child: v.there[0], rec: contenderRecord{Granted: true, Hold: "order-17", Mode: priority.Shared}, stat: &zkclient.Stat{Mzxid: 7}}
	for _, adopts := range []bool{false, true} {
		k := &accession{a: &attempt{l: &PriorityLock{c: c, scope: "users"}}, adopts: adopts, ref: Reference{Hold: "order-17"}}
		place := ""
		if adopts {
			place = m.guid
		}
		_, err := k.enter(t.Context(), s, v, m, place)
		require.Equal(t, !adopts, errors.As(err, new(*QueueFullError)), err)
		require.Equal(t, adopts, errors.Is(err, zkclient.ErrSessionOver), err)
	}
}
