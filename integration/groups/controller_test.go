package groups

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// behind connects through a proxy that plays tricks.
func behind(p *zktest.Proxy) func(*recipes.Config) { return at(p.Addr()) }

// decides matches a controller's writes.
func (h *house) decides() zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(h.path("assignment"))
}

// tells matches a participant's word that it has released locks.
func (h *house) tells() zktest.Match {
	return zktest.Op(zktest.SetData).Path(h.path("members", "*"))
}

func reached(t testing.TB, r *zktest.Rule) {
	t.Helper()
	select {
	case <-r.Reached():
	case <-time.After(soon):
		require.FailNow(t, "never reached", "%s", r)
	}
}

// A controller is cut off at every step of a round, until its session ends: its
// write is held, before or after it was executed; or what it waits for is.
func TestControllerThatDiesAtAnyStepOfARoundIsReplaced(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(h *house, mine, other *zktest.Proxy) *zktest.Rule{
		"before it revokes":         func(h *house, p, _ *zktest.Proxy) *zktest.Rule { return p.On(h.decides().Nth(1)).Hold() },
		"after it has revoked":      func(h *house, p, _ *zktest.Proxy) *zktest.Rule { return p.On(h.decides().Nth(1)).HoldReply() },
		"before locks are released": func(h *house, _, o *zktest.Proxy) *zktest.Rule { return o.On(h.tells().Nth(1)).Hold() },
		"after locks are released":  func(h *house, _, o *zktest.Proxy) *zktest.Rule { return o.On(h.tells().Nth(1)).HoldReply() },
		"before it grants":          func(h *house, p, _ *zktest.Proxy) *zktest.Rule { return p.On(h.decides().Nth(2)).Hold() },
		"after it has granted":      func(h *house, p, _ *zktest.Proxy) *zktest.Rule { return p.On(h.decides().Nth(2)).HoldReply() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)

			// given a controller and another participant, each on a line that can be held
			mine, other := zktest.RunProxyT(t, h.server.Addr()), zktest.RunProxyT(t, h.server.Addr())
			s := spec(12)
			one := h.join(s, "node1", behind(mine), timeout(3*time.Second))
			two := h.join(s, "node2", behind(other))
			three := h.join(s, "node3")
			h.share(s, map[*player]int{one: 4, two: 4, three: 4})

			// when it dies at one step of the round that another one's join begins
			rule := step(h, mine, other)
			four := h.join(s, "node4")
			reached(t, rule)
			mine.Partition()
			await[recipes.GroupLost](t, one.told)
			require.Eventually(t, func() bool { return len(h.members()) == 3 }, soon, 5*time.Millisecond)
			rule.Release()

			// then another one goes on, and the first comes back as any other
			h.share(s, map[*player]int{one: 0, two: 4, three: 4, four: 4})
			mine.Heal()
			await[recipes.GroupJoined](t, one.told)
			h.share(s, map[*player]int{one: 3, two: 3, three: 3, four: 3})
			state := h.state()
			require.Equal(t, "node2", state.Controller())
			require.Equal(t, "node1", state.Members[3].Name)
		})
	}
}

func TestWriteOfAControllerThatIsGoneIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()

	// given a controller whose write is under way
	proxy := zktest.RunProxyT(t, h.server.Addr())
	s := spec(12, debounce(3*time.Second))
	one := h.player("node1", h.client(behind(proxy)))
	held := proxy.On(h.decides().Nth(1)).Hold()
	one.join(s)
	reached(t, held)
	require.Len(t, h.members(), 1)

	// when its place is gone before the write arrives, though its session lives
	require.NoError(t, shell.Delete(h.members()[0], -1))
	_, before, err := shell.Get(h.path("assignment"))
	require.NoError(t, err)
	held.Release()

	// then it is refused, and the participant comes back
	await[recipes.GroupLost](t, one.told)
	await[recipes.GroupJoined](t, one.told)
	_, after, err := shell.Get(h.path("assignment"))
	require.NoError(t, err)
	require.Equal(t, before.Mzxid, after.Mzxid)
	h.share(s, map[*player]int{one: 12})
}

