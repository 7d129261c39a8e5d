package polyglot

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	// soon is how long anything that must happen may take on a busy machine.
	soon = 30 * time.Second

	// patience is how long one program may play.
	patience = 2 * time.Minute

	// threads is how many of each language play.
	threads = 2

	java, python, golang = "java", "python", "go"
)

// A game is one path on the server, and a referee.
type game struct {
	t        *testing.T
	ctx      context.Context // of the programs
	kill     context.CancelFunc
	server   testbed.Server
	path     string
	referee  *referee
	client   *recipes.Client
	players  []func() error
	expected int // threads
}

func newGame(t *testing.T, turns int) *game {
	t.Helper()
	g := &game{t: t, server: shared.Server(t), path: testbed.Root(t) + "/lock", referee: newReferee(t, turns)}
	g.ctx, g.kill = context.WithCancel(t.Context())
	t.Cleanup(g.kill)
	c, err := recipes.NewClient(recipes.Config{Servers: []string{g.server.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, c.Close(ctx))
	})
	g.client = c
	return g
}

// java lets Curator play.
func (g *game) java(kind string, more ...string) {
	g.t.Helper()
	g.expected += threads
	program := peers.BuildJava(g.t, filepath.Join("java", "peers"), "peers.Main")
	args := append([]string{g.server.Addr(), g.path, g.referee.port(), fmt.Sprint(threads), kind}, more...)
	g.players = append(g.players, func() error { return run(g.ctx, "", program.Command(args...)) })
}

// python lets Kazoo play.
func (g *game) python(kind string) {
	g.t.Helper()
	g.expected += threads
	command := []string{peers.FindKazoo(g.t), "-B", "-X", "utf8", "-m", "peers", g.server.Addr(), g.path, g.referee.port(), fmt.Sprint(threads), kind}
	g.players = append(g.players, func() error { return run(g.ctx, "python", command) })
}

