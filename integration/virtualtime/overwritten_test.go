package virtualtime

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const session10 = 10 * time.Second

// lockNode is the node of the lock.
func lockNode(w *world) *virtual.Lock {
	locks := virtual.Locks(w.Server, "/lockkeeper")
	require.Len(w, locks, 1)
	return locks[0]
}

// overwrite writes the grant record in violation of the protocol.
func overwrite(w *world, record string) {
	require.NoError(w, w.Set(lockNode(w).Path, []byte(record)))
	w.History.Add("other", "writes %q", record)
}

// names is a grant record that names somebody.
func names(guid string) string { return fmt.Sprintf(`{"format":1,"holders":[%q]}`, guid) }

const unknown = "0123456789abcdef01234567"

// of is the request of an owner; nil if there is none.
func of(w *world, owner string) *virtual.Contender {
	for _, c := range contenders(w) {
		if c.Owner == owner {
			return &c
		}
	}
	return nil
}

// lostInTime: the holder learns of its loss within one session timeout, and its
// node goes.
func lostInTime(r *work, overwritten time.Duration) {
	w := r.Program.World
	w.Helper()
	require.Equal(w, lock.LossDeleted, virtual.LostBy(w, r.Returned()).Reason)
	require.LessOrEqual(w, r.Ended()-overwritten, session10)
	require.Nil(w, of(w, r.Program.Name))
}

func TestHolderThatTheGrantRecordDoesNotNameAnyMoreIsNotified(t *testing.T) {
	for what, record := range map[string]string{
		"another":             names(unknown),
		"none":                `{"format":1,"holders":[]}`,
		"empty":               "",
		"readers may walk in": `{"format":3,"holders":[],"open":true}`,
	} {
		t.Run(what, func(t *testing.T) {
			for _, mode := range []priority.Mode{priority.Exclusive, priority.Shared} {
				run(t, func(w *world) {
					// given a holder without waiters
					held := w.Program("holder", session10).Do(lockguard.Requirement{Terms: priority.Terms{Mode: mode}}, untilCancelled)
					w.Until(time.Minute)
					require.True(w, held.Holds())

					// when the record is overwritten, then the holder learns of
					// its loss
					overwrite(w, record)
					lostInTime(held, time.Minute)
				})
			}
		})
	}
}

// A holder that has waiters lists them: it sees at once that the record has another version.
func TestHolderForWhomOthersWaitIsNotifiedOnceAnotherComes(t *testing.T) {
	run(t, func(w *world) {
		// given a preempted holder that is busy with its cleanup
		holder, waiter, other := w.Program("holder", session10), w.Program("waiter", session10), w.Program("other", session10)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Hour}}, untilCancelled,
			func(ctx context.Context) error { <-ctx.Done(); return nil })
		w.Until(time.Minute)
		waits := waiter.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, lasting(time.Second))
		w.Until(2 * time.Minute)
		virtual.Only[lock.PreemptRequested](holder)

		// when the record names somebody who comes
		overwrite(w, names(unknown))
		comes := other.Do(lockguard.Requirement{}, lasting(time.Second))

		// then the holder learns of its loss in seconds, and both others are
		// served
		w.Until(2*time.Minute + time.Second)
		require.Equal(w, lock.LossDeleted, virtual.Only[lockguard.Lost](holder).Err.Reason)
		require.NoError(w, waits.Returned())
		require.NoError(w, comes.Returned())
		require.Error(w, held.Returned())
	})
}

// A short hold in between hands the lock over to the node of the one before, which takes it for granted.
func TestHolderToWhomTheLockComesBackIsNotified(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that has just compared
		holder, other := w.Program("holder", session10), w.Program("other", session10)
		held := holder.Do(lockguard.Requirement{}, untilCancelled)
		w.Until(time.Minute)
		require.True(w, held.Holds())

		// when the record is overwritten, and another one holds and leaves before the next comparison
		overwrite(w, names(unknown))
		require.NoError(w, other.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 50}}, lasting(time.Second)).Returned())
		w.Until(time.Minute + 2*time.Second)

		// then the holder learns of its loss
		lostInTime(held, time.Minute)
	})
}

func TestWaiterThatTheRecordNamesHoldsAndTheHolderIsNotified(t *testing.T) {
	run(t, func(w *world) {
		holder, waiter := w.Program("holder", session10), w.Program("waiter", session10)
		// given a holder, and one that waits for it
		held := holder.Do(lockguard.Requirement{}, untilCancelled)
		w.Until(time.Minute)
		waits := waiter.Do(lockguard.Requirement{}, lasting(time.Minute))
		w.Until(2 * time.Minute)

		// when somebody writes both records of a grant to it
		overwrite(w, names(of(w, "waiter").ID))
		for _, n := range contenders(w) {
			if data := string(n.Data); strings.Contains(data, `"owner":"waiter"`) {
				require.NoError(w, w.Set(n.Path, []byte(strings.TrimSuffix(data, "}")+`,"granted":true}`)))
			}
		}
		synctest.Wait()
		require.True(w, waits.Holds())

		// then two hold the lock, for less than a session timeout
		lostInTime(held, 2*time.Minute)
		require.NoError(w, waits.Returned())
	})
}

