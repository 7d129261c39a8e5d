package nemesis_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

const (
	session = 2 * time.Second
	every   = 20 * time.Millisecond
)

// processes stand for the clients: they note the requests that they get.
type processes struct {
	mu    sync.Mutex
	told  map[string][]string // by client
	fails error
}

func (p *processes) note(name, what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told == nil {
		p.told = map[string][]string{}
	}
	p.told[name] = append(p.told[name], what)
	return p.fails
}

func (p *processes) of(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told[name])
}

func (p *processes) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = err
}

func (p *processes) Kill(name string) error   { return p.note(name, "kill") }
func (p *processes) Pause(name string) error  { return p.note(name, "pause") }
func (p *processes) Resume(name string) error { return p.note(name, "resume") }
func (p *processes) StepClock(name string, offset time.Duration) error {
	return p.note(name, fmt.Sprintf("step %s", offset))
}

// client is a plain ZooKeeper client that keeps the events of its session.
type client struct {
	*zk.Conn
	mu     sync.Mutex
	states map[zk.State]int
}

func connect(t *testing.T, servers string) *client {
	t.Helper()
	c := &client{states: map[zk.State]int{}}
	conn, _, err := zk.Connect(strings.Split(servers, ","), session,
		zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			conn, err := net.DialTimeout(network, addr, timeout)
			return impatient{conn}, err
		}),
		zk.WithEventCallback(func(e zk.Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if e.Type == zk.EventSession {
				c.states[e.State]++
			}
		}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	c.Conn = conn
	c.serves(t)
	return c
}

// impatient waits for no answer longer than a session lives: the library gives a server ten times as long to accept it.
type impatient struct{ net.Conn }

func (c impatient) SetReadDeadline(at time.Time) error {
	if soon := time.Now().Add(session); at.After(soon) {
		at = soon
	}
	return c.Conn.SetReadDeadline(at)
}

// count tells how often the client has been in a state.
func (c *client) count(state zk.State) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states[state]
}

// write adds a node, and waits at most a second for the answer.
func (c *client) write() error {
	answer := make(chan error, 1)
	go func() {
		_, err := c.Create("/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		answer <- err
	}()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case err := <-answer:
		return err
	case <-timer.C:
		return errors.New("no answer in a second")
	}
}

// serves waits until the client can write.
func (c *client) serves(t *testing.T) {
	t.Helper()
	happens(t, "the client can write", func() bool { return c.write() == nil })
}

// happens waits until it is so.
func happens(t *testing.T, what string, so func() bool) {
	t.Helper()
	harness.Eventually(t, func() bool { <-time.After(every); return so() }, "%s", what)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
