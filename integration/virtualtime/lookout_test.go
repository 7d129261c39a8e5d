package virtualtime

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// watch runs a board on the tree, with a program of its own.
func watch(p *program) *live.Board {
	w := p.World
	look, err := p.Client.Lookout(lock.LookoutOptions{})
	require.NoError(w, err)
	b, err := live.New(live.Options{Source: look, Now: p.Client.Now})
	require.NoError(w, err)
	ctx, stop := context.WithCancel(w.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = b.Run(ctx) })
	w.Cleanup(func() { stop(); work.Wait() })
	synctest.Wait()
	return b
}

// shows returns how long it takes until a snapshot is so.
func shows(t testing.TB, b *live.Board, is func(*live.Snapshot) bool) time.Duration {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	began := time.Now()
	for n := range b.Changes(ctx) {
		if is(n) {
			return time.Since(began)
		}
	}
	require.FailNow(t, "the board does not show it", "%+v", b.Now().Locks)
	return 0
}

// liveWithin is how soon people see what happens.
const liveWithin = 500 * time.Millisecond

func TestBoardShowsWhatHappensWithinHalfASecondHoweverBusyTheLockIs(t *testing.T) {
	run(t, func(w *world) {
		agent, viewer := w.Program("agent", long), w.Program("viewer", long)
		b := watch(viewer)
		holder := func(owner string) func(*live.Snapshot) bool {
			return func(n *live.Snapshot) bool {
				return len(n.Locks) > 0 && len(n.Locks[0].Holders) == 1 && n.Locks[0].Holders[0].Owner == owner
			}
		}
		lists := w.On(zktest.Op(zktest.GetChildren).From("viewer")).Delay(time.Nanosecond)

		// a lock that changes hands every 10ms
		for range 500 {
			g := agent.Take(scope, lock.Request{Identity: priority.Identity{Owner: "busy"}})
			<-time.After(10 * time.Millisecond)
			require.NoError(w, g.Release(w.Context()))
		}
		// and then is held
		g := agent.Take(scope, lock.Request{Identity: priority.Identity{Owner: "last"}})
		require.LessOrEqual(w, shows(w, b, holder("last")), liveWithin)
		require.LessOrEqual(w, lists.Fired(), 60, "five seconds, a list each tenth of one")

		// one alone, after a long rest
		<-time.After(time.Hour)
		require.NoError(w, g.Release(w.Context()))
		require.LessOrEqual(w, shows(w, b, func(n *live.Snapshot) bool { return n.Locks[0].State == "free" }), liveWithin)
	})
}

func TestLookoutAsksNothingInAQuietDay(t *testing.T) {
	run(t, func(w *world) {
		agent, viewer := w.Program("agent", long), w.Program("viewer", long)
		for i := range 10 {
			acquired := agent.Take(fmt.Sprintf("lock/%d", i), lock.Request{Identity: priority.Identity{Owner: "ann"}})
			defer func() { require.NoError(w, acquired.Release(context.Background())) }()
		}
		b := watch(viewer)
		w.Until(time.Minute)
		require.True(w, b.Now().Complete)
		version := b.Now().Version
		asked := w.On(zktest.Op(zktest.GetData, zktest.GetChildren, zktest.Exists, zktest.SetData).From("viewer")).Delay(time.Nanosecond)
		w.Until(day)
		require.Zero(w, asked.Fired())
		require.Equal(w, version, b.Now().Version, "nothing is shown anew")

		// and it would have been seen
		again := agent.Take("lock/new", lock.Request{Identity: priority.Identity{Owner: "bob"}})
		shows(w, b, func(n *live.Snapshot) bool { return n.Totals.Held == 11 })
		require.NotZero(w, asked.Fired())
		require.NoError(w, again.Release(w.Context()))
	})
}

