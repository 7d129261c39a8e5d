package groups

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

// quiet does nothing with its locks.
type quiet struct{}

func (quiet) OnLocked(context.Context, group.LockGrant) {}
func (quiet) OnReleased(context.Context, string)        {}
func (quiet) OnDropped(context.Context, string)         {}

// Not on the clock of the machine: a participant with little of a processor releases its locks one after the other, and
// writes while it does.
func TestLocksThatMoveAtTheSameTimeAreWrittenTogether(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		s := spec(1000, strategy("mod"))
		rounds := harness.NewNotices[group.Notice](f.History, "the group")
		var members []*group.Member
		join := func() {
			g, err := group.New(f.client().Client, s, group.Options{Notify: rounds.Add})
			require.NoError(t, err)
			m, err := g.Join(context.Background(), fmt.Sprint("node", len(members)), quiet{})
			require.NoError(t, err)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
				defer cancel()
				require.NoError(t, m.Leave(ctx))
			})
			members = append(members, m)
		}
		// A round is reported after its last lock is in place.
		settled := func() (last group.RoundDone) {
			least := len(s.Locks) / len(members)
			harness.Eventually(t, func() bool {
				total := 0
				for _, m := range members {
					n := len(m.Locks())
					if n < least || n > least+1 {
						return false
					}
					total += n
				}
				return total == len(s.Locks)
			}, "the locks are not spread")
			generation := f.state().Generation
			for last.Generation < generation {
				last = harness.Await[group.RoundDone](t, rounds)
			}
			return last
		}

		// given 10 participants, each with a session of its own
		for range 10 {
			join()
		}
		settled()

		// when another one joins
		before := f.zk.Zxid()
		join()
		round := settled()
		writes := f.zk.Zxid() - before

		t.Logf("1,000 locks, an 11th participant joins 10: %d moves, %d transactions", round.Moves, writes)
		require.GreaterOrEqual(t, round.Moves, 900)
		require.LessOrEqual(t, round.Moves, 910)
		require.LessOrEqual(t, writes, int64(20))
	})
}
