package locks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestReadersHoldTogetherAndAWriterAlone(t *testing.T) {
	h := share(t)

	// given three readers, of which two ask at the same time
	r1 := h.hold("r1", harness.Shared)
	r2 := h.acquire("r2", harness.Shared)
	r3 := h.acquire("r3", harness.Shared)
	r2.Granted()
	r3.Granted()

	// then they hold together
	onlooker := h.Client()
	state := h.state(onlooker)
	require.ElementsMatch(t, []string{"r1", "r2", "r3"}, harness.Owners(state.Holders))
	for _, holder := range state.Holders {
		require.Equal(t, priority.Shared, holder.Mode)
		require.NotZero(t, holder.Token)
	}

	// and a writer waits for all of them
	w := h.acquire("w")
	require.Len(t, w.Queued().Holders, 3)
	r2.Release()
	r1.Release()
	w.IsPending()
	r3.Release()
	w.Granted()
	h.heldBy(onlooker, "w")
}

// The readers behind a writer wait for it, however many come: it does not
// starve.
func TestReadersDoNotPassAWriterOfTheirPriority(t *testing.T) {
	h := share(t)

	// given a reader, and a writer that waits
	first := h.hold("first", harness.Shared)
	w := h.queued("w")

	// when more readers come, then they wait behind the writer
	var later []*harness.Request
	for i := range 3 {
		r := h.acquire(fmt.Sprint("later ", i), harness.Shared)
		require.Equal(t, i+2, r.Queued().Position)
		later = append(later, r)
	}
	trier := h.acquire("trier", harness.Shared, harness.Try)
	require.True(t, lock.IsNotAcquired(trier.Refused()))
	first.Release()
	w.Granted()
	for _, r := range later {
		r.IsPending()
	}

	// and hold together after it
	w.Release()
	for _, r := range later {
		r.Granted()
	}
	require.Len(t, h.state(h.Client()).Holders, 3)
}

// Nor do they walk in past one that has joined, and has not shut the lock yet.
func TestReadersDoNotWalkInPastAWriterThatTheySee(t *testing.T) {
	h := share(t)

	// given a lock that readers have opened, and a writer of their priority that has done no more than to join
	first := h.hold("first", harness.Shared)
	h.hold("second", harness.Shared)
	node := lockNode(first) + "/2147483647-x-0123456789abcdef01234567-"
	_, err := h.Shell().Create(node, []byte(`{"format":1,"owner":"writer","mode":"exclusive"}`), zk.FlagEphemeral|zk.FlagSequence, harness.WorldACL)
	require.NoError(t, err)

	// then who looks does not, unless it comes first
	require.True(t, lock.IsNotAcquired(h.acquire("reader", harness.Shared, harness.Try).Refused()))
	h.hold("important reader", harness.Shared, harness.At(1), harness.Try)
}

// FIFO inside a priority, the more important first.
func TestHandOverReachesTheReadersUpToTheNextWriter(t *testing.T) {
	h := share(t)

	// given a writer that holds, and a mixed queue
	holder := h.hold("holder", harness.At(9))
	low := h.queued("low", harness.At(1), harness.Shared)
	w := h.queued("w", harness.At(3))
	late := h.queued("late", harness.At(3), harness.Shared)
	r1, r2 := h.queued("r1", harness.At(5), harness.Shared), h.queued("r2", harness.At(4), harness.Shared)

	// when it releases, then the readers in front of the writer hold together
	holder.Release()
	r1.Granted()
	r2.Granted()
	onlooker := h.Client()
	h.heldBy(onlooker, "r1", "r2")
	require.Equal(t, []string{"w", "late", "low"}, harness.Owners(h.state(onlooker).Waiters))

	// and so on
	r1.Release()
	r2.Release()
	w.Granted()
	late.IsPending()
	w.Release()
	late.Granted()
	low.Granted()
}

func TestWriterThatOutranksReadersPreemptsAllAtOnceAndNoneInVain(t *testing.T) {
	h := share(t)

	// given three readers, one of them as important as the writer to come
	var readers []*harness.Request
	for i := range 2 {
		readers = append(readers, h.hold(fmt.Sprint("reader ", i), harness.At(1), harness.Shared, harness.Cleanup(time.Hour)))
	}
	equal := h.hold("equal", harness.At(5), harness.Shared, harness.Cleanup(time.Hour))

	// when a writer comes
	w := h.queued("w", harness.At(5))
	w.IsPending()

	// then those it outranks are left alone as long as the equal one is there; it has judged them when it watches G
	h.Watched(lockNode(equal), 1)
	for _, holder := range h.state(h.Client()).Holders {
		require.Empty(t, holder.PreemptedBy, holder.Owner)
	}
	equal.Release()

	// and are all preempted when that has left
	for _, r := range readers {
		require.Equal(t, "w", harness.Await[lock.PreemptRequested](h, r.Notices).By.Owner)
	}
	require.Empty(t, harness.All[lock.PreemptRequested](equal.Notices))
	readers[0].Release()
	w.IsPending()
	readers[1].Release()
	w.Granted()
}

