package locks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func sharing(r *recipes.Request) { r.Mode = priority.Shared }

func TestReadersHoldTogetherAndAWriterAlone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given three readers, of which two ask at the same time
	r1 := h.hold(h.lock(h.client()), "r1", sharing)
	r2 := h.ask(h.lock(h.client()), "r2", sharing)
	r3 := h.ask(h.lock(h.client()), "r3", sharing)
	r2.granted()
	r3.granted()

	// then they hold together
	onlooker := h.client()
	state := h.state(onlooker)
	require.ElementsMatch(t, []string{"r1", "r2", "r3"}, owners(state.Holders))
	for _, holder := range state.Holders {
		require.Equal(t, priority.Shared, holder.Mode)
		require.NotZero(t, holder.Token)
	}

	// and a writer waits for all of them
	w := h.ask(h.lock(h.client()), "w")
	require.Len(t, w.queued().Holders, 3)
	r2.release()
	r1.release()
	w.waits()
	r3.release()
	w.granted()
	require.Equal(t, []string{"w"}, owners(h.state(onlooker).Holders))
}

// Readers that wait behind a writer which has seen them are granted in one
// transaction, also when it knows the first of them already: it takes none of them
// for all.
func TestReadersThatWaitTogetherAreGrantedTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	opener, onlooker := h.lock(h.client()), h.client()
	locks := []*recipes.PriorityLock{h.lock(h.client()), h.lock(h.client()), h.lock(h.client())}
	for reads := range 16 {
		// given a writer that knows of others from before, and two readers behind it
		first := h.hold(opener, "first")
		writer := h.ask(locks[0], "writer")
		writer.queued()
		r1 := h.ask(locks[1], "r1", sharing)
		r1.queued()
		r2 := h.ask(locks[2], "r2", sharing)
		r2.queued()
		first.release()
		writer.granted()

		// when it leaves soon after it has looked for its successor, in some of these rounds
		for range reads {
			h.state(onlooker)
		}
		writer.release()

		// then both have the lock by the same grant
		require.Equal(t, r1.token(), r2.token(), "after %d reads", reads)
		r1.release()
		r2.release()
	}
}

// The readers behind a writer wait for it, however many come: it does not
// starve.
func TestReadersDoNotPassAWriterOfTheirPriority(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a reader, and a writer that waits
	first := h.hold(h.lock(h.client()), "first", sharing)
	w := h.ask(h.lock(h.client()), "w")
	w.queued()

	// when more readers come, then they wait behind the writer
	var later []*user
	for i := range 3 {
		r := h.ask(h.lock(h.client()), fmt.Sprint("later ", i), sharing)
		require.Equal(t, i+2, r.queued().Position)
		later = append(later, r)
	}
	trier := h.ask(h.lock(h.client()), "trier", sharing, try)
	require.True(t, recipes.IsNotAcquired(trier.refused()))
	first.release()
	w.granted()
	for _, r := range later {
		r.waits()
	}

	// and hold together after it
	w.release()
	for _, r := range later {
		r.granted()
	}
	require.Len(t, h.state(h.client()).Holders, 3)
}

