package classic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func (h *house) rwmutex(c *recipes.Client, change ...func(*recipes.MutexOptions)) *recipes.RWMutex {
	h.t.Helper()
	var opts recipes.MutexOptions
	for _, f := range change {
		f(&opts)
	}
	m, err := c.RWMutex(users, opts)
	require.NoError(h.t, err)
	return m
}

// namings are those in which each test of the read/write lock is made.
var namings = map[string]func(*recipes.MutexOptions){"as Curator": func(*recipes.MutexOptions) {}, "as Kazoo": kazoo}

func eachNaming(t *testing.T, test func(t *testing.T, h *house, naming func(*recipes.MutexOptions))) {
	t.Parallel()
	for name, naming := range namings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, shareHouse(t), naming)
		})
	}
}

// queueFor asks for one side and waits until the request stands in line.
func (h *house) queueFor(name string, acquire func(*recipes.RWMutex) acquirer, c *recipes.Client, change ...func(*recipes.MutexOptions)) *user {
	h.t.Helper()
	told := h.listen(name)
	u := h.ask(name, acquire(h.rwmutex(c, append(change, named(name), telling(told))...)))
	await[recipes.Queued](h.t, told)
	return u
}

func reading(m *recipes.RWMutex) acquirer { return m.AcquireRead }
func writing(m *recipes.RWMutex) acquirer { return m.AcquireWrite }

// Curator R1
func TestReadersThatHoldAndWritersThatWaitAreListed(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		c := h.client()
		for i := range 20 {
			h.hold(fmt.Sprint("reader ", i), h.rwmutex(c, naming).AcquireRead)
		}
		for i := range 8 {
			h.queueFor(fmt.Sprint("writer ", i), writing, c, naming)
		}
		participants, err := h.rwmutex(h.client(), naming).Participants(t.Context())
		require.NoError(t, err)
		require.Len(t, participants, 28)
		for i, p := range participants {
			require.Equal(t, i < 20, p.Reader)
		}
	})
}

// Curator R2
func TestReaderThatWantsToWriteIsRefusedAtOnce(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		m := h.rwmutex(h.client(), naming)
		reader := h.hold("ann", m.AcquireRead)
		ctx := reader.grant.Context(t.Context())

		for _, acquire := range []acquirer{m.AcquireWrite, m.TryAcquireWrite} {
			_, err := acquire(ctx)
			var upgrade *recipes.UpgradeError
			require.ErrorAs(t, err, &upgrade)
			require.ErrorContains(t, err, "release the read side first")
		}
		require.NoError(t, reader.grant.Check())
		require.Len(t, h.ephemerals(), 1)
		again, err := m.AcquireRead(ctx)
		require.NoError(t, err)
		require.Equal(t, reader.grant.Path(), again.Path())
		h.release(again)
	})
}

// Curator R3, Kazoo K17
func TestWriterExcludesReadersAndWriters(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		m := h.rwmutex(h.client(), naming)
		writer := h.hold("ann", m.AcquireWrite)
		for _, other := range []*recipes.RWMutex{m, h.rwmutex(h.client(), naming)} {
			for _, acquire := range []acquirer{other.TryAcquireRead, other.TryAcquireWrite, h.rwmutex(h.client(), naming, within(100*time.Millisecond)).AcquireRead} {
				_, err := acquire(t.Context())
				require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
			}
		}
		require.Equal(t, []string{writer.grant.Path()}, h.ephemerals())
	})
}

// Kazoo K16
func TestReadersAreTogetherAndExcludeWriters(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		m, other := h.rwmutex(h.client(), naming), h.rwmutex(h.client(), naming)
		one := h.hold("ann", m.AcquireRead)
		two := h.hold("bob", other.TryAcquireRead)
		three := h.hold("ann as a stranger", m.TryAcquireRead)
		_, err := other.TryAcquireWrite(t.Context())
		require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
		for _, u := range []*user{one, two, three} {
			u.release()
		}
		h.hold("eve", other.TryAcquireWrite)
	})
}