func TestReadersThatTheRecordForgetsAreNotifiedAndTheOthersAreNot(t *testing.T) {
	run(t, func(w *world) {
		// given three readers, of whom one has walked in: its name says that it holds
		shared := lockguard.Requirement{Terms: priority.Terms{Mode: priority.Shared}}
		first, second, third := w.Program("first", session10), w.Program("second", session10), w.Program("third", session10)
		a := first.Do(shared, untilCancelled)
		w.Until(time.Minute)
		b := second.Do(shared, lasting(10*time.Minute))
		w.Until(2 * time.Minute)
		c := third.Do(shared, lasting(10*time.Minute))
		w.Until(3 * time.Minute)
		walked := 0
		for _, n := range contenders(w) {
			if strings.Contains(n.Path, "-w-") {
				walked++
			}
		}
		require.Equal(w, 1, walked)

		overwrite(w, names(of(w, "second").ID))

		lostInTime(a, 3*time.Minute)
		require.NoError(w, b.Returned())
		require.NoError(w, c.Returned())
	})
}

// The request behind the holder in its process goes to ZooKeeper, like any other.
func TestLocalQueueGoesOnAfterTheRecordWasOverwritten(t *testing.T) {
	run(t, func(w *world) {
		p := w.Program("local", session10, func(cfg *lock.Config) { cfg.LocalQueue = 10 })
		first := p.Do(lockguard.Requirement{}, lasting(10*time.Second))
		second := p.Do(lockguard.Requirement{}, untilCancelled) // on the first one's node
		third := p.Do(lockguard.Requirement{}, lasting(time.Second))
		w.Until(time.Minute)
		require.NoError(w, first.Returned())
		require.Len(w, contenders(w), 1)

		overwrite(w, names(unknown))

		require.Equal(w, lock.LossDeleted, virtual.LostBy(w.T, second.Returned()).Reason)
		require.LessOrEqual(w, second.Ended(), time.Minute+session10)
		require.NoError(w, third.Returned())
		require.Less(w, third.Ended(), 2*time.Minute)
	})
}

// A record that says nothing is restored from the requests: no holder loses by
// it.
func TestRecordThatSaysNothingIsRestoredByTheHolder(t *testing.T) {
	for _, mode := range []priority.Mode{priority.Exclusive, priority.Shared} {
		run(t, func(w *world) {
			held := w.Program("holder", session10).Do(lockguard.Requirement{Terms: priority.Terms{Mode: mode}}, lasting(time.Hour))
			w.Until(time.Minute)

			overwrite(w, "junk")

			w.Until(time.Minute + session10)
			node, err := w.Get(lockNode(w).Path)
			require.NoError(w, err)
			require.JSONEq(w, names(of(w, "holder").ID), string(node.Data))
			require.NoError(w, held.Returned())
		})
	}
}

// What a newer program has written stays, and ends nothing.
func TestRecordOfANewerProgramIsLeftAlone(t *testing.T) {
	run(t, func(w *world) {
		held := w.Program("holder", session10).Do(lockguard.Requirement{}, lasting(time.Hour))
		w.Until(time.Minute)

		newer := `{"format":9,"holders":{"` + of(w, "holder").ID + `":"and how it holds, which this program does not know"}}`
		overwrite(w, newer)

		w.Until(time.Minute + 5*session10)
		require.True(w, held.Holds())
		node, err := w.Get(lockNode(w).Path)
		require.NoError(w, err)
		require.Equal(w, newer, string(node.Data))
		require.NoError(w, held.Returned())
	})
}

// Somebody deletes the lock with all that is in it and puts a copy in its place, while the holder's
// connection stands still: the copy does not go with the holder's session.
func TestLockThatIsDeletedAndMadeAgainIsLost(t *testing.T) {
	each(t, map[string]func(w *world, lock, own zktest.Node){
		"the holder's node": func(w *world, _, own zktest.Node) {
			require.NoError(w, w.Delete(own.Path))
			require.NoError(w, w.Create(own.Path, own.Data))
		},
		"the lock": func(w *world, lock, own zktest.Node) {
			require.NoError(w, w.Delete(own.Path))
			require.NoError(w, w.Delete(lock.Path))
			require.NoError(w, w.Create(lock.Path, lock.Data))
			require.NoError(w, w.Create(own.Path, own.Data))
		},
	}, func(w *world, remake func(w *world, lock, own zktest.Node)) {
		f := virtual.NewFreezer()
		held := w.Program("holder", session10, f.Through).Do(lockguard.Requirement{}, untilCancelled)
		w.Until(time.Minute)
		own := contenders(w)[0].Node
		lock, err := w.Get(lockNode(w).Path)
		require.NoError(w, err)

		f.Freeze()
		remake(w, lock, own)
		f.Thaw()

		lostInTime(held, time.Minute)
		require.Empty(w, w.Tree(lock.Path)[1:], "no request blocks others")
	})
}

// The comparison costs a read in two thirds of a session timeout, and a hold that is shorter nothing.
func TestComparingCostsAReadInTwoThirdsOfASessionTimeout(t *testing.T) {
	run(t, func(w *world) {
		p := w.Program("holder", session10)
		short := p.Do(lockguard.Requirement{}, lasting(session10/2))
		require.NoError(w, short.Returned())
		path := ""
		for _, n := range w.Tree("/lockkeeper/locks") {
			path = n.Path
		}
		reads := w.On(zktest.Op(zktest.GetData).Path(path)).Delay(0)
		defer reads.Remove()

		require.NoError(w, p.Do(lockguard.Requirement{}, lasting(session10/2)).Returned())
		before := reads.Fired()
		require.NoError(w, p.Do(lockguard.Requirement{}, lasting(100*session10)).Returned())

		require.InDelta(w, 145, reads.Fired()-before, 6) // 100 times 3/2, less what the steps of the watchdog add
	})
}