// FIFO inside a priority, the more important first.
// Nor do they walk in past one that has joined, and has not shut the lock yet.
func TestReadersDoNotWalkInPastAWriterThatTheySee(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a lock that readers have opened, and a writer of their priority that has done no more than to join
	first := h.hold(h.lock(h.client()), "first", sharing)
	h.hold(h.lock(h.client()), "second", sharing)
	node := h.lockNode(first.grant.ID()) + "/2147483647-x-0123456789abcdef01234567-"
	_, err := h.shell().Create(node, []byte(`{"format":1,"owner":"writer","mode":"exclusive"}`), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	// then who looks does not, unless it comes first
	require.True(t, recipes.IsNotAcquired(h.ask(h.lock(h.client()), "reader", sharing, try).refused()))
	h.hold(h.lock(h.client()), "important reader", sharing, at(1), try)
}

func TestHandOverReachesTheReadersUpToTheNextWriter(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a writer that holds, and a mixed queue
	holder := h.hold(h.lock(h.client()), "holder", at(9))
	join := func(owner string, change ...func(*recipes.Request)) *user {
		u := h.ask(h.lock(h.client()), owner, change...)
		u.queued()
		return u
	}
	low := join("low", at(1), sharing)
	w := join("w", at(3))
	late := join("late", at(3), sharing)
	r1, r2 := join("r1", at(5), sharing), join("r2", at(4), sharing)

	// when it releases, then the readers in front of the writer hold together
	holder.release()
	r1.granted()
	r2.granted()
	onlooker := h.client()
	require.Equal(t, []string{"r1", "r2"}, owners(h.state(onlooker).Holders))
	require.Equal(t, []string{"w", "late", "low"}, owners(h.state(onlooker).Waiters))

	// and so on
	r1.release()
	r2.release()
	w.granted()
	late.waits()
	w.release()
	late.granted()
	low.granted()
}

func TestWriterThatOutranksReadersPreemptsAllAtOnceAndNoneInVain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given three readers, one of them as important as the writer to come
	var readers []*user
	for i := range 2 {
		readers = append(readers, h.hold(h.lock(h.client()), fmt.Sprint("reader ", i), at(1), sharing, cleanup(time.Hour)))
	}
	equal := h.hold(h.lock(h.client()), "equal", at(5), sharing, cleanup(time.Hour))

	// when a writer comes
	w := h.ask(h.lock(h.client()), "w", at(5))
	w.queued()
	w.waits()

	// then those it outranks are left alone as long as the equal one is there
	for _, r := range readers {
		require.Zero(t, count[recipes.PreemptAsked](r.told))
	}
	equal.release()

	// and are asked to go when that has left, all of them
	for _, r := range readers {
		require.Equal(t, "w", await[recipes.PreemptAsked](t, r.told).By.Owner)
	}
	require.Zero(t, count[recipes.PreemptAsked](equal.told))
	readers[0].release()
	w.waits()
	readers[1].release()
	w.granted()
}

func TestForcefulWriterTakesOverFromAllReaders(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var readers []*user
	for i := range 3 {
		readers = append(readers, h.hold(h.lock(h.client()), fmt.Sprint("reader ", i), at(1), sharing))
	}
	w := h.ask(h.lock(h.client()), "w", at(5), forceful)
	w.granted()
	require.Len(t, await[recipes.TookOver](t, w.told).From, 3)
	for _, r := range readers {
		lost := await[recipes.Lost](t, r.told)
		require.Equal(t, recipes.LossTaken, lost.Err.Reason)
		require.Equal(t, "w", lost.Err.By)
		require.Greater(t, w.token(), lost.Err.Token)
	}
	require.Equal(t, []string{"w"}, owners(h.state(h.client()).Holders))
}

func TestReaderThatOutranksAWriterPreemptsIt(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	w := h.hold(h.lock(h.client()), "w", at(1), cleanup(time.Hour))
	waiting := h.ask(h.lock(h.client()), "waiting", at(1), sharing)
	waiting.queued()
	r := h.ask(h.lock(h.client()), "r", at(5), sharing)
	require.Equal(t, "r", await[recipes.PreemptAsked](t, w.told).By.Owner)
	w.release()

	// both readers come in: they are next to each other
	r.granted()
	waiting.granted()
}

// 0: only what needs nobody's consent.
func TestTryOfAReaderSucceedsBesideReadersAndFailsOtherwise(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()

	// beside readers, together with many others
	first := h.hold(h.lock(h.client()), "first", sharing)
	var tries []*user
	for i := range 8 {
		tries = append(tries, h.ask(h.lock(h.client()), fmt.Sprint("try ", i), sharing, try))
	}
	for _, u := range tries {
		u.granted()
	}
	require.Len(t, h.contenders(), 9)

	// not of a writer
	require.True(t, recipes.IsNotAcquired(h.ask(h.lock(c), "writer", try).refused()))
	for _, u := range append(tries, first) {
		u.release()
	}

	// and not beside a writer
	h.hold(h.lock(c), "holder")
	require.True(t, recipes.IsNotAcquired(h.ask(h.lock(c), "reader", sharing, try).refused()))
	require.Len(t, h.contenders(), 1)
}

// More than one hand-over can name come in all the same.
func TestHandOverToVeryManyReadersReachesAll(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold(h.lock(h.client()), "holder", at(1))
	c := h.client()
	var readers []*user
	for i := range 70 {
		readers = append(readers, h.ask(h.lock(c), fmt.Sprint("reader ", i), sharing))
	}
	require.Eventually(t, func() bool { return len(h.contenders()) == 71 }, soon, 10*time.Millisecond)
	holder.release()
	for _, r := range readers {
		r.granted()
	}
	require.Len(t, h.state(h.client()).Holders, 70)
}

// A room with a rule for readers: writers are alone, readers meet.
type readingRoom struct {
	mu               sync.Mutex
	readers, writers int
	met              int // readers that came in beside others
	foul             string
	last             recipes.Token // of a writer
}

