package classic

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func (f *fixture) rwmutex(c *lock.Client, change ...func(*classic.MutexOptions)) *classic.RWMutex {
	f.Helper()
	var opts classic.MutexOptions
	for _, apply := range change {
		apply(&opts)
	}
	m, err := classic.NewRWMutex(c.Client, users, opts)
	require.NoError(f, err)
	return m
}

// namings are those in which each test of the read/write lock is made.
var namings = map[string]func(*classic.MutexOptions){"as Curator": curator, "as Kazoo": kazoo}

func eachNaming(t *testing.T, test func(t *testing.T, f *fixture, naming func(*classic.MutexOptions))) {
	t.Parallel()
	for name, naming := range namings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, share(t), naming)
		})
	}
}

// queueFor asks for one side and waits until the request is in the queue.
func (f *fixture) queueFor(name string, side func(*classic.RWMutex) acquirer, naming func(*classic.MutexOptions)) *request {
	f.Helper()
	notices := f.listen(name)
	r := f.ask(name, side(f.rwmutex(f.client(), naming, named(name), telling(notices))))
	harness.Await[lock.Queued](f, notices)
	return r
}

func reading(m *classic.RWMutex) acquirer { return m.AcquireRead }
func writing(m *classic.RWMutex) acquirer { return m.AcquireWrite }

// inside acquires with the context of what is held.
func inside(acquire acquirer, r *request) acquirer {
	return func(ctx context.Context) (*classic.Grant, error) { return acquire(r.Granted().Context(ctx)) }
}

func (f *fixture) refuses(acquire ...acquirer) {
	f.Helper()
	for _, try := range acquire {
		_, err := try(f.Context())
		notAcquired(f, err)
	}
}

// Curator R2
func TestReaderThatWantsToWriteIsRefusedAtOnce(t *testing.T) {
	eachNaming(t, func(t *testing.T, f *fixture, naming func(*classic.MutexOptions)) {
		c := f.client()
		m := f.rwmutex(c, naming)
		reader := f.hold("ann", m.AcquireRead)
		ctx := reader.Granted().Context(t.Context())

		for _, acquire := range []acquirer{m.AcquireWrite, m.TryAcquireWrite, f.mutex(c, naming).Acquire} {
			_, err := acquire(ctx)
			require.ErrorAs(t, err, new(*classic.UpgradeError), "it would wait for itself")
			require.ErrorContains(t, err, "release the read side first")
		}
		require.NoError(t, reader.Granted().Check())
		require.Len(t, f.Ephemerals(), 1)
		again, err := m.AcquireRead(ctx)
		require.NoError(t, err)
		require.Equal(t, reader.Path(), again.Path())
		require.NoError(t, again.Release(t.Context()))
	})
}

// Curator R3, R6; Kazoo K16, K17
func TestReadersAreTogetherAndExcludeWritersAsWritersExcludeThem(t *testing.T) {
	eachNaming(t, func(t *testing.T, f *fixture, naming func(*classic.MutexOptions)) {
		m, other := f.rwmutex(f.client(), naming), f.rwmutex(f.client(), naming)
		readers := []*request{
			f.hold("ann", m.AcquireRead), f.hold("bob", other.TryAcquireRead), f.hold("ann as a stranger", m.TryAcquireRead),
		}
		f.refuses(other.TryAcquireWrite, m.TryAcquireWrite)
		for _, r := range readers {
			r.Release()
		}
		writer := f.hold("eve", other.TryAcquireWrite)
		f.refuses(m.TryAcquireRead, other.TryAcquireRead, m.TryAcquireWrite)
		require.Equal(t, []string{writer.Path()}, f.Ephemerals())
	})
}

// Curator R1, R6, R8; Kazoo K18
func TestReadersAndWritersBehindAWriterAreGrantedInTheirOrder(t *testing.T) {
	eachNaming(t, func(t *testing.T, f *fixture, naming func(*classic.MutexOptions)) {
		c := f.client()
		m := f.rwmutex(c, naming)
		listed := func(want ...string) {
			t.Helper()
			participants, err := m.Participants(t.Context())
			require.NoError(t, err)
			var got []string
			for _, p := range participants {
				got = append(got, string(p.Data))
				require.Equal(t, p.Data[0] == 'r', p.Reader)
			}
			require.Equal(t, want, got)
		}
		dies := f.client()
		writer := f.hold("w1", f.rwmutex(dies, naming, named("w1")).AcquireWrite)
		reader := f.queueFor("r1", reading, naming)
		second := f.queueFor("w2", writing, naming)
		late := f.queueFor("r2", reading, naming)
		listed("w1", "r1", "w2", "r2")

		f.Expire(dies)
		reader.Granted()
		require.Equal(t, lock.LossSession, writer.Lost().Reason)
		second.IsPending()
		late.IsPending() // it does not pass the writer
		listed("r1", "w2", "r2")
		tokens := []lock.Token{reader.Token()}
		reader.Release()
		second.Granted()
		late.IsPending()
		tokens = append(tokens, second.Token())
		second.Release()
		require.IsIncreasing(t, append(tokens, late.Token()))
	})
}