func TestLookoutIsBlindAfterASecondAndSeesAgain(t *testing.T) {
	run(t, func(w *world) {
		agent, viewer := w.Program("agent", long), w.Program("viewer", long)
		g := agent.Take(scope, lock.Request{Identity: priority.Identity{Owner: "ann"}})
		b := watch(viewer)
		w.Until(time.Minute)

		// a server that is restarted is no news
		w.Stop()
		<-time.After(100 * time.Millisecond)
		require.NoError(w, w.Restart())
		w.Until(2 * time.Minute)
		require.Nil(w, b.Now().Blind)
		require.Empty(w, b.Entries(0, 0))

		// one that is away is
		w.Stop()
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		require.NotNil(w, b.Now().Blind)
		require.InDelta(w, 0, b.Now().Blind.Since.Sub(w.At(2*time.Minute)).Seconds(), 0.2)
		require.Equal(w, "held", b.Now().Locks[0].State)
		require.NoError(w, w.Restart())
		require.NoError(w, g.Release(w.Context()))
		w.Until(4 * time.Minute)
		require.Nil(w, b.Now().Blind)
		require.Equal(w, "free", b.Now().Locks[0].State)
		kinds := ""
		for _, e := range b.Entries(0, 0) {
			kinds += string(e.Kind) + " "
		}
		require.Contains(w, []string{"blind gone sighted ", "blind sighted gone "}, kinds)
	})
}

// What changes while it is being looked at, or right before, is seen, whichever of its
// reads it comes between.
func TestLookoutSeesWhatChangesBetweenTwoOfItsReads(t *testing.T) {
	for _, op := range []zktest.OpType{zktest.GetData, zktest.GetChildren} {
		for n := range 8 {
			t.Run(fmt.Sprintf("reply %d of %v", n+1, op), func(t *testing.T) {
				run(t, func(w *world) {
					agent, viewer := w.Program("agent", long), w.Program("viewer", long)
					b := watch(viewer)
					first := agent.Take(scope, lock.Request{Identity: priority.Identity{Owner: "first"}})
					shows(w, b, func(n *live.Snapshot) bool { return n.Totals.Held == 1 })
					<-time.After(time.Minute)

					// given a look that is on its way when everything changes, again and again
					w.On(zktest.Op(op).From("viewer").Nth(n + 1)).DelayReply(2 * time.Second)
					require.NoError(w, first.Release(w.Context()))
					var last *lock.Grant
					for i := range 40 {
						g := agent.Take(scope, lock.Request{Identity: priority.Identity{Owner: fmt.Sprint("next-", i)}})
						<-time.After(70 * time.Millisecond)
						if last = g; i < 39 {
							require.NoError(w, g.Release(w.Context()))
						}
						<-time.After(70 * time.Millisecond)
					}
					<-time.After(time.Minute)
					locks := b.Now().Locks
					require.Len(w, locks, 1)
					require.Len(w, locks[0].Holders, 1)
					require.Equal(w, last.ID(), locks[0].Holders[0].ID)
					require.NoError(w, last.Release(w.Context()))
					shows(w, b, func(n *live.Snapshot) bool { return n.Totals.Held == 0 })
				})
			})
		}
	}
}

// A state is of one moment: who has the lock, and who is there, are not of two.
func TestLookoutTellsNoStateThatNeverWas(t *testing.T) {
	run(t, func(w *world) {
		agent, viewer := w.Program("agent", long), w.Program("viewer", long)
		look, err := viewer.Client.Lookout(lock.LookoutOptions{})
		require.NoError(w, err)
		ctx, stop := context.WithCancel(w.Context())
		var told []lock.State
		var work sync.WaitGroup
		work.Go(func() {
			_ = look.Run(ctx, func(s lock.Sighting) {
				if s.State.Scope != "" {
					told = append(told, s.State)
				}
			})
		})
		ask := func(owner string) <-chan *lock.Grant {
			granted := make(chan *lock.Grant, 1)
			work.Go(func() {
				g, _ := agent.Acquire(scope, lock.Request{Identity: priority.Identity{Owner: owner}})
				granted <- g
			})
			<-time.After(time.Second)
			synctest.Wait()
			return granted
		}
		ann := <-ask("ann")
		bob := ask("bob")
		lock := ""
		for _, n := range w.Tree("/lockkeeper/locks") {
			if strings.Count(n.Path, "/") == 4 {
				lock = n.Path
			}
		}

		// given a look whose first answer, who has the lock, is on its way when it is handed over
		slow := w.On(zktest.Op(zktest.GetData).Path(lock).From("viewer").Nth(1)).DelayReply(5 * time.Second)
		cid := ask("cid")
		require.NoError(w, ann.Release(w.Context()))
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(w, 1, slow.Fired())

		require.NotEmpty(w, told)
		last := told[len(told)-1]
		require.Equal(w, "bob", last.Holders[0].Owner)
		for _, s := range told {
			require.Len(w, s.Holders, 1, "it was never without a holder: %+v", s)
		}
		require.NoError(w, (<-bob).Release(w.Context()))
		require.NoError(w, (<-cid).Release(w.Context()))
		stop()
		work.Wait()
	})
}
