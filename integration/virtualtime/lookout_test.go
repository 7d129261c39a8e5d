package virtualtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// watch runs a board on the tree, with a program of its own.
func (w *world) watch(p *program) *live.Board {
	w.t.Helper()
	look, err := p.client.Lookout(recipes.LookoutOptions{})
	require.NoError(w.t, err)
	b, err := live.New(live.Options{Source: look, Now: p.client.Now})
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = b.Run(ctx) })
	w.t.Cleanup(func() { stop(); work.Wait() })
	synctest.Wait()
	return b
}

func acquireAs(t *testing.T, p *program, scope, owner string, change ...func(*recipes.Request)) *recipes.Grant {
	t.Helper()
	l, err := p.client.PriorityLock(scope)
	require.NoError(t, err)
	r := recipes.Request{Owner: owner, LeaseTimeout: day}
	for _, f := range change {
		f(&r)
	}
	g, err := l.Acquire(t.Context(), r)
	require.NoError(t, err)
	return g
}

// shows returns how long it takes until a snapshot is so.
func shows(t *testing.T, b *live.Board, is func(*live.Snapshot) bool) time.Duration {
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
	story(t, func(t *testing.T, w *world) {
		agent, viewer := w.program("agent", long), w.program("viewer", long)
		b := w.watch(viewer)
		holder := func(owner string) func(*live.Snapshot) bool {
			return func(n *live.Snapshot) bool {
				return len(n.Locks) > 0 && len(n.Locks[0].Holders) == 1 && n.Locks[0].Holders[0].Owner == owner
			}
		}
		lists := w.zk.On(zktest.Op(zktest.GetChildren).From("viewer")).Delay(time.Nanosecond)

		// a lock that changes hands every 10ms
		for range 500 {
			g := acquireAs(t, agent, scope, "busy")
			<-time.After(10 * time.Millisecond)
			require.NoError(t, g.Release(t.Context()))
		}
		// and then is held
		g := acquireAs(t, agent, scope, "last")
		require.LessOrEqual(t, shows(t, b, holder("last")), liveWithin)
		require.LessOrEqual(t, lists.Fired(), 60, "five seconds, a list each tenth of one")

		// one alone, after a long rest
		<-time.After(time.Hour)
		require.NoError(t, g.Release(t.Context()))
		require.LessOrEqual(t, shows(t, b, func(n *live.Snapshot) bool { return n.Locks[0].State == "free" }), liveWithin)
	})
}

func TestLookoutAsksNothingInAQuietDay(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		agent, viewer := w.program("agent", long), w.program("viewer", long)
		for i := range 10 {
			acquired := acquireAs(t, agent, fmt.Sprintf("lock/%d", i), "ann")
			defer func() { require.NoError(t, acquired.Release(context.Background())) }()
		}
		b := w.watch(viewer)
		w.until(time.Minute)
		require.True(t, b.Now().Complete)
		version := b.Now().Version
		asked := w.zk.On(zktest.Op(zktest.GetData, zktest.GetChildren, zktest.Exists, zktest.SetData).From("viewer")).Delay(time.Nanosecond)
		w.until(day)
		require.Zero(t, asked.Fired())
		require.Equal(t, version, b.Now().Version, "nothing is shown anew")

		// and it would have been seen
		again := acquireAs(t, agent, "lock/new", "bob")
		shows(t, b, func(n *live.Snapshot) bool { return n.Totals.Held == 11 })
		require.NotZero(t, asked.Fired())
		require.NoError(t, again.Release(t.Context()))
	})
}

func TestLookoutIsBlindAfterASecondAndSeesAgain(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		agent, viewer := w.program("agent", long), w.program("viewer", long)
		g := acquireAs(t, agent, scope, "ann")
		b := w.watch(viewer)
		w.until(time.Minute)

		// a server that is restarted is no news
		w.zk.Stop()
		<-time.After(100 * time.Millisecond)
		require.NoError(t, w.zk.Restart())
		w.until(2 * time.Minute)
		require.Nil(t, b.Now().Blind)
		require.Empty(t, b.Entries(0, 0))

		// one that is away is
		w.zk.Stop()
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		require.NotNil(t, b.Now().Blind)
		require.InDelta(t, 0, b.Now().Blind.Since.Sub(w.start.Add(2*time.Minute)).Seconds(), 0.2)
		require.Equal(t, "held", b.Now().Locks[0].State)
		require.NoError(t, w.zk.Restart())
		require.NoError(t, g.Release(t.Context()))
		w.until(4 * time.Minute)
		require.Nil(t, b.Now().Blind)
		require.Equal(t, "free", b.Now().Locks[0].State)
		kinds := ""
		for _, e := range b.Entries(0, 0) {
			kinds += string(e.Kind) + " "
		}
		require.Contains(t, []string{"blind gone sighted ", "blind sighted gone "}, kinds)
	})
}

