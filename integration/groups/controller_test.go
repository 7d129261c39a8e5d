package groups

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// newNetwork is one that a test can make fail.
func newNetwork(f *fixture) *netfault.Proxy { f.Helper(); return netfault.New(f, f.Server.Addr()) }

// behind connects through a proxy that plays tricks.
func behind(p *zktest.Proxy) func(*lock.Config) { return harness.Servers(p.Addr()) }

// decides matches a controller's writes.
func (f *fixture) decides() zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(f.path("assignment"))
}

// tells matches a participant's word that it has released locks.
func (f *fixture) tells() zktest.Match {
	return zktest.Op(zktest.SetData).Path(f.path("members", "*"))
}

func reached(t testing.TB, r *zktest.Rule) {
	t.Helper()
	harness.Receive(t, r.Reached(), "%s is not reached", r)
}

// A controller is cut off at every step of a round, until its session ends: its write is held, before or after it was
// executed; or what it waits for is.
func TestControllerThatDiesAtAnyStepOfARoundIsReplaced(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(f *fixture, mine, other *zktest.Proxy) *zktest.Rule{
		"before it revokes":         func(f *fixture, p, _ *zktest.Proxy) *zktest.Rule { return p.On(f.decides().Nth(1)).Hold() },
		"after it has revoked":      func(f *fixture, p, _ *zktest.Proxy) *zktest.Rule { return p.On(f.decides().Nth(1)).HoldReply() },
		"before locks are released": func(f *fixture, _, o *zktest.Proxy) *zktest.Rule { return o.On(f.tells().Nth(1)).Hold() },
		"after locks are released":  func(f *fixture, _, o *zktest.Proxy) *zktest.Rule { return o.On(f.tells().Nth(1)).HoldReply() },
		"before it grants":          func(f *fixture, p, _ *zktest.Proxy) *zktest.Rule { return p.On(f.decides().Nth(2)).Hold() },
		"after it has granted":      func(f *fixture, p, _ *zktest.Proxy) *zktest.Rule { return p.On(f.decides().Nth(2)).HoldReply() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)

			// given a controller and another participant, each on a line that can be held
			mine, other := zktest.RunProxyT(t, f.Server.Addr()), zktest.RunProxyT(t, f.Server.Addr())
			s := spec(12)
			one := f.join(s, "node1", behind(mine), harness.SessionTimeout(harness.Mortal))
			two, three := f.join(s, "node2", behind(other)), f.join(s, "node3")
			f.share(4, one, two, three)

			// when it dies at one step of the round that another one's join begins
			rule := step(f, mine, other)
			four := f.join(s, "node4")
			reached(t, rule)
			mine.Partition()
			harness.Await[group.Lost](t, one.Notices)
			harness.Eventually(t, func() bool { return len(f.Ephemerals()) == 3 }, "its session goes on")
			rule.Release()

			// then another one goes on, and the first comes back as any other
			f.share(4, two, three, four)
			require.Empty(t, one.locks())
			mine.Heal()
			harness.Await[group.Joined](t, one.Notices)
			f.share(3, one, two, three, four)
			state := f.state()
			require.Equal(t, "node2", state.Controller())
			require.Equal(t, "node1", state.Members[3].Name)
		})
	}
}

func TestWriteOfAControllerThatIsGoneIsRefused(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given a controller whose write is under way
	proxy := zktest.RunProxyT(t, f.Server.Addr())
	one := f.player("node1", f.client(behind(proxy)))
	held := proxy.On(f.decides().Nth(1)).Hold()
	one.join(spec(12))
	reached(t, held)

	// when its place is gone before the write arrives, though its session lives
	require.Len(t, f.Ephemerals(), 1)
	f.Delete(f.Ephemerals()[0])
	_, before := f.Get(f.path("assignment"))
	again := proxy.On(f.decides().Nth(1)).Hold()
	held.Release()

	// then it is refused, and the participant comes back
	harness.Await[group.Lost](t, one.Notices)
	harness.Await[group.Joined](t, one.Notices)
	reached(t, again)
	_, after := f.Get(f.path("assignment"))
	require.Equal(t, before.Mzxid, after.Mzxid)
	again.Release()
	f.share(12, one)
}

