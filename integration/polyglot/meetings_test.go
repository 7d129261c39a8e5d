package polyglot

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
)

// curator lets Curator's recipes for meetings play.
func (g *game) curator(path, port string, players int, more ...string) {
	g.t.Helper()
	program := peers.BuildJava(g.t, filepath.Join("java", "meetings"), "meetings.Main")
	args := append([]string{g.server.Addr(), path, port, fmt.Sprint(players)}, more...)
	g.players = append(g.players, func() error { return run(g.ctx, "", program.Command(args...)) })
}

// Curator's LeaderLatch, closed after each term, and ours.
func TestJavaAndGoLeadOneAtATime(t *testing.T) {
	t.Parallel()
	g := newGame(t, 200)
	g.expected += threads
	g.curator(g.path, g.referee.port, threads, "latch")
	e, err := classic.NewElection(g.client.Client, g.path, golang, classic.ElectionOptions{})
	require.NoError(t, err)
	g.golang(func(ctx context.Context, p *player, _ string) error {
		term, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		p.enter(golang)
		leader, err := e.Leader(ctx)
		if err != nil {
			return err
		}
		if leader.ID != golang || leader.Token != term.Token() {
			g.referee.foul("Go leads, and sees %+v", leader)
		}
		p.leave()
		return term.Resign(ctx)
	})
	g.play()
	g.referee.wasFair(t, java, golang)
}

// A host sees who comes and goes in each round of a double barrier: lines over
// TCP, arrive N, inside N, leaving N, out N.
type host struct {
	port    string
	members int

	mu     sync.Mutex
	counts map[string]int // by line
	fouls  []string
	begun  map[int]chan struct{} // by round, closed when all are inside
}

func newHost(t *testing.T, members int) *host {
	t.Helper()
	h := &host{members: members, counts: map[string]int{}, begun: map[int]chan struct{}{}}
	h.port = listen(t, func(lines *bufio.Scanner, answer func(string) error) {
		for lines.Scan() {
			h.await(lines.Text())
			h.hear(lines.Text())
			if answer("ok") != nil {
				return
			}
		}
	})
	return h
}

// hear checks that no member is inside before all have arrived, and none out
// before all are leaving.
func (h *host) hear(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[line]++
	var what string
	var round int
	if _, err := fmt.Sscan(line, &what, &round); err != nil {
		h.fouls = append(h.fouls, line)
	}
	if n := h.counts[line]; what == "inside" && n == h.members {
		close(h.begunLocked(round))
	}
	for after, before := range map[string]string{"inside": "arrive", "out": "leaving"} {
		if n := h.counts[fmt.Sprint(before, " ", round)]; what == after && n < h.members {
			h.fouls = append(h.fouls, fmt.Sprintf("round %d: %s after %d of %d %s", round, after, n, h.members, before))
		}
	}
}

func (h *host) count(line string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[line]
}

// await lets no member leave before all are inside. Curator's enter() looks how many there are and then waits for "ready":
// one that looks late, when "ready" is there and another has already left, waits for ever.
func (h *host) await(line string) {
	var round int
	if _, err := fmt.Sscanf(line, "leaving %d", &round); err != nil || h.members == 0 {
		return
	}
	select {
	case <-h.all(round):
	case <-time.After(patience): // the others say what is wrong
	}
}

// all is closed when all are inside.
func (h *host) all(round int) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begunLocked(round)
}

func (h *host) begunLocked(round int) chan struct{} {
	if h.begun[round] == nil {
		h.begun[round] = make(chan struct{})
	}
	return h.begun[round]
}