// golang lets this process play.
func (g *game) golang(write, read func(context.Context) (*recipes.ClassicGrant, error)) {
	g.expected += threads
	for range threads {
		g.players = append(g.players, func() error {
			ctx, cancel := context.WithTimeout(g.t.Context(), patience)
			defer cancel()
			p := &player{r: g.referee}
			for turn := p.turn(); turn != "stop"; turn = p.turn() {
				acquire := write
				if turn == "read" {
					acquire = read
				}
				grant, err := acquire(ctx)
				if err != nil {
					return err
				}
				p.enter(golang)
				p.leave()
				if err := grant.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// play waits until all have played. None may be stuck.
func (g *game) play() {
	g.t.Helper()
	results := make(chan error, len(g.players))
	g.referee.begins(g.expected)
	for _, player := range g.players {
		go func() { results <- player() }()
	}
	for range g.players {
		if err := <-results; err != nil {
			g.t.Error(err)
			g.referee.giveUp()
		}
	}
}

// run runs a program, whose standard input is open for as long as it may live.
func run(ctx context.Context, dir string, command []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("still playing after %s", patience))
	defer cancel()
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Dir = dir
	program.WaitDelay = 5 * time.Second
	stdin, err := program.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	var said strings.Builder
	program.Stdout, program.Stderr = &said, &said
	err = program.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		lines := strings.Split(said.String(), "\n")
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	return nil
}

func (g *game) mutex(naming recipes.Naming) *recipes.Mutex {
	g.t.Helper()
	m, err := g.client.Mutex(g.path, recipes.MutexOptions{Naming: naming, Data: []byte(golang)})
	require.NoError(g.t, err)
	return m
}

func (g *game) rwmutex(naming recipes.Naming) *recipes.RWMutex {
	g.t.Helper()
	m, err := g.client.RWMutex(g.path, recipes.MutexOptions{Naming: naming, Data: []byte(golang)})
	require.NoError(g.t, err)
	return m
}

// Java needs nothing, Python a subclass that has Curator's names.
func TestJavaPythonAndGoTakeTurnsAtOneMutex(t *testing.T) {
	g := newGame(t, 1000)
	g.java("mutex")
	g.python("mutex-curator")
	g.golang(g.mutex(recipes.NamingCurator).Acquire, nil)
	g.play()
	g.referee.wasFair(t, java, python, golang)
}

// Python needs nothing if Go uses its names, and else to be told Curator's; Go
// understands both.
func TestPythonAndGoTakeTurnsAtOneMutex(t *testing.T) {
	for name, play := range map[string]struct {
		python string
		golang recipes.Naming
	}{
		"by Kazoo's names":           {"mutex", recipes.NamingKazoo},
		"each by the names it knows": {"mutex-extra", recipes.NamingCurator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGame(t, 200)
			g.python(play.python)
			g.golang(g.mutex(play.golang).Acquire, nil)
			g.play()
			g.referee.wasFair(t, python, golang)
		})
	}
}

func TestJavaPythonAndGoReadTogetherAndWriteAlone(t *testing.T) {
	g := newGame(t, 300)
	g.referee.share = 5
	g.java("readwrite")
	g.python("readwrite-curator")
	g.golang(g.rwmutex(recipes.NamingCurator).AcquireWrite, g.rwmutex(recipes.NamingCurator).AcquireRead)
	g.play()
	g.referee.wasFair(t, java, python, golang)
}

func TestPythonAndGoReadTogetherAndWriteAloneByKazoosNames(t *testing.T) {
	g := newGame(t, 200)
	g.referee.share = 5
	g.python("readwrite")
	g.golang(g.rwmutex(recipes.NamingKazoo).AcquireWrite, g.rwmutex(recipes.NamingKazoo).AcquireRead)
	g.play()
	g.referee.wasFair(t, python, golang)
}

func (g *game) semaphore(naming recipes.Naming, limit int) *recipes.Semaphore {
	g.t.Helper()
	s, err := g.client.Semaphore(g.path, recipes.SemaphoreOptions{Naming: naming, Limit: limit, ID: golang})
	require.NoError(g.t, err)
	return s
}

// The layouts of Curator and of Kazoo have nothing in common: a semaphore is
// for one of them, and Go.
func TestSemaphoreIsSharedWithGoByJavaOrByPython(t *testing.T) {
	const limit = 2
	for name, play := range map[string]struct {
		naming recipes.Naming
		other  string
		join   func(*game)
	}{
		"Java":   {recipes.NamingCurator, java, func(g *game) { g.java("semaphore", fmt.Sprint(limit)) }},
		"Python": {recipes.NamingKazoo, python, func(g *game) { g.python("semaphore") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGame(t, 200)
			g.referee.limit = limit
			play.join(g)
			g.golang(g.semaphore(play.naming, limit).Acquire, nil)
			g.play()
			g.referee.wasFair(t, golang, play.other)
		})
	}
}

// No session outlives its process for long, nor does what it holds.
func TestGoIsGrantedWhenTheProcessThatHoldsIsKilled(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(*game){
		java:   func(g *game) { g.java("hold") },
		python: func(g *game) { g.python("hold") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGame(t, 1)
			play(g)
			g.expected = 1
			died := make(chan error, 1)
			go func() { died <- g.players[0]() }()
			g.referee.begins(g.expected)
			require.Eventually(t, func() bool { return g.referee.inside() == 1 }, soon, 10*time.Millisecond)
			queued := make(chan struct{})
			m, err := g.client.Mutex(g.path, recipes.MutexOptions{Notify: func(n recipes.Notice) {
				if _, ok := n.(recipes.Queued); ok {
					close(queued)
				}
			}})
			require.NoError(t, err)
			granted := make(chan error, 1)
			go func() {
				grant, err := m.Acquire(t.Context())
				if err == nil {
					err = grant.Release(t.Context())
				}
				granted <- err
			}()
			<-queued

			g.kill()

			require.Error(t, <-died)
			select {
			case err := <-granted:
				require.NoError(t, err)
			case <-time.After(soon):
				require.FailNow(t, "not granted")
			}
		})
	}
}

// Curator X2 between languages
func TestGoAsksJavaToRelease(t *testing.T) {
	t.Parallel()
	g := newGame(t, 1)
	g.java("revocable")
	g.expected = 1 // it holds once
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		g.play()
	}()
	m := g.mutex(recipes.NamingCurator)

	// given a holder in Java, and one in Go that waits
	var holder recipes.Participant
	require.Eventually(t, func() bool {
		participants, err := m.Participants(t.Context())
		if err != nil || len(participants) != 1 || g.referee.inside() != 1 {
			return false
		}
		holder = participants[0]
		return true
	}, soon, 10*time.Millisecond)
	granted := make(chan error, 1)
	go func() {
		grant, err := m.Acquire(t.Context())
		if err == nil {
			err = grant.Release(t.Context())
		}
		granted <- err
	}()

	// when Go asks it to release
	require.NoError(t, g.client.Revoke(t.Context(), holder.Path))

	// then it does, and the one that waits is granted
	require.NoError(t, <-granted)
	<-finished
	require.Empty(t, g.referee.fouls)
}

// Curator X2 between languages
func TestJavaAsksGoToRelease(t *testing.T) {
	t.Parallel()
	g := newGame(t, 0)
	asked := make(chan recipes.PreemptAsked, 1)
	m, err := g.client.Mutex(g.path, recipes.MutexOptions{Notify: func(n recipes.Notice) {
		if n, ok := n.(recipes.PreemptAsked); ok {
			asked <- n
		}
	}})
	require.NoError(t, err)
	grant, err := m.Acquire(t.Context())
	require.NoError(t, err)

	g.path = grant.Path()
	g.java("revoke")
	g.play()

	select {
	case <-asked:
	case <-time.After(soon):
		require.FailNow(t, "Go was not told")
	}
	require.NoError(t, grant.Check())
	require.NoError(t, grant.Release(t.Context()))
}
