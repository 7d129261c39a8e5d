package lock

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

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

// The session may end at the moment at which the connection does; the outcome
// of the transaction is then unknown.
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

// The hold has as many members as a lock can have shared holders: no other can
// join it, and each can be adopted.
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