// Curator R4, R5
func TestWriterMayTakeTheReadSideAndNoWriterComesBetweenTheTwo(t *testing.T) {
	eachNaming(t, func(t *testing.T, f *fixture, naming func(*classic.MutexOptions)) {
		m, other := f.rwmutex(f.client(), naming), f.rwmutex(f.client(), naming)

		// given a writer that becomes a reader while others wait
		writer := f.hold("ann", m.AcquireWrite)
		next, readers := f.queueFor("bob", writing, naming), f.queueFor("eve", reading, naming)
		reader := f.hold("ann reads", inside(m.AcquireRead, writer))
		require.NotEqual(t, writer.Path(), reader.Path())
		f.hold("ann writes", inside(m.AcquireWrite, writer)).Release()
		f.refuses(other.TryAcquireRead)

		// when it drops the write side
		token := writer.Token()
		writer.Release()

		// then it reads in its old place, and the others wait
		f.Watched(reader.Path(), 1) // by bob, who has looked again
		next.IsPending()
		readers.IsPending()
		require.NoError(t, reader.Granted().Check())
		require.Equal(t, token, reader.Token())
		f.refuses(other.TryAcquireWrite)
		reader.Release()
		require.Greater(t, next.Token(), token, "what the reader has written to does not turn that one away")
	})
}

// The writer's node is part of the transaction that makes it a reader.
func TestWriterThatWasEvictedDoesNotBecomeAReader(t *testing.T) {
	eachNaming(t, func(t *testing.T, f *fixture, naming func(*classic.MutexOptions)) {
		c, proxy := f.proxied()
		m := f.rwmutex(c, naming)
		writer := f.hold("ann", m.AcquireWrite)

		// when an administrator deletes the writer's node at the last moment, and another writes
		ctx := writer.Granted().Context(context.Background())
		held := proxy.On(zktest.Op(zktest.Multi).Nth(1)).Hold()
		reader := f.ask("ann", func(context.Context) (*classic.Grant, error) { return m.AcquireRead(ctx) })
		reached(t, held)
		f.Delete(writer.Path())
		usurper := f.hold("bob", f.rwmutex(f.client(), naming).AcquireWrite)
		held.Release()

		// then it learns of that, and the other is alone
		require.Equal(t, lock.LossDeleted, lossOf(t, reader.Refused()).Reason)
		require.Equal(t, []string{usurper.Path()}, f.Ephemerals())
		require.Equal(t, lock.LossDeleted, writer.Lost().Reason)
	})
}

func TestWriterWhoseSessionEndsAsItBecomesAReaderIsNotified(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]zktest.OpType{"before its token is read": zktest.GetData, "before the reader's node is made": zktest.Multi} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			c, proxy := f.proxied()
			m := f.rwmutex(c)
			writer := f.hold("ann", m.AcquireWrite)
			held := proxy.On(zktest.Op(op)).Hold() // and what it sends again when a real server moves its session

			ctx := context.WithoutCancel(writer.Granted().Context(t.Context())) // one that does not end with the loss
			reader := f.ask("ann", func(context.Context) (*classic.Grant, error) { return m.AcquireRead(ctx) })
			reached(t, held)
			f.Expire(c)
			held.Release()

			lossOf(t, reader.Refused())
			f.NoEphemerals()
		})
	}
}

// It watches the last writer in front, not its direct predecessor.
func TestReaderWatchesTheWriterThatItWaitsForAlone(t *testing.T) {
	eachNaming(t, func(t *testing.T, f *fixture, naming func(*classic.MutexOptions)) {
		holder := f.hold("w0", f.rwmutex(f.client(), naming).AcquireWrite)
		f.queueFor("w1", writing, naming)
		writer := users + "/" + f.Filled(users, 2)[1]
		for i := range 3 {
			f.queueFor(fmt.Sprint("r", i), reading, naming)
		}
		want := []string{holder.Path(), holder.Path(), writer, writer, writer}
		slices.Sort(want)
		harness.Eventually(t, func() bool { return slices.Equal(want, f.Watches()) }, "%q is to be watched", want)
	})
}

// The two kinds of names stand in one line.
func TestReadersAndWritersOfBothNamesExcludeEachOther(t *testing.T) {
	t.Parallel()
	f := share(t)
	asCurator, asKazoo := f.rwmutex(f.client()), f.rwmutex(f.client(), kazoo)
	reader := f.hold("curator reads", asCurator.AcquireRead)
	other := f.hold("kazoo reads", asKazoo.TryAcquireRead)
	f.refuses(asKazoo.TryAcquireWrite)
	reader.Release()
	f.refuses(asCurator.TryAcquireWrite)
	other.Release()
	f.hold("kazoo writes", asKazoo.TryAcquireWrite)
	f.refuses(asCurator.TryAcquireRead)
}
