package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// visit takes the lock, goes inside and comes out.
func visit(ctx context.Context, l *recipes.PriorityLock, r recipes.Request, inside *room) error {
	g, err := l.Acquire(ctx, r)
	if err != nil {
		return err
	}
	token, err := g.Token(ctx)
	if err != nil {
		return err
	}
	inside.enter(r.Owner, token)
	runtime.Gosched()
	inside.leave(r.Owner)
	return g.Release(ctx)
}

// Curator M6
func TestThreadsThatShareOneLockObjectAreNeverInsideTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given one lock object and ten threads
	l := h.lock(h.client())
	var inside room
	var threads sync.WaitGroup

	// when each goes inside ten times
	for i := range 10 {
		threads.Go(func() {
			for range 10 {
				r := recipes.Request{Owner: fmt.Sprint("thread ", i), Priority: priority.Level(i % 3)}
				if err := visit(t.Context(), l, r, &inside); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	threads.Wait()

	// then never two were inside, and tokens grew
	inside.wasOrderly(t, 100)
	h.nobodyThere()
}

// Curator M9
func TestExactlyOneOfTwoClientsHoldsAndTheOtherIsNext(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given two clients that ask at the same time
	ann := h.ask(h.lock(h.client()), "ann")
	bob := h.ask(h.lock(h.client()), "bob")

	// then exactly one holds
	first, second := ann, bob
	select {
	case <-ann.done:
	case <-bob.done:
		first, second = bob, ann
	case <-time.After(soon):
		require.FailNow(t, "nobody holds")
	}
	first.granted()
	second.queued()
	second.waits()
	state := h.state(onlooker)
	require.Equal(t, []string{first.owner}, owners(state.Holders))
	require.Equal(t, []string{second.owner}, owners(state.Waiters))

	// when it releases, the other gets it
	first.release()
	second.granted()
	require.Equal(t, []string{second.owner}, owners(h.state(onlooker).Holders))
	require.Greater(t, second.token(), first.token())
}

// Kazoo K9
func TestOfTwentyThreadsThatTryExactlyOneGetsTheLock(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a free lock and twenty threads with one lock object
	l := h.lock(h.client())
	var users []*user

	// when all try
	for i := range 20 {
		users = append(users, h.ask(l, fmt.Sprint("thread ", i), try))
	}

	// then exactly one holds, and the others were told that it is held
	held := 0
	for _, u := range users {
		u.ended()
		if u.err == nil {
			held++
			continue
		}
		var busy *recipes.NotAcquiredError
		require.ErrorAs(t, u.err, &busy)
	}
	require.Equal(t, 1, held)
	require.Len(t, h.contenders(), 1)
}

// Kazoo K10
func TestTwentyThreadsTakeTwentyTurns(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given twenty threads with one lock object, of different priorities
	l := h.lock(h.client())
	var inside room
	var threads sync.WaitGroup

	// when all acquire and wait as long as it takes
	for i := range 20 {
		threads.Go(func() {
			r := recipes.Request{Owner: fmt.Sprint("thread ", i), Priority: priority.Level(i % 4), CleanupTimeout: time.Minute}
			if err := visit(t.Context(), l, r, &inside); err != nil {
				t.Error(err)
			}
		})
	}
	threads.Wait()

	// then there were twenty turns, never two at once
	inside.wasOrderly(t, 20)
	h.nobodyThere()
}

// The crowd of M6, M9 and K10 with everything that may happen to a polite
// request: several clients, levels, tries, deadlines, callers that leave.
func TestCrowdOfImpatientClientsIsNeverInsideTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given six clients
	var inside room
	var visits atomic.Int32
	var crowd sync.WaitGroup
	for i := range 6 {
		l := h.lock(h.client())
		dice := rand.New(rand.NewPCG(uint64(i), 6))
		crowd.Go(func() {
			// when each asks again and again, and gives up now and then
			for n := range 60 {
				r := recipes.Request{
					Owner: fmt.Sprintf("client %d visit %d", i, n), Priority: priority.Level(dice.IntN(4)),
					CleanupTimeout: time.Duration(dice.IntN(3)) * time.Second,
				}
				ctx, cancel := context.WithCancel(t.Context())
				switch dice.IntN(4) {
				case 0:
					r.AcquireTimeout = new(time.Duration(dice.IntN(20)) * time.Millisecond)
				case 1:
					time.AfterFunc(time.Duration(dice.IntN(10000))*time.Microsecond, cancel)
				case 2:
					r.WaitingTimeout = new(time.Duration(dice.IntN(5)) * time.Millisecond)
				}
				g, err := l.Acquire(ctx, r)
				if err == nil {
					token, err := g.Token(t.Context())
					if err != nil {
						t.Error(err)
					}
					inside.enter(r.Owner, token)
					for range dice.IntN(3) {
						runtime.Gosched()
					}
					inside.leave(r.Owner)
					visits.Add(1)
					if err := g.Release(t.Context()); err != nil {
						t.Error(err)
					}
				} else if !recipes.IsNotAcquired(err) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	crowd.Wait()

	// then never two were inside, tokens grew, and nothing is left behind
	inside.wasOrderly(t, int(visits.Load()))
	require.NotZero(t, visits.Load())
	h.nobodyThere()
}

// Forceful requests may take the lock from one that has not heard of it yet:
// then only the token protects what the lock protects.
func TestTokensKeepForcefulClientsApart(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a resource that refuses old tokens
	store := newStore()
	var crowd sync.WaitGroup
	for i := range 5 {
		l := h.lock(h.client())
		dice := rand.New(rand.NewPCG(uint64(i), 5))
		crowd.Go(func() {
			// when five clients take the lock from each other by force
			for n := range 40 {
				r := recipes.Request{
					Owner: fmt.Sprintf("client %d turn %d", i, n), Priority: priority.Level(dice.IntN(5)), Forceful: true,
					CleanupTimeout: time.Duration(dice.IntN(4)) * time.Millisecond, WaitingTimeout: new(time.Duration(dice.IntN(4)) * time.Millisecond),
				}
				g, err := l.Acquire(t.Context(), r)
				var lost *recipes.LostError
				var evicted *recipes.EvictedError
				if errors.As(err, &lost) || errors.As(err, &evicted) {
					continue // granted, and taken before it was told; perhaps so long before that G does not say it any more
				} else if err != nil {
					t.Error(err)
					return
				}
				token, err := g.Token(t.Context())
				for range 2 {
					if err == nil {
						_ = store.write(token, r.Owner)
						runtime.Gosched()
					}
				}
				if err := g.Release(t.Context()); err != nil && !errors.As(err, &lost) {
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()

	// then no writer ever came back after its successor had written
	store.wasWrittenInTurns(t)
	h.nobodyThere()
}

// Whoever asks again and again in no time must not keep out the one that
// stands in the queue: inside one priority, first come first served. Without a look at
// the queue it takes the lock eight times in a row at most, so that is how often it
// passes a request whose node is there, whichever of the two is scheduled when.
func TestClientInATightLoopLetsTheWaitingOneIn(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()

	// given a client that takes the lock and gives it back without a pause
	greedy := h.lock(h.client())
	stop := make(chan struct{})
	var rounds atomic.Int64
	var mu sync.Mutex
	var taken []recipes.Token // in order
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			g, err := greedy.Acquire(t.Context(), recipes.Request{Owner: "greedy"})
			if err == nil {
				var token recipes.Token
				token, err = g.Token(t.Context())
				mu.Lock()
				taken = append(taken, token)
				mu.Unlock()
			}
			if err == nil {
				err = g.Release(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
			rounds.Add(1)
		}
	})
	defer loop.Wait()
	defer close(stop)
	goOn := func() {
		t.Helper()
		before := rounds.Load()
		require.Eventually(t, func() bool { return rounds.Load() > before+50 }, soon, time.Millisecond)
	}

	// when another client asks, it is let in within a few rounds
	patient := h.lock(h.client())
	var waits []int
	for range 20 {
		goOn() // nobody is expected any more
		g, err := patient.Acquire(t.Context(), recipes.Request{Owner: "patient", AcquireTimeout: new(soon)})
		require.NoError(t, err)
		granted, err := g.Token(t.Context())
		require.NoError(t, err)
		_, node, err := shell.Exists(h.node(g.ID()))
		require.NoError(t, err)
		require.NoError(t, g.Release(t.Context()))

		mu.Lock()
		passed := 0
		for _, token := range taken {
			if token > recipes.Token(node.Czxid) && token < granted {
				passed++
			}
		}
		mu.Unlock()
		waits = append(waits, passed)
	}
	t.Logf("passed so many times while in the queue: %v", waits)
	require.LessOrEqual(t, slices.Max(waits), 8)
}