func TestWriteOfAControllerThatHasNotSeenTheLastAssignmentIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()

	// given a controller whose write is under way
	proxy := zktest.RunProxyT(t, h.server.Addr())
	s := spec(6)
	one, two := h.join(s, "node1", behind(proxy)), h.join(s, "node2")
	h.share(s, map[*player]int{one: 3, two: 3})
	held := proxy.On(h.decides().Nth(1)).Hold()
	three := h.join(s, "node3")
	reached(t, held)

	// when another write comes before it
	data, stat, err := shell.Get(h.path("assignment"))
	require.NoError(t, err)
	var record map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &record))
	record["moved_total"] = json.RawMessage("1000")
	for _, lock := range h.state().Locks { // tokens of what was granted by the last write are in it
		require.NotZero(t, lock.Holders[0].Token)
	}
	data, err = json.Marshal(record)
	require.NoError(t, err)
	frozen := freeze(t, data, stat)
	_, err = shell.Set(h.path("assignment"), frozen, stat.Version)
	require.NoError(t, err)
	held.Release()

	// then it decides anew on that one
	h.share(s, map[*player]int{one: 2, two: 2, three: 2})
	require.Greater(t, h.state().MovedTotal, int64(1000))
}

// freeze writes the tokens of a write into its data, as whoever writes next
// has to.
func freeze(t testing.TB, data []byte, stat *zk.Stat) []byte {
	t.Helper()
	var record map[string]any
	require.NoError(t, json.Unmarshal(data, &record))
	for _, lock := range record["locks"].(map[string]any) {
		rows, _ := lock.(map[string]any)["h"].([]any)
		for _, row := range rows {
			if row := row.([]any); row[1].(float64) == 0 {
				row[1] = stat.Mzxid
			}
		}
	}
	frozen, err := json.Marshal(record)
	require.NoError(t, err)
	return frozen
}

func TestParticipantWhoseNodeIsDeletedLosesItsLocksAndComesBack(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4, debounce(time.Second))
	one, two := h.join(s, "node1"), h.join(s, "node2")
	h.share(s, map[*player]int{one: 2, two: 2})

	shell := h.shell()
	for _, m := range h.state().Members {
		if m.Name == "node2" {
			require.NoError(t, shell.Delete(h.path("members", fmt.Sprintf("node2-%s-0000000001", m.ID)), -1))
		}
	}
	lost := await[recipes.GroupLost](t, two.told)
	require.Equal(t, recipes.LossDeleted, lost.Err.Reason)
	h.share(s, map[*player]int{one: 2, two: 2})
	require.Empty(t, two.gaveUp())
}

func TestGroupWhoseNodesAreDeletedIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]string{"the assignment": "assignment", "everything": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			s := spec(4, debounce(time.Second))
			one, two := h.join(s, "node1"), h.join(s, "node2")
			h.share(s, map[*player]int{one: 2, two: 2})

			// when an administrator deletes it
			shell := h.shell()
			require.NoError(t, shell.Delete(h.path("assignment"), -1))
			if what == "" {
				for _, node := range h.members() {
					if err := shell.Delete(node, -1); err != nil {
						require.ErrorIs(t, err, zk.ErrNoNode)
					}
				}
				_ = shell.Delete(h.path("members"), -1) // they may be back already
				_ = shell.Delete(h.path("assignment"), -1)
				_ = shell.Delete(h.path(), -1)
			}

			// then all lose their locks, and the group goes on. Whoever hears of the assignment
			// only when another one has made it anew is not named in it, and is out of its locks.
			told := func() []recipes.GroupLost {
				return append(all[recipes.GroupLost](one.told), all[recipes.GroupLost](two.told)...)
			}
			least := 1
			if what == "" {
				least = 2
			}
			require.Eventually(t, func() bool { return len(told()) >= least }, soon, 5*time.Millisecond)
			for _, lost := range told() {
				require.Equal(t, recipes.LossDeleted, lost.Err.Reason)
			}
			h.share(s, map[*player]int{one: 2, two: 2})
			require.Len(t, h.state().Members, 2)
			require.Empty(t, all[recipes.GroupFault](one.told))
			require.Less(t, len(all[recipes.GroupLost](one.told)), 5)
		})
	}
}
