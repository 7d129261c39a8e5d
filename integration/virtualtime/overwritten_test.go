package virtualtime

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const session10 = 10 * time.Second

// lockNode is the path of the lock's node.
func (w *world) lockNode() string {
	w.t.Helper()
	nodes := w.contenders()
	require.NotEmpty(w.t, nodes)
	return path.Dir(nodes[0].Path)
}

// overwrite writes the grant record as nobody who keeps to the protocol does.
func (w *world) overwrite(record string) {
	w.t.Helper()
	require.NoError(w.t, w.zk.Set(w.lockNode(), []byte(record)))
	w.tell("vandal", "writes %q", record)
}

// names is a grant record that names somebody.
func names(guid string) string { return fmt.Sprintf(`{"format":1,"holders":[%q]}`, guid) }

const nobody = "0123456789abcdef01234567"

// guidOf is that of a request, by its owner.
func (w *world) guidOf(owner string) string {
	w.t.Helper()
	for _, n := range w.contenders() {
		if strings.Contains(string(n.Data), fmt.Sprintf(`"owner":%q`, owner)) {
			return strings.Split(path.Base(n.Path), "-")[2]
		}
	}
	require.FailNow(w.t, "no request of "+owner)
	return ""
}

// lostInTime: the holder is told within one session timeout, and its node goes.
func (w *world) lostInTime(r *run, overwritten time.Duration) {
	w.t.Helper()
	require.Equal(w.t, recipes.LossDeleted, lostBy(w.t, r.returned()).Reason)
	require.LessOrEqual(w.t, r.ended-overwritten, session10)
	for _, n := range w.contenders() {
		require.NotContains(w.t, string(n.Data), fmt.Sprintf(`"owner":%q`, r.p.name))
	}
}

func TestHolderThatTheGrantRecordDoesNotNameAnyMoreIsTold(t *testing.T) {
	for what, record := range map[string]string{
		"another":             names(nobody),
		"nobody":              `{"format":1,"holders":[]}`,
		"empty":               "",
		"readers may walk in": `{"format":3,"holders":[],"open":true}`,
	} {
		t.Run(what, func(t *testing.T) {
			for _, mode := range []priority.Mode{priority.Exclusive, priority.Shared} {
				story(t, func(t *testing.T, w *world) {
					// given a holder for whom nobody waits
					held := w.program("holder", session10).do(lockguard.Requirement{Mode: mode}, untilCancelled)
					w.until(time.Minute)
					require.True(t, held.holds())

					// when the record is overwritten, then the holder is told
					w.overwrite(record)
					w.lostInTime(held, time.Minute)
				})
			}
		})
	}
}

// A holder that has waiters lists them: it sees at once that the record has another version.
func TestHolderForWhomOthersWaitIsToldOnceAnotherComes(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that was asked to go, and is busy with its cleanup
		holder, waiter, other := w.program("holder", session10), w.program("waiter", session10), w.program("other", session10)
		held := holder.do(lockguard.Requirement{CleanupTimeout: time.Hour}, untilCancelled,
			func(ctx context.Context) error { <-ctx.Done(); return nil })
		w.until(time.Minute)
		waits := waiter.do(lockguard.Requirement{Priority: 5}, lasting(time.Second))
		w.until(2 * time.Minute)
		only[lockguard.PreemptRequested](holder)

		// when the record names somebody who comes
		w.overwrite(names(nobody))
		comes := other.do(lockguard.Requirement{}, lasting(time.Second))

		// then the holder is told in seconds, and both others are served
		w.until(2*time.Minute + time.Second)
		require.Equal(t, recipes.LossDeleted, only[lockguard.Lost](holder).Err.Reason)
		require.NoError(t, waits.returned())
		require.NoError(t, comes.returned())
		require.Error(t, held.returned())
	})
}

func TestWaiterThatTheRecordNamesHoldsAndTheHolderIsTold(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, waiter := w.program("holder", session10), w.program("waiter", session10)
		// given a holder, and one that waits for it
		held := holder.do(lockguard.Requirement{}, untilCancelled)
		w.until(time.Minute)
		waits := waiter.do(lockguard.Requirement{}, lasting(time.Minute))
		w.until(2 * time.Minute)

		// when somebody writes both records of a grant to it
		w.overwrite(names(w.guidOf("waiter")))
		for _, n := range w.contenders() {
			if data := string(n.Data); strings.Contains(data, `"owner":"waiter"`) {
				require.NoError(t, w.zk.Set(n.Path, []byte(strings.TrimSuffix(data, "}")+`,"granted":true}`)))
			}
		}
		synctest.Wait()
		require.True(t, waits.holds())

		// then two hold the lock, for less than a session timeout
		w.lostInTime(held, 2*time.Minute)
		require.NoError(t, waits.returned())
	})
}