func TestReaderThatOutranksAWriterPreemptsIt(t *testing.T) {
	h := share(t)
	w := h.hold("w", harness.At(1), harness.Cleanup(time.Hour))
	waiting := h.queued("waiting", harness.At(1), harness.Shared)
	r := h.acquire("r", harness.At(5), harness.Shared)
	require.Equal(t, "r", harness.Await[lock.PreemptRequested](h, w.Notices).By.Owner)
	w.Release()

	// both readers come in: they are next to each other
	r.Granted()
	waiting.Granted()
}

// 0: only what needs no holder's consent.
func TestTryOfAReaderSucceedsBesideReadersAndFailsOtherwise(t *testing.T) {
	h := share(t)
	c := h.Client()

	// beside readers, together with many others
	first := h.hold("first", harness.Shared)
	var tries []*harness.Request
	for i := range 8 {
		tries = append(tries, h.acquire(fmt.Sprint("try ", i), harness.Shared, harness.Try))
	}
	for _, u := range tries {
		u.Granted()
	}
	require.Len(t, h.Ephemerals(), 9)

	// not of a writer
	require.True(t, lock.IsNotAcquired(h.Acquire(h.lock(c), "writer", harness.Try).Refused()))
	for _, u := range append(tries, first) {
		u.Release()
	}

	// and not beside a writer
	h.Hold(h.lock(c), "holder")
	require.True(t, lock.IsNotAcquired(h.Acquire(h.lock(c), "reader", harness.Shared, harness.Try).Refused()))
	require.Len(t, h.Ephemerals(), 1)
}

// More than one hand-over can name come in all the same.
func TestHandOverToVeryManyReadersReachesAll(t *testing.T) {
	h := share(t)
	holder := h.hold("holder", harness.At(1))
	c := h.Client()
	var readers []*harness.Request
	for i := range 70 {
		readers = append(readers, h.Acquire(h.lock(c), fmt.Sprint("reader ", i), harness.Shared))
	}
	harness.Eventually(t, func() bool { return len(h.Ephemerals()) == 71 }, "all are in the queue")
	holder.Release()
	for _, r := range readers {
		r.Granted()
	}
	require.Len(t, h.state(h.Client()).Holders, 70)
}

// Curator R6, with priorities, downgrades, lost connections and requests that
// give up.
func TestWritersAreAloneAndReadersMeetInACrowd(t *testing.T) {
	h := share(t)
	var room harness.Room
	var crowd sync.WaitGroup
	const (
		clients = 6
		visits  = 60
	)
	for i := range clients {
		c, wire := h.wired()
		l := h.lock(c)
		lost := wire.On(zktest.Any()).Delay(0)
		random := rand.New(rand.NewPCG(uint64(i), 7))
		crowd.Go(func() {
			defer func() { lost.Remove() }()
			for n := range visits {
				mode := priority.Shared
				if random.IntN(10) < 2 {
					mode = priority.Exclusive
				}
				if random.IntN(20) == 0 {
					lost.Remove()
					lost = wire.On(request().Nth(1 + random.IntN(4))).DropReply()
				}
				if err := read(l, &room, mode, priority.Level(random.IntN(3)), random.IntN(4) == 0, n%9 == 0); err != nil {
					t.Errorf("visitor %d: %v", i, err)
					return
				}
			}
		})
	}
	crowd.Wait()
	room.WasInOrder(t)
	require.NotZero(t, room.Met, "readers overlap")
	h.NoEphemerals()
}

func read(
	l *lock.PriorityLock, room *harness.Room, mode priority.Mode, level priority.Level, downgrade, hurry bool,
) error {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	r := lock.Request{Terms: priority.Terms{Mode: mode, Priority: level, CleanupTimeout: time.Minute}}
	if hurry {
		r.AcquireTimeout = new(3 * time.Millisecond)
	}
	g, err := l.Acquire(ctx, r)
	if hurry && lock.IsNotAcquired(err) {
		return nil
	} else if err != nil {
		return err
	}
	token, err := g.Token(ctx)
	if err != nil {
		return err
	}
	room.Enter(mode, token)
	for range 20 {
		runtime.Gosched()
	}
	if mode == priority.Exclusive && downgrade {
		room.Leave(mode)
		mode = priority.Shared
		room.Enter(mode, token)
		if err := g.Downgrade(ctx); err != nil {
			return err
		}
	}
	room.Leave(mode)
	return g.Release(ctx)
}
