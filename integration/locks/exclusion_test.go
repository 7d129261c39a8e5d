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

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// visit takes the lock, goes inside and comes out.
func visit(ctx context.Context, l *lock.PriorityLock, r lock.Request, inside *harness.Occupancy) error {
	g, err := l.Acquire(ctx, r)
	if err != nil {
		return err
	}
	token, err := g.Token(ctx)
	if err != nil {
		return err
	}
	inside.Enter(r.Owner, token)
	runtime.Gosched()
	inside.Leave(r.Owner)
	return g.Release(ctx)
}

// turns has the locks taken so often by each of some threads, and checks that never two were inside, and that tokens grew.
func (f *fixture) turns(locks []*lock.PriorityLock, threads, turns int) {
	f.Helper()
	var inside harness.Occupancy
	var crowd sync.WaitGroup
	for i, l := range locks {
		for n := range threads {
			crowd.Go(func() {
				for range turns {
					r := lock.Request{Identity: priority.Identity{Owner: fmt.Sprintf("lock %d thread %d", i, n)}, Terms: priority.Terms{Priority: priority.Level(n % 3), CleanupTimeout: time.Minute}}
					if err := visit(f.Context(), l, r, &inside); err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
	}
	crowd.Wait()
	inside.WasExclusive(f, len(locks)*threads*turns)
	f.NoEphemerals()
}

// Curator M6, Kazoo K10
func TestThreadsThatShareOneLockObjectAreNeverInsideTogether(t *testing.T) {
	h := share(t)
	h.turns([]*lock.PriorityLock{h.lock(h.Client())}, 20, 5)
}

// The crowd of M6, M9 and K10 with everything that may happen to a polite request: several clients, levels, tries,
// deadlines, callers that leave. No holder loses a lock, so another client sees each of them (Helix 42).
func TestCrowdOfImpatientClientsIsNeverInsideTogether(t *testing.T) {
	h := share(t)

	// given six clients
	var inside harness.Occupancy
	var visits atomic.Int32
	var crowd sync.WaitGroup
	for i := range 6 {
		l, onlooker := h.lock(h.Client()), h.Client()
		dice := rand.New(rand.NewPCG(uint64(i), 6))
		crowd.Go(func() {
			// when each asks again and again, and gives up now and then
			for n := range 60 {
				r := lock.Request{
					Identity: priority.Identity{Owner: fmt.Sprintf("client %d visit %d", i, n)}, Terms: priority.Terms{
						Priority:       priority.Level(dice.IntN(4)),
						CleanupTimeout: time.Duration(dice.IntN(3)) * time.Second,
					},
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
					inside.Enter(r.Owner, token)
					seen, err := onlooker.Lock(t.Context(), "users")
					if err != nil || len(seen.Holders) != 1 || seen.Holders[0].Token != token || seen.Holders[0].Owner != r.Owner {
						t.Errorf("%s is not seen to hold with token %s: %v; seen: %+v", r.Owner, token, err, seen)
					}
					inside.Leave(r.Owner)
					visits.Add(1)
					if err := g.Release(t.Context()); err != nil {
						t.Error(err)
					}
				} else if !lock.IsNotAcquired(err) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	crowd.Wait()

	// then never two were inside, tokens grew, and nothing is left behind
	inside.WasExclusive(t, int(visits.Load()))
	require.NotZero(t, visits.Load())
	h.NoEphemerals()
}

// A store is a fenced resource in memory: it refuses a token smaller than one that it has seen. So a writer that comes
// back after a newer one has its token.
type store struct {
	mu     sync.Mutex
	last   lock.Token
	writer map[lock.Token]string
	fouls  []string
}

func (s *store) write(token lock.Token, who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.last {
		return
	}
	if other, known := s.writer[token]; known && other != who {
		s.fouls = append(s.fouls, fmt.Sprintf("%s and %s have token %s", other, who, token))
	}
	s.last, s.writer[token] = token, who
}

// Forceful requests may take the lock from one that has not heard of it yet:
// then only the token protects what the lock protects.
func TestTokensKeepForcefulClientsApart(t *testing.T) {
	h := share(t)

	// given a resource that refuses old tokens
	store := store{writer: map[lock.Token]string{}}
	var crowd sync.WaitGroup
	for i := range 5 {
		l := h.lock(h.Client())
		dice := rand.New(rand.NewPCG(uint64(i), 5))
		crowd.Go(func() {
			// when five clients take the lock from each other by force
			for n := range 40 {
				r := lock.Request{
					Identity: priority.Identity{Owner: fmt.Sprintf("client %d turn %d", i, n)}, Terms: priority.Terms{
						Priority: priority.Level(dice.IntN(5)), Forceful: true,
						CleanupTimeout: time.Duration(dice.IntN(4)) * time.Millisecond, WaitingTimeout: new(time.Duration(dice.IntN(4)) * time.Millisecond),
					},
				}
				g, err := l.Acquire(t.Context(), r)
				if errors.As(err, new(*lock.LostError)) || errors.As(err, new(*lock.EvictedError)) {
					continue // granted, and taken before it was told; perhaps so long before that G does not say it any more
				} else if err != nil {
					t.Error(err)
					return
				}
				token, err := g.Token(t.Context())
				for range 2 {
					if err == nil {
						store.write(token, r.Owner)
						runtime.Gosched()
					}
				}
				if err := g.Release(t.Context()); err != nil && !errors.As(err, new(*lock.LostError)) {
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()

	// then no writer ever came back after its successor had written
	require.NotEmpty(t, store.writer)
	require.Empty(t, store.fouls)
	h.NoEphemerals()
}

// A client in a tight acquire/release loop must not keep out a waiter: within one
// priority, requests are served in order. Without a list of the queue it takes the
// lock eight times in a row at most, so it overtakes a queued request at most that
// often, whatever the timing.
func TestClientInATightLoopLetsTheWaitingOneIn(t *testing.T) {
	h := share(t)
	shell := h.Shell()

	// given a client that takes the lock and gives it back without a pause
	greedy := h.lock(h.Client())
	stop := make(chan struct{})
	var rounds atomic.Int64
	var mu sync.Mutex
	var taken []lock.Token // in order
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			g, err := greedy.Acquire(t.Context(), lock.Request{Identity: priority.Identity{Owner: "greedy"}})
			if err == nil {
				var token lock.Token
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
		harness.Eventually(t, func() bool { return rounds.Load() > before+50 }, "the loop goes on")
	}

	// when another client asks, it is let in within a few rounds
	patient := h.lock(h.Client())
	var waits []int
	for range 20 {
		goOn() // no more requests are expected
		g, err := patient.Acquire(t.Context(), lock.Request{Identity: priority.Identity{Owner: "patient"}, Terms: priority.Terms{AcquireTimeout: new(harness.Patience)}})
		require.NoError(t, err)
		granted, err := g.Token(t.Context())
		require.NoError(t, err)
		_, node, err := shell.Exists(h.NodeOf(g.ID()))
		require.NoError(t, err)
		require.NoError(t, g.Release(t.Context()))

		mu.Lock()
		passed := 0
		for _, token := range taken {
			if token > lock.Token(node.Czxid) && token < granted {
				passed++
			}
		}
		mu.Unlock()
		waits = append(waits, passed)
	}
	t.Logf("passed so many times while in the queue: %v", waits)
	require.LessOrEqual(t, slices.Max(waits), 8)
}