func (r *readingRoom) enter(mode priority.Mode, token recipes.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.writers > 0, mode == priority.Exclusive && r.readers > 0:
		r.foul = fmt.Sprintf("%s came in beside %d writers and %d readers", mode, r.writers, r.readers)
	case token < r.last:
		r.foul = fmt.Sprintf("token %d after %d", token, r.last)
	}
	if mode == priority.Shared {
		if r.readers++; r.readers > 1 {
			r.met++
		}
		return
	}
	r.writers++
	r.last = token
}

func (r *readingRoom) leave(mode priority.Mode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mode == priority.Shared {
		r.readers--
		return
	}
	r.writers--
}

// Curator R6, with priorities, downgrades, lost connections and requests that
// give up.
func TestWritersAreAloneAndReadersMeetInACrowd(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var room readingRoom
	var crowd sync.WaitGroup
	const (
		clients = 6
		visits  = 60
	)
	for i := range clients {
		wire := &tripwire{}
		l := h.lock(h.client(through(wire)))
		random := rand.New(rand.NewPCG(uint64(i), 7))
		crowd.Go(func() {
			for n := range visits {
				mode := priority.Shared
				if random.IntN(10) < 2 {
					mode = priority.Exclusive
				}
				if random.IntN(20) == 0 {
					wire.set(afterRequest, random.IntN(4), wire.cut)
				}
				if err := read(l, &room, mode, priority.Level(random.IntN(3)), random.IntN(4) == 0, n%9 == 0); err != nil {
					t.Errorf("visitor %d: %v", i, err)
					return
				}
			}
		})
	}
	crowd.Wait()
	require.Empty(t, room.foul)
	require.Zero(t, room.readers+room.writers)
	require.NotZero(t, room.met, "readers overlap")
	h.nobodyThere()
}

func read(l *recipes.PriorityLock, room *readingRoom, mode priority.Mode, level priority.Level, downgrade, hurry bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	r := recipes.Request{Mode: mode, Priority: level, CleanupTimeout: time.Minute}
	if hurry {
		r.AcquireTimeout = new(3 * time.Millisecond)
	}
	g, err := l.Acquire(ctx, r)
	if hurry && recipes.IsNotAcquired(err) {
		return nil
	} else if err != nil {
		return err
	}
	token, err := g.Token(ctx)
	if err != nil {
		return err
	}
	room.enter(mode, token)
	for range 20 {
		runtime.Gosched()
	}
	if mode == priority.Exclusive && downgrade {
		room.leave(mode)
		mode = priority.Shared
		room.enter(mode, token)
		if err := g.Downgrade(ctx); err != nil {
			return err
		}
	}
	room.leave(mode)
	return g.Release(ctx)
}

// The Guard counts nested holds of one mode, and refuses to make a shared one
// exclusive: two that both want that would wait for each other for ever.
func TestUpgradeFailsAtOnceAndChangesNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	guard := h.guard(h.client(), "reader")
	shared := users
	shared.Mode = priority.Shared
	hold, err := guard.Acquire(t.Context(), shared)
	require.NoError(t, err)
	other, err := h.guard(h.client(), "other").Acquire(t.Context(), shared)
	require.NoError(t, err)

	// when the reader wants to be alone
	var upgrade *lockguard.UpgradeError
	_, err = guard.Acquire(hold.Context(), users)
	require.ErrorAs(t, err, &upgrade)
	require.Contains(t, err.Error(), "users")

	// then it holds as before, and may nest another shared hold
	inner, err := guard.Acquire(hold.Context(), shared)
	require.NoError(t, err)
	require.Equal(t, hold.Token(), inner.Token())
	require.Len(t, h.contenders(), 2)
	for _, held := range []*lockguard.Hold{inner, hold, other} {
		require.NoError(t, held.Release(t.Context()))
	}
}

func TestReadersOfDeadSessionsCountForNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	mortal, alive := h.client(), h.client()
	r1 := h.hold(h.lock(mortal), "r1", sharing)
	r2 := h.hold(h.lock(alive), "r2", sharing)
	w := h.ask(h.lock(h.client()), "w")
	w.queued()
	h.expire(mortal)
	require.Equal(t, recipes.LossSession, await[recipes.Lost](t, r1.told).Err.Reason)
	w.waits()
	r2.release()
	w.granted()
	require.False(t, slices.Contains(owners(h.state(alive).Holders), "r1"))
}