// Kazoo K18
func TestReaderAndWriterBehindAWriterAreGrantedInTheirOrder(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		c := h.client()
		m := h.rwmutex(c, naming)
		writer := h.hold("w1", h.rwmutex(c, naming, named("w1")).AcquireWrite)
		reader := h.queueFor("r", reading, h.client(), naming)
		second := h.queueFor("w2", writing, h.client(), naming)
		late := h.queueFor("r2", reading, h.client(), naming)
		require.Equal(t, []string{"w1", "r", "w2", "r2"}, data(t, m))

		writer.release()
		reader.granted()
		second.waits()
		late.waits() // it does not pass the writer
		require.Equal(t, []string{"r", "w2", "r2"}, data(t, m))
		tokens := []recipes.Token{reader.token()}
		reader.release()
		second.granted()
		late.waits()
		tokens = append(tokens, second.token())
		second.release()
		late.granted()
		tokens = append(tokens, late.token())
		require.IsIncreasing(t, tokens)
	})
}

// Curator R4
func TestWriterMayTakeTheReadSideAndDropTheWriteSide(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		m, other := h.rwmutex(h.client(), naming), h.rwmutex(h.client(), naming)
		writer := h.hold("ann", m.AcquireWrite)
		reader := h.hold("ann reads", inside(m.AcquireRead, writer))
		require.NotEqual(t, writer.grant.Path(), reader.grant.Path())
		_, err := other.TryAcquireRead(t.Context())
		require.ErrorAs(t, err, new(*recipes.NotAcquiredError), "the writer still writes")
		again := h.hold("ann writes", inside(m.AcquireWrite, writer))
		again.release()
		writer.release()

		h.hold("bob", other.TryAcquireRead)
		_, err = other.TryAcquireWrite(t.Context())
		require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
		require.NoError(t, reader.grant.Check())
		reader.release()
	})
}

// inside acquires with the context of what a user holds.
func inside(acquire acquirer, u *user) acquirer {
	return func(ctx context.Context) (*recipes.ClassicGrant, error) { return acquire(u.grant.Context(ctx)) }
}

// Curator R5
func TestWriterThatWaitsDoesNotComeBetweenTheTwoSides(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		m := h.rwmutex(h.client(), naming)
		writer := h.hold("ann", m.AcquireWrite)
		next := h.queueFor("bob", writing, h.client(), naming)
		readers := h.queueFor("eve", reading, h.client(), naming)

		reader := h.hold("ann reads", inside(m.AcquireRead, writer))
		writer.release()

		require.Eventually(t, func() bool { // until bob has looked again
			return slices.Contains(h.watched(), reader.grant.Path())
		}, soon, time.Millisecond)
		next.waits()
		readers.waits()
		reader.release()
		next.granted()
	})
}

// The writer's node is part of the transaction that makes it a reader.
func TestWriterThatWasEvictedDoesNotBecomeAReader(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		wire := &wire{}
		shell := h.shell()
		m := h.rwmutex(h.client(through(wire)), naming)
		writer := h.hold("ann", m.AcquireWrite)

		// when an administrator deletes the writer's node at the last moment, and another writes
		ctx := writer.grant.Context(context.Background())
		other := h.rwmutex(h.client(), naming)
		var usurper *recipes.ClassicGrant
		wire.before(opMulti, 0, func() {
			_ = shell.Delete(h.at(writer.grant.Path()), -1)
			usurper, _ = other.AcquireWrite(context.Background())
		})
		_, err := m.AcquireRead(ctx)
		require.True(t, wire.unset())

		// then that is told, and the other is alone
		var loss *recipes.LostError
		require.ErrorAs(t, err, &loss)
		require.Equal(t, recipes.LossDeleted, loss.Reason)
		require.NotNil(t, usurper)
		require.Equal(t, []string{usurper.Path()}, h.ephemerals())
		require.Equal(t, recipes.LossDeleted, writer.lost().Reason)
		h.release(usurper)
	})
}