func TestReadersThatTheRecordForgetsAreToldAndTheOthersAreNot(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given three readers, of whom one has walked in: its name says that it holds
		shared := lockguard.Requirement{Mode: priority.Shared}
		first, second, third := w.program("first", session10), w.program("second", session10), w.program("third", session10)
		a := first.do(shared, untilCancelled)
		w.until(time.Minute)
		b := second.do(shared, lasting(10*time.Minute))
		w.until(2 * time.Minute)
		c := third.do(shared, lasting(10*time.Minute))
		w.until(3 * time.Minute)
		walked := 0
		for _, n := range w.contenders() {
			if strings.Contains(n.Path, "-w-") {
				walked++
			}
		}
		require.Equal(t, 1, walked)

		w.overwrite(names(w.guidOf("second")))

		w.lostInTime(a, 3*time.Minute)
		require.NoError(t, b.returned())
		require.NoError(t, c.returned())
	})
}

// Whoever stands behind the holder in its process goes to ZooKeeper, like anybody else.
func TestLocalQueueGoesOnAfterTheRecordWasOverwritten(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.program("local", session10, func(cfg *recipes.Config) { cfg.LocalQueue = 10 })
		first := p.do(lockguard.Requirement{}, lasting(10*time.Second))
		second := p.do(lockguard.Requirement{}, untilCancelled) // on the first one's node
		third := p.do(lockguard.Requirement{}, lasting(time.Second))
		w.until(time.Minute)
		require.NoError(t, first.returned())
		require.Len(t, w.contenders(), 1)

		w.overwrite(names(nobody))

		require.Equal(t, recipes.LossDeleted, lostBy(t, second.returned()).Reason)
		require.LessOrEqual(t, second.ended, time.Minute+session10)
		require.NoError(t, third.returned())
		require.Less(t, third.ended, 2*time.Minute)
	})
}

// A record that says nothing is restored from the requests: nobody loses by it.
func TestRecordThatSaysNothingIsRestoredByTheHolder(t *testing.T) {
	for _, mode := range []priority.Mode{priority.Exclusive, priority.Shared} {
		story(t, func(t *testing.T, w *world) {
			held := w.program("holder", session10).do(lockguard.Requirement{Mode: mode}, lasting(time.Hour))
			w.until(time.Minute)

			w.overwrite("junk")

			w.until(time.Minute + session10)
			node, err := w.zk.Get(w.lockNode())
			require.NoError(t, err)
			require.JSONEq(t, names(w.guidOf("holder")), string(node.Data))
			require.NoError(t, held.returned())
		})
	}
}

// What a newer program has written stays, and ends nothing.
func TestRecordOfANewerProgramIsLeftAlone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		held := w.program("holder", session10).do(lockguard.Requirement{}, lasting(time.Hour))
		w.until(time.Minute)

		newer := `{"format":9,"holders":{"` + w.guidOf("holder") + `":"and how it holds, which this program does not know"}}`
		w.overwrite(newer)

		w.until(time.Minute + 5*session10)
		require.True(t, held.holds())
		node, err := w.zk.Get(w.lockNode())
		require.NoError(t, err)
		require.Equal(t, newer, string(node.Data))
		require.NoError(t, held.returned())
	})
}

// Somebody deletes the lock with all that is in it and puts a copy in its place, while the holder's
// connection stands still: the copy does not go with the holder's session.
func TestLockThatIsDeletedAndMadeAgainIsLost(t *testing.T) {
	for what, remake := range map[string]func(t *testing.T, w *world, lock zktest.Node, own zktest.Node){
		"the holder's node": func(t *testing.T, w *world, _, own zktest.Node) {
			require.NoError(t, w.zk.Delete(own.Path))
			require.NoError(t, w.zk.Create(own.Path, own.Data))
		},
		"the lock": func(t *testing.T, w *world, lock, own zktest.Node) {
			require.NoError(t, w.zk.Delete(own.Path))
			require.NoError(t, w.zk.Delete(lock.Path))
			require.NoError(t, w.zk.Create(lock.Path, lock.Data))
			require.NoError(t, w.zk.Create(own.Path, own.Data))
		},
	} {
		t.Run(what, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				f := newFreezer()
				held := w.program("holder", session10, through(f)).do(lockguard.Requirement{}, untilCancelled)
				w.until(time.Minute)
				own := w.contenders()[0]
				lock, err := w.zk.Get(w.lockNode())
				require.NoError(t, err)

				f.freeze()
				remake(t, w, lock, own)
				f.thaw()

				w.lostInTime(held, time.Minute)
				require.Empty(t, w.zk.Tree(lock.Path)[1:], "nobody stands in the way of others")
			})
		})
	}
}

// The comparison costs a read in two thirds of a session timeout, and a hold that is shorter nothing.
func TestComparingCostsAReadInTwoThirdsOfASessionTimeout(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		p := w.program("holder", session10)
		short := p.do(lockguard.Requirement{}, lasting(session10/2))
		require.NoError(t, short.returned())
		path := ""
		for _, n := range w.zk.Tree("/lockkeeper/locks") {
			path = n.Path
		}
		reads := w.zk.On(zktest.Op(zktest.GetData).Path(path)).Delay(0)
		defer reads.Remove()

		require.NoError(t, p.do(lockguard.Requirement{}, lasting(session10/2)).returned())
		before := reads.Fired()
		require.NoError(t, p.do(lockguard.Requirement{}, lasting(100*session10)).returned())

		require.InDelta(t, 145, reads.Fired()-before, 6) // 100 times 3/2, less what the steps of the watchdog add
	})
}