// Curator's DistributedDoubleBarrier and ours.
func TestJavaAndGoBeginAndEndTogether(t *testing.T) {
	t.Parallel()
	const rounds = 20
	g := newGame(t, 0)
	h := newHost(t, 2*threads)
	g.curator(g.path, h.port, threads, "doublebarrier", fmt.Sprint(2*threads), fmt.Sprint(rounds))
	for range threads {
		g.players = append(g.players, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for round := range rounds {
				b, err := classic.NewDoubleBarrier(g.client.Client, fmt.Sprint(g.path, "-", round), 2*threads)
				if err != nil {
					return err
				}
				h.hear(fmt.Sprint("arrive ", round))
				m, err := b.Enter(ctx)
				if err != nil {
					return fmt.Errorf("round %d: enter: %w", round, err)
				}
				h.hear(fmt.Sprint("inside ", round))
				h.await(fmt.Sprint("leaving ", round))
				h.hear(fmt.Sprint("leaving ", round))
				if err := m.Leave(ctx); err != nil {
					return fmt.Errorf("round %d: leave: %w", round, err)
				}
				h.hear(fmt.Sprint("out ", round))
			}
			return nil
		})
	}
	g.play()
	require.Empty(t, h.fouls)
	for round := range rounds {
		require.Equal(t, threads, h.count(fmt.Sprint("out ", round)), "round %d: %v", round, h.counts)
		require.Equal(t, threads, h.count(fmt.Sprint("away ", round)), "round %d", round)
	}
}

// Curator's DistributedBarrier and ours: Java waits at one of Go's, and Go at
// one of Java's.
func TestJavaAndGoWaitAtEachOthersBarriers(t *testing.T) {
	t.Parallel()
	g := newGame(t, 0)
	h := newHost(t, 0)
	first, err := classic.NewBarrier(g.client.Client, g.path)
	require.NoError(t, err)
	require.NoError(t, first.Set(t.Context()))
	g.curator(g.path, h.port, 1, "barrier")
	played := make(chan error, 1)
	go func() { played <- g.players[0]() }()

	harness.Eventually(t, func() bool { return h.count("arrive 0") == 1 }, "Java does not arrive")
	require.Zero(t, h.count("inside 0"))
	require.NoError(t, first.Remove(t.Context()))
	harness.Eventually(t, func() bool { return h.count("leaving 0") == 1 }, "Java does not go on")
	require.NoError(t, <-played)

	second, err := classic.NewBarrier(g.client.Client, g.path+"-next")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, second.Wait(ctx), context.DeadlineExceeded)
	require.NoError(t, second.Remove(t.Context()))
	require.NoError(t, second.Wait(t.Context()))
}

// Curator S2 between languages: Curator's SharedCount raises the limit.
func TestJavaRaisesTheLimitThatGoWaitsFor(t *testing.T) {
	t.Parallel()
	g := newGame(t, 0)
	h := newHost(t, 0)
	s, err := classic.NewSemaphore(g.client.Client, g.path, classic.SemaphoreOptions{Limit: 1, LimitPath: g.path + "-limit"})
	require.NoError(t, err)
	first, err := s.Acquire(t.Context())
	require.NoError(t, err)
	second := g.waiter(s.Acquire)

	g.curator(g.path+"-limit", h.port, 1, "count", "2")
	require.NoError(t, g.players[0]())

	second.Granted()
	require.NoError(t, first.Release(t.Context()))
}

// The layouts of Curator and of Kazoo have nothing in common: a semaphore is for one of them, and Go. Go lingers with its permits, so that there is somebody to stay out of the way of.
func TestPermitsHeldByJavaOrPythonAndByGoAreNeverTooMany(t *testing.T) {
	t.Parallel()
	const limit = 2
	for name, play := range map[string]struct {
		naming classic.Naming
		join   func(*game)
	}{
		java:   {classic.NamingCurator, func(g *game) { g.java("semaphore", fmt.Sprint(limit)) }},
		python: {classic.NamingKazoo, func(g *game) { g.python("semaphore") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGame(t, 150)
			g.referee.limit = limit
			play.join(g)
			s, err := classic.NewSemaphore(g.client.Client, g.path, classic.SemaphoreOptions{Naming: play.naming, Limit: limit, ID: golang})
			require.NoError(t, err)
			g.golang(func(ctx context.Context, p *player, _ string) error {
				permit, err := s.Acquire(ctx)
				if err != nil {
					return err
				}
				p.enter(golang)
				select { // until somebody else is inside, too; that has to be once
				case <-g.referee.full:
					<-time.After(5 * time.Millisecond)
				case <-ctx.Done():
				}
				p.leave()
				return permit.Release(ctx)
			})
			g.play()
			g.referee.wasFair(t, name, golang)
			require.Equal(t, limit, g.referee.together, "permits are for holding side by side")
		})
	}
}
