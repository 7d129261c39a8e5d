package robust

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/wallclock"
	"github.com/lockkeeper/lockkeeper/integration/nemesis"
	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// A crew is the client processes. Each has a seat, on which one process follows
// the other when it is killed.
type crew struct {
	options Options
	connect func(client string) string

	mu       sync.Mutex
	seats    map[string]*seat
	events   []history.Event
	troubles []string // processes that ended unexpectedly
	draining bool
	left     chan struct{} // closed when draining begins
	running  sync.WaitGroup
}

// A seat is one name of a process.
type seat struct {
	name    string
	rand    *rand.Rand
	runs    int // processes so far
	process *os.Process
	stdin   io.WriteCloser
	gone    chan struct{}    // closed when the process has ended
	doomed  bool             // it is to be killed
	paused  time.Duration    // since when; 0: it is not
	clock   *wallclock.Clock // nil: it cannot be set
	ahead   time.Duration    // what it is set to
}

var errNoProcess = errors.New("robust: no process has this seat")

func newCrew(o Options) *crew {
	return &crew{options: o, seats: make(map[string]*seat), left: make(chan struct{})}
}

// names are those of the seats.
func (o Options) names() []string {
	var names []string
	for i := range o.Clients {
		names = append(names, fmt.Sprintf("c%02d", i+1))
	}
	return names
}

var _ nemesis.Processes = (*crew)(nil)

// start starts a process on each seat; connect says how it reaches the servers.
func (c *crew) start(connect func(client string) string) error {
	c.connect = connect
	for i, name := range c.options.names() {
		s := &seat{name: name, rand: rand.New(rand.NewPCG(c.options.Seed, uint64(i)))}
		c.seats[name] = s
		if err := c.launch(s); err != nil {
			return err
		}
	}
	return nil
}

// launch starts the next process on a seat. It is started again when it is
// killed, until the crew drains.
func (c *crew) launch(s *seat) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return nil
	}
	s.runs++
	client := fmt.Sprintf("%s.%d", s.name, s.runs)
	settings, err := json.Marshal(map[string]any{
		"Client": client, "Servers": strings.Split(c.connect(s.name), ","), "Dir": c.options.Dir,
		"Session": c.options.Session,
		"Seed":    s.rand.Uint64(), "Players": c.options.Players, "Scopes": c.options.Scopes, "Season": c.options.Season,
		"Margin": c.options.Margin, "Stall": c.options.noise(), "Tempo": c.options.Tempo, "Readers": c.options.Readers,
		"Calm": c.options.Calm,
	})
	if err != nil {
		return err
	}
	environment := append(os.Environ(), "LOCKKEEPER_ROBUST="+string(settings), "GORACE=halt_on_error=1")
	clock := new(wallclock.Clock)
	cmd, stdin, err := c.command(client, environment, func(cmd *exec.Cmd) error { return clock.Start(cmd, s.ahead) })
	if err != nil { // not on this machine
		clock = nil
		cmd, stdin, err = c.command(client, environment, (*exec.Cmd).Start)
	}
	if err != nil {
		return fmt.Errorf("robust: start a client: %w", err)
	}
	s.process, s.stdin, s.clock, s.gone, s.doomed, s.paused = cmd.Process, stdin, clock, make(chan struct{}), false, 0
	c.running.Go(func() { c.attend(s, client, cmd) })
	return nil
}

func (c *crew) command(
	client string, environment []string, start func(*exec.Cmd) error,
) (*exec.Cmd, io.WriteCloser, error) {
	words, err := os.Create(filepath.Join(c.options.Dir, client+".stderr"))
	if err != nil {
		return nil, nil, err
	}
	defer words.Close()
	cmd := exec.Command(c.options.Worker)
	cmd.Env, cmd.Stderr = environment, words
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = start(cmd)
	}
	return cmd, stdin, err
}

// attend waits for the end of a process.
func (c *crew) attend(s *seat, client string, cmd *exec.Cmd) {
	err := cmd.Wait()
	c.mu.Lock()
	s.process = nil
	close(s.gone)
	doomed, draining := s.doomed, c.draining
	if s.paused != 0 {
		c.events = append(c.events, history.Event{At: history.Now(), Kind: history.Paused, Client: client, From: s.paused})
		s.paused = 0
	}
	if !doomed && (err != nil || !draining) {
		words, _ := os.ReadFile(filepath.Join(c.options.Dir, client+".stderr"))
		c.troubles = append(c.troubles,
			fmt.Sprintf("client %s ended by itself: %v\n%s", client, err, bytes.TrimSpace(words)))
	}
	pause := 100*time.Millisecond + time.Duration(s.rand.Int64N(int64(2*time.Second)))
	c.mu.Unlock()
	if draining {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.left:
		return
	}
	if err := c.launch(s); err != nil {
		c.mu.Lock()
		c.troubles = append(c.troubles, err.Error())
		c.mu.Unlock()
	}
}

