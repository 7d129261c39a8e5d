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

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
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
	client   *lock.Client
	players  []func() error
	expected int // threads
}

func newGame(t *testing.T, turns int) *game {
	t.Helper()
	g := &game{t: t, server: shared.Server(t), path: testbed.Root(t) + "/lock", referee: newReferee(t, turns)}
	g.ctx, g.kill = context.WithCancel(t.Context())
	t.Cleanup(g.kill)
	g.client = harness.NewClient(t, lock.Config{Servers: []string{g.server.Addr()}})
	return g
}

// java lets Curator play.
func (g *game) java(kind string, more ...string) {
	g.t.Helper()
	g.expected += threads
	program := peers.BuildJava(g.t, filepath.Join("java", "peers"), "peers.Main")
	args := append([]string{g.server.Addr(), g.path, g.referee.port, fmt.Sprint(threads), kind}, more...)
	g.players = append(g.players, func() error { return run(g.ctx, "", program.Command(args...)) })
}

// python lets Kazoo play.
func (g *game) python(kind string) {
	g.t.Helper()
	g.expected += threads
	command := []string{peers.FindKazoo(g.t), "-B", "-X", "utf8", "-m", "peers", g.server.Addr(), g.path, g.referee.port, fmt.Sprint(threads), kind}
	g.players = append(g.players, func() error { return run(g.ctx, "python", command) })
}

// golang lets this process play: each of its threads takes turns until there are no more.
func (g *game) golang(take func(ctx context.Context, p *player, turn string) error) {
	g.expected += threads
	for range threads {
		g.players = append(g.players, func() error {
			ctx, cancel := context.WithTimeout(g.t.Context(), patience)
			defer cancel()
			p := &player{r: g.referee}
			for turn := p.turn(); turn != "stop"; turn = p.turn() {
				if err := take(ctx, p, turn); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// sides takes turns with a lock of two sides, or of one.
func sides(write, read func(context.Context) (*classic.Grant, error)) func(context.Context, *player, string) error {
	return func(ctx context.Context, p *player, turn string) error {
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
		return grant.Release(ctx)
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

func (g *game) mutex(o classic.MutexOptions) *classic.Mutex {
	g.t.Helper()
	o.Data = []byte(golang)
	m, err := classic.NewMutex(g.client.Client, g.path, o)
	require.NoError(g.t, err)
	return m
}

// Java needs nothing, Python a subclass that has Curator's names. Python needs nothing if Go uses its names, and else to
// be told Curator's; Go understands both.
func TestJavaPythonAndGoTakeTurnsAtOneMutex(t *testing.T) {
	for name, play := range map[string]struct {
		turns  int
		java   bool
		python string
		naming classic.Naming
	}{
		"by Curator's names":         {1000, true, "mutex-curator", classic.NamingCurator},
		"by Kazoo's names":           {200, false, "mutex", classic.NamingKazoo},
		"each by the names it knows": {200, false, "mutex-extra", classic.NamingCurator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGame(t, play.turns)
			languages := []string{python, golang}
			if play.java {
				g.java("mutex")
				languages = append(languages, java)
			}
			g.python(play.python)
			g.golang(sides(g.mutex(classic.MutexOptions{Naming: play.naming}).Acquire, nil))
			g.play()
			g.referee.wasFair(t, languages...)
		})
	}
}

func TestJavaPythonAndGoReadTogetherAndWriteAlone(t *testing.T) {
	for name, play := range map[string]struct {
		turns  int
		java   bool
		python string
		naming classic.Naming
	}{
		"by Curator's names": {300, true, "readwrite-curator", classic.NamingCurator},
		"by Kazoo's names":   {200, false, "readwrite", classic.NamingKazoo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGame(t, play.turns)
			g.referee.share = 5
			languages := []string{python, golang}
			if play.java {
				g.java("readwrite")
				languages = append(languages, java)
			}
			g.python(play.python)
			m, err := classic.NewRWMutex(g.client.Client, g.path, classic.MutexOptions{Naming: play.naming, Data: []byte(golang)})
			require.NoError(t, err)
			g.golang(sides(m.AcquireWrite, m.AcquireRead))
			g.play()
			g.referee.wasFair(t, languages...)
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
			harness.Eventually(t, func() bool { return g.referee.inside() == 1 }, "it does not hold")
			queued := make(chan struct{}, 1)
			waiter := g.waiter(g.mutex(classic.MutexOptions{Notify: func(lock.Notice) { queued <- struct{}{} }}).Acquire)
			harness.Receive(t, queued, "Go does not wait")

			g.kill()

			require.Error(t, <-died)
			waiter.Granted()
		})
	}
}

// waiter acquires and releases in the background.
func (g *game) waiter(acquire func(context.Context) (*classic.Grant, error)) *harness.Running {
	return harness.Run(g.t, "Go's request", func(ctx context.Context) error {
		grant, err := acquire(ctx)
		if err != nil {
			return err
		}
		return grant.Release(ctx)
	})
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
	m := g.mutex(classic.MutexOptions{})

	// given a holder in Java, and one in Go that waits
	var holder classic.Participant
	harness.Eventually(t, func() bool {
		participants, err := m.Participants(t.Context())
		if err != nil || len(participants) != 1 || g.referee.inside() != 1 {
			return false
		}
		holder = participants[0]
		return true
	}, "Java does not hold")
	waiter := g.waiter(m.Acquire)

	// when Go asks it to release
	require.NoError(t, classic.Revoke(t.Context(), g.client.Client, holder.Path))

	// then it does, and the one that waits is granted
	waiter.Granted()
	<-finished
	require.Empty(t, g.referee.fouls)
}

// Curator X2 between languages
func TestJavaAsksGoToRelease(t *testing.T) {
	t.Parallel()
	g := newGame(t, 0)
	asked := make(chan lock.PreemptRequested, 1)
	m := g.mutex(classic.MutexOptions{Notify: func(n lock.Notice) {
		if n, ok := n.(lock.PreemptRequested); ok {
			asked <- n
		}
	}})
	grant, err := m.Acquire(t.Context())
	require.NoError(t, err)

	g.path = grant.Path()
	g.java("revoke")
	g.play()

	harness.Receive(t, asked, "Go is not asked")
	require.NoError(t, grant.Check())
	require.NoError(t, grant.Release(t.Context()))
}