// A watch that stands for what is gone would stand for ever: nothing fires it.
func TestLookoutLeavesNoWatchOfAnyKindOnLocksThatAreGone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		agent, viewer := w.program("agent", long), w.program("viewer", long)
		b := w.watch(viewer)
		watches := func() int {
			return len(slices.DeleteFunc(w.zk.Watches(), func(x zktest.Watch) bool { return x.Name != "viewer" }))
		}
		kept := 0
		for round := range 4 {
			for i := range 300 { // enough for all rooms, in the first rounds
				g := acquireAs(t, agent, fmt.Sprintf("lock/%d/%d", round%2, i), "ann")
				if i%3 == 0 {
					<-time.After(time.Second)
				}
				require.NoError(t, g.Release(t.Context()))
				if i%3 == 1 {
					<-time.After(time.Second)
				}
				for _, n := range w.zk.Tree("/lockkeeper/locks") {
					if strings.Contains(n.Path, "lock%2F") {
						require.NoError(t, w.zk.Delete(n.Path))
					}
				}
			}
			<-time.After(time.Minute)
			synctest.Wait()
			require.Empty(t, b.Now().Locks)
			rooms := 0
			for _, n := range w.zk.Tree("/lockkeeper/locks") {
				if strings.Count(n.Path, "/") == 3 {
					rooms++
				}
			}
			if round == 0 {
				kept = watches() - rooms
			}
			require.LessOrEqual(t, watches()-rooms, kept, "one for the list of each room, and a few: %v", w.zk.Watches())
			require.Less(t, kept, 5)
		}
	})
}

// What changes while it is being looked at, or right before, is seen, whichever of its
// reads it comes between.
func TestLookoutSeesWhatChangesBetweenTwoOfItsReads(t *testing.T) {
	for _, op := range []zktest.OpType{zktest.GetData, zktest.GetChildren} {
		for n := range 8 {
			t.Run(fmt.Sprintf("reply %d of %v", n+1, op), func(t *testing.T) {
				story(t, func(t *testing.T, w *world) {
					agent, viewer := w.program("agent", long), w.program("viewer", long)
					b := w.watch(viewer)
					first := acquireAs(t, agent, scope, "first")
					shows(t, b, func(n *live.Snapshot) bool { return n.Totals.Held == 1 })
					<-time.After(time.Minute)

					// given a look that is on its way when everything changes, again and again
					w.zk.On(zktest.Op(op).From("viewer").Nth(n + 1)).DelayReply(2 * time.Second)
					require.NoError(t, first.Release(t.Context()))
					var last *recipes.Grant
					for i := range 40 {
						g := acquireAs(t, agent, scope, fmt.Sprint("next-", i))
						<-time.After(70 * time.Millisecond)
						if last = g; i < 39 {
							require.NoError(t, g.Release(t.Context()))
						}
						<-time.After(70 * time.Millisecond)
					}
					<-time.After(time.Minute)
					locks := b.Now().Locks
					require.Len(t, locks, 1)
					require.Len(t, locks[0].Holders, 1)
					require.Equal(t, last.ID(), locks[0].Holders[0].ID)
					require.NoError(t, last.Release(t.Context()))
					shows(t, b, func(n *live.Snapshot) bool { return n.Totals.Held == 0 })
				})
			})
		}
	}
}

// A state is of one moment: who has the lock, and who is there, are not of two.
func TestLookoutTellsNoStateThatNeverWas(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		agent, viewer := w.program("agent", long), w.program("viewer", long)
		look, err := viewer.client.Lookout(recipes.LookoutOptions{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var told []recipes.LockState
		var work sync.WaitGroup
		work.Go(func() {
			_ = look.Run(ctx, func(s recipes.Sighting) {
				if s.State.Scope != "" {
					told = append(told, s.State)
				}
			})
		})
		ask := func(owner string) <-chan *recipes.Grant {
			granted := make(chan *recipes.Grant, 1)
			work.Go(func() {
				l, _ := agent.client.PriorityLock(scope)
				g, _ := l.Acquire(ctx, recipes.Request{Owner: owner, LeaseTimeout: day})
				granted <- g
			})
			<-time.After(time.Second)
			synctest.Wait()
			return granted
		}
		ann := <-ask("ann")
		bob := ask("bob")
		lock := ""
		for _, n := range w.zk.Tree("/lockkeeper/locks") {
			if strings.Count(n.Path, "/") == 4 {
				lock = n.Path
			}
		}

		// given a look whose first answer, who has the lock, is on its way when it is handed over
		slow := w.zk.On(zktest.Op(zktest.GetData).Path(lock).From("viewer").Nth(1)).DelayReply(5 * time.Second)
		cid := ask("cid")
		require.NoError(t, ann.Release(t.Context()))
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, slow.Fired())

		require.NotEmpty(t, told)
		last := told[len(told)-1]
		require.Equal(t, "bob", last.Holders[0].Owner)
		for _, s := range told {
			require.Len(t, s.Holders, 1, "nobody was ever without it: %+v", s)
		}
		require.NoError(t, (<-bob).Release(t.Context()))
		require.NoError(t, (<-cid).Release(t.Context()))
		stop()
		work.Wait()
	})
}