func TestWriteOfAControllerThatHasNotSeenTheLastAssignmentIsRefused(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given a controller whose write is under way
	proxy := zktest.RunProxyT(t, f.Server.Addr())
	s := spec(6)
	one, two := f.join(s, "node1", behind(proxy)), f.join(s, "node2")
	f.share(3, one, two)
	held := proxy.On(f.decides().Nth(1)).Hold()
	three := f.join(s, "node3")
	reached(t, held)

	// when another write comes before it
	for _, lock := range f.state().Locks { // tokens of what was granted by the last write are in it
		require.NotZero(t, lock.Holders[0].Token)
	}
	data, stat := f.Get(f.path("assignment"))
	_, err := f.Shell().Set(f.path("assignment"), rewritten(t, data, stat), stat.Version)
	require.NoError(t, err)
	held.Release()

	// then it decides anew on that one
	f.share(2, one, two, three)
	require.Greater(t, f.state().MovedTotal, int64(1000))
}

// rewritten is an assignment with a thousand moves, and with the tokens of a write, as the next writer has to.
func rewritten(t testing.TB, data []byte, stat *zk.Stat) []byte {
	t.Helper()
	var record map[string]any
	require.NoError(t, json.Unmarshal(data, &record))
	record["moved_total"] = 1000
	for _, lock := range record["locks"].(map[string]any) {
		rows, _ := lock.(map[string]any)["h"].([]any)
		for _, row := range rows {
			if row := row.([]any); row[1].(float64) == 0 {
				row[1] = stat.Mzxid
			}
		}
	}
	data, err := json.Marshal(record)
	require.NoError(t, err)
	return data
}

func TestParticipantWhoseNodeIsDeletedLosesItsLocksAndComesBack(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		s := spec(4)
		one, two := f.join(s, "node1"), f.join(s, "node2")
		f.share(2, one, two)
		gave := given(one, two)

		require.NoError(t, f.zk.Delete(f.path("members", fmt.Sprintf("node2-%s-0000000001", f.state().Members[1].ID))))

		require.Equal(t, lock.LossDeleted, harness.Await[group.Lost](t, two.Notices).Err.Reason)
		f.share(2, one, two)
		require.Equal(t, gave, given(one, two))
	})
}

func TestGroupWhoseNodesAreDeletedIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]int{"the assignment": 1, "everything": 2} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, f *fixture) { // all hear of it within the debounce
				s := spec(4, debounce(time.Second))
				one, two := f.join(s, "node1"), f.join(s, "node2")
				f.share(2, one, two)

				// when an administrator deletes it
				require.NoError(t, f.zk.Delete(f.path("assignment")))
				if name == "everything" {
					for _, node := range slices.Backward(f.zk.Tree(f.path())) {
						_ = f.zk.Delete(node.Path) // they may be back already
					}
				}

				// then all lose their locks, and the group goes on. A member that hears of the
				// assignment only after another one has rewritten it is not named in it, and is out
				// of its locks.
				lost := func() []group.Lost {
					return append(harness.All[group.Lost](one.Notices), harness.All[group.Lost](two.Notices)...)
				}
				harness.Eventually(t, func() bool { return len(lost()) >= least }, "the loss is not told")
				for _, l := range lost() {
					require.Equal(t, lock.LossDeleted, l.Err.Reason)
				}
				f.share(2, one, two)
				require.Len(t, f.state().Members, 2)
				require.Empty(t, harness.All[group.Fault](one.Notices))
				require.Less(t, len(harness.All[group.Lost](one.Notices)), 5)
			})
		})
	}
}
