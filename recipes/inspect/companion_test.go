package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func member(id string, change ...func(*lock.Contender)) lock.Contender {
	return aHolder(id, append([]func(*lock.Contender){func(c *lock.Contender) { c.Hold, c.Token = "order-17", 7 }}, change...)...)
}

// Two exclusive holders are one hold: a waiter waits for both.
func TestOutlookBehindCompanions(t *testing.T) {
	boss := aWaiter("boss")
	boss.Priority, boss.Forceful = 9, true
	s := lockNamed("l", []lock.Contender{member("agent"), member("activity", func(c *lock.Contender) { c.CleanupTimeout = 2 * time.Minute })}, boss, aWaiter("next"))
	outlook := Outlook(s)
	require.Equal(t, fate{"boss", OutcomeTakesOver, 2 * time.Minute}, endsOf(outlook)[0])
	require.Len(t, outlook[0].Asks, 2)
	plan, ok := PlanOf(s, "boss")
	require.True(t, ok)
	require.Equal(t, OutcomeTakesOver, plan.Outcome)
	require.Len(t, plan.Obstacles, 2)
}

// A companion that waits for another lock under the hold closes a circle like any
// holder, with any other members.
func TestCircleThroughACompanion(t *testing.T) {
	states := []lock.State{
		lockNamed("orders", []lock.Contender{member("agent"), member("activity")}, aWaiter("o2", "u2")),
		lockNamed("users", []lock.Contender{aHolder("u2")}, aWaiter("u1", "activity")),
	}
	g := WaitFor(states)
	require.Equal(t, []string{"o2>agent", "o2>activity"}, drawn(g.From("o2")))
	require.Len(t, g.Circles(), 1)
	require.ElementsMatch(t, []string{"o2>activity", "activity>u1", "u1>u2", "u2>o2"}, drawn(g.Circles()[0].Edges))
}