// seat returns a seat with c.mu locked. It waits for somebody to take it.
func (c *crew) seat(name string) (*seat, string, error) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		c.mu.Lock()
		s := c.seats[name]
		switch {
		case s == nil || time.Now().After(deadline):
			return nil, "", errNoProcess
		case s.process != nil && !s.doomed:
			return s, fmt.Sprintf("%s.%d", s.name, s.runs), nil
		}
		c.mu.Unlock()
		pause(context.Background(), 20*time.Millisecond)
	}
}

// Kill kills the process of a seat, and returns when it is gone. Another takes
// the seat after a while.
func (c *crew) Kill(name string) error {
	s, client, err := c.seat(name)
	if err != nil {
		c.mu.Unlock()
		return err
	}
	s.doomed = true
	c.events = append(c.events, history.Event{At: history.Now(), Kind: history.Killed, Client: client})
	err = s.process.Kill()
	gone := s.gone
	c.mu.Unlock()
	<-gone
	return err
}

// Pause stops the process of a seat (SIGSTOP).
func (c *crew) Pause(name string) error {
	s, _, err := c.seat(name)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	s.paused = history.Now()
	return s.process.Signal(syscall.SIGSTOP)
}

// Resume lets it run on (SIGCONT).
func (c *crew) Resume(name string) error {
	s, client, err := c.seat(name)
	defer c.mu.Unlock()
	if err != nil || s.paused == 0 {
		return err
	}
	err = s.process.Signal(syscall.SIGCONT)
	c.events = append(c.events, history.Event{At: history.Now(), Kind: history.Paused, Client: client, From: s.paused})
	s.paused = 0
	return err
}

// StepClock sets the wall clock of a seat's processes, present and to come, to
// the true time plus an offset.
func (c *crew) StepClock(name string, offset time.Duration) error {
	s, _, err := c.seat(name)
	defer c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case s.clock == nil:
		return fmt.Errorf("the wall clock of one process cannot be set here: %w", errors.ErrUnsupported)
	}
	s.ahead = offset
	return s.clock.Step(offset)
}

// told returns what the suite knows of the processes up to now, pauses that go
// on included.
func (c *crew) told(now time.Duration) []history.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := append([]history.Event(nil), c.events...)
	for _, s := range c.seats {
		if s.paused != 0 {
			events = append(events,
				history.Event{At: now, Kind: history.Paused, Client: fmt.Sprintf("%s.%d", s.name, s.runs), From: s.paused})
		}
	}
	return events
}

// clients returns which processes had a seat.
func (c *crew) clients(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	if s := c.seats[name]; s != nil {
		for i := range s.runs {
			all = append(all, fmt.Sprintf("%s.%d", name, i+1))
		}
	}
	return all
}

// wasKilled reports whether a process was killed, by its name in the history.
func (c *crew) wasKilled(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.events, func(e history.Event) bool {
		return e.Kind == history.Killed && e.Client == client
	})
}

// drain has all processes end what they have begun, and returns the names of
// those that have not when ctx ends; these are killed.
func (c *crew) drain(ctx context.Context) []string {
	c.mu.Lock()
	if !c.draining {
		c.draining = true
		close(c.left)
	}
	var waits []*seat
	for _, s := range c.seats {
		if s.process == nil {
			continue
		}
		waits = append(waits, s)
		if s.paused != 0 {
			_ = s.process.Signal(syscall.SIGCONT)
		}
		_, _ = io.WriteString(s.stdin, "drain\n")
	}
	c.mu.Unlock()
	var late []string
	for _, s := range waits {
		select {
		case <-s.gone:
			continue
		case <-ctx.Done():
		}
		c.mu.Lock()
		if s.process != nil {
			late = append(late, fmt.Sprintf("%s.%d", s.name, s.runs))
			s.doomed = true
			_ = s.process.Signal(syscall.SIGQUIT) // it says where it is stuck
		}
		c.mu.Unlock()
		select {
		case <-s.gone:
		case <-time.After(5 * time.Second):
			c.mu.Lock()
			if s.process != nil {
				_ = s.process.Kill()
			}
			c.mu.Unlock()
		}
	}
	c.running.Wait()
	return late
}