// Curator R6
func TestWriterIsAlwaysAloneAndReadersOverlap(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		const clients, turns = 8, 100
		var mu sync.Mutex
		readers, writers, most := 0, 0, 0
		step := func(r, w int) error {
			mu.Lock()
			defer mu.Unlock()
			readers, writers = readers+r, writers+w
			most = max(most, readers)
			if writers > 1 || writers == 1 && readers > 0 {
				return fmt.Errorf("%d writers and %d readers at once", writers, readers)
			}
			return nil
		}
		var crowd sync.WaitGroup
		for range clients {
			m := h.rwmutex(h.client(), naming)
			crowd.Go(func() {
				for turn := range turns {
					acquire, r, w := m.AcquireRead, 1, 0
					if rand.N(10) == 0 || turn == 0 {
						acquire, r, w = m.AcquireWrite, 0, 1
					}
					g, err := acquire(t.Context())
					if err == nil {
						err = step(r, w)
						if turn == 1 && r == 1 { // let others come
							<-time.After(5 * time.Millisecond)
						}
						if again := step(-r, -w); err == nil {
							err = again
						}
					}
					if err == nil {
						err = g.Release(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		crowd.Wait()
		require.Greater(t, most, 1, "readers never overlapped")
		h.nobodyThere()
	})
}

// Curator R7
func TestReadersAndWritersWriteTheDataThatTheyWereGiven(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		given := []byte("ann")
		m := h.rwmutex(h.client(), naming, func(o *recipes.MutexOptions) { o.Data = given })
		copy(given, "XXX")
		h.hold("reader", m.AcquireRead)
		require.Equal(t, []string{"ann"}, data(t, m))
	})
}

// Curator R8
func TestReaderIsGrantedWhenTheSessionOfTheWriterEnds(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		c, shell := h.client(), h.shell()
		writer := h.hold("ann", h.rwmutex(c, naming).AcquireWrite)
		reader := h.queueFor("bob", reading, h.client(), naming)

		h.expire(c)

		reader.granted()
		require.False(t, h.exists(shell, writer.grant.Path()))
		require.Equal(t, recipes.LossSession, writer.lost().Reason)
	})
}

// The last writer in front, and not whoever is right in front.
func TestReaderWatchesTheWriterThatItWaitsForAlone(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		c := h.client()
		holder := h.hold("w0", h.rwmutex(c, naming).AcquireWrite)
		writer := h.queueFor("w1", writing, h.client(), naming)
		for i := range 3 {
			h.queueFor(fmt.Sprint("r", i), reading, h.client(), naming)
		}
		participants, err := h.rwmutex(c, naming).Participants(t.Context())
		require.NoError(t, err)
		want := []string{holder.grant.Path(), holder.grant.Path()}
		for range 3 {
			want = append(want, participants[1].Path)
		}
		slices.Sort(want)
		require.Eventually(t, func() bool { return slices.Equal(want, h.watched()) }, soon, 5*time.Millisecond, "watched: %q", h.watched())
		writer.waits()
	})
}

// The two kinds of names stand in one line.
func TestReadersAndWritersOfBothNamesExcludeEachOther(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	asCurator, asKazoo := h.rwmutex(h.client()), h.rwmutex(h.client(), kazoo)
	reader := h.hold("curator reads", asCurator.AcquireRead)
	other := h.hold("kazoo reads", asKazoo.TryAcquireRead)
	_, err := asKazoo.TryAcquireWrite(t.Context())
	require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
	reader.release()
	_, err = asCurator.TryAcquireWrite(t.Context())
	require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
	other.release()
	writer := h.hold("kazoo writes", asKazoo.TryAcquireWrite)
	_, err = asCurator.TryAcquireRead(t.Context())
	require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
	writer.release()
}

func TestReaderThatWasAWriterHasATokenBelowThoseOfTheWritersBehind(t *testing.T) {
	eachNaming(t, func(t *testing.T, h *house, naming func(*recipes.MutexOptions)) {
		m := h.rwmutex(h.client(), naming)

		// given a writer that becomes a reader while another waits
		writer := h.hold("ann", m.AcquireWrite)
		next := h.queueFor("bob", writing, h.client(), naming)
		reader := h.hold("ann", inside(m.AcquireRead, writer))
		require.Equal(t, writer.token(), reader.token(), "it stands in its place")
		writer.release()
		reader.release()

		// then what the reader has written to does not turn that one away
		next.granted()
		require.Greater(t, next.token(), reader.token())
	})
}

func TestMutexThroughTheContextOfAReaderIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	reader := h.hold("ann", h.rwmutex(c).AcquireRead)

	_, err := h.mutex(c).Acquire(reader.grant.Context(t.Context()))

	require.ErrorAs(t, err, new(*recipes.UpgradeError), "it would wait for itself")
}

func TestWriterWhoseSessionEndsAsItBecomesAReaderIsTold(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]uint32{"before its token is read": opGetData, "before the reader's node is made": opMulti} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			w := &wire{}
			c := h.client(through(w))
			m := h.rwmutex(c)
			writer := h.hold("ann", m.AcquireWrite)
			w.before(op, 0, func() { h.expire(c) })

			ctx := context.WithoutCancel(writer.grant.Context(t.Context())) // one that does not end with the loss
			reader := h.askWith(ctx, "ann", m.AcquireRead)

			require.ErrorAs(t, reader.refused(), new(*recipes.LostError))
			h.nobodyThere()
		})
	}
}
