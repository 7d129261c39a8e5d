package ticks

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// tickServer is a ZooKeeper of the few operations that a ledger needs.
type tickServer struct {
	mu    sync.Mutex
	now   time.Time // the server's clock; one second more with each write
	nodes map[string]*tickNode
	moved chan struct{} // closed at the next change of anything
}

type tickNode struct {
	data    []byte
	version int32
	ctime   int64
	mtime   int64
	session *tickSession // of an ephemeral
}

func newTickServer() *tickServer {
	s := &tickServer{now: time.Unix(1_000_000, 0), nodes: map[string]*tickNode{}, moved: make(chan struct{})}
	s.nodes["/lk"] = &tickNode{}
	return s
}

// tickSession is one client's way to the server, with its faults.
type tickSession struct {
	server *tickServer
	fault  func() fault // asked once for each transaction
	onList func()       // called before the next list
	after  func()       // called when a transaction was executed whose reply is lost; nil: nothing
	clock  func() time.Time
	giveUp func() // what the caller does who waits for an answer in vain; nil: he waits for the end of his context

	requests atomic.Int64
}

type fault int

const (
	none       fault = iota
	lostBefore       // the request never arrives, the caller does not know
	lostAfter        // the reply never arrives
	down             // no answer until the caller gives up; the request never arrives
	late             // as down, but the request arrives
)

func (s *tickServer) session() *tickSession { return &tickSession{server: s} }

// expire ends the session: a new one takes its place in the client.
func (s *tickServer) expire(old *tickSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, n := range s.nodes {
		if n.session == old {
			delete(s.nodes, path)
		}
	}
	s.changed()
}

// changed wakes all that wait. The caller holds s.mu.
func (s *tickServer) changed() {
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *tickServer) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[path] != nil
}

func (s *tickServer) markers() (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.nodes {
		if strings.Contains(path, "/run-") {
			paths = append(paths, path)
		}
	}
	return paths
}

func (c *tickSession) Get(ctx context.Context, path string) ([]byte, *zkclient.Stat, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.requests.Add(1)
	n := c.server.nodes[path]
	if n == nil {
		return nil, nil, zkclient.ErrNoNode
	}
	return n.data, n.stat(), ctx.Err()
}

func (n *tickNode) stat() *zkclient.Stat {
	return &zkclient.Stat{Version: n.version, Ctime: n.ctime, Mtime: n.mtime}
}

func (c *tickSession) List(ctx context.Context, path string) ([]string, *zkclient.Stat, error) {
	if before := c.onList; before != nil {
		c.onList = nil
		before()
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.requests.Add(1)
	n := c.server.nodes[path]
	if n == nil {
		return nil, nil, zkclient.ErrNoNode
	}
	return c.server.children(path), n.stat(), ctx.Err()
}

func (s *tickServer) children(path string) (names []string) {
	for p := range s.nodes {
		if name, ok := strings.CutPrefix(p, path+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

func (c *tickSession) Await(ctx context.Context, path string, children bool, see func(zkclient.NodeSight) (bool, error)) error {
	for {
		s := c.server
		s.mu.Lock()
		moved := s.moved
		var sight zkclient.NodeSight
		if n := s.nodes[path]; n != nil {
			sight = zkclient.NodeSight{Data: n.data, Stat: n.stat()}
			if children {
				sight.Names = s.children(path)
			}
		}
		s.mu.Unlock()
		if done, err := see(sight); done || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *tickSession) Ensure(_ context.Context, path string) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.nodes[path] == nil {
		c.server.nodes[path] = &tickNode{}
	}
	return nil
}

func (c *tickSession) Create(_ context.Context, path string, data []byte, flags int32) (string, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.nodes[path] != nil {
		return "", zkclient.ErrNodeExists
	}
	if parent := path[:strings.LastIndexByte(path, '/')]; c.server.nodes[parent] == nil && parent != "/lk/ticks" {
		return "", zkclient.ErrNoNode
	}
	now := c.server.now.UnixMilli()
	c.server.nodes[path] = &tickNode{data: data, ctime: now, mtime: now}
	if flags&zkclient.FlagEphemeral != 0 {
		c.server.nodes[path].session = c
	}
	c.server.changed()
	return path, nil
}

// ServerTime is not known unless a test says so: most claim ticks of any year.
func (c *tickSession) ServerTime() (zkclient.ServerTime, bool) {
	if c.clock == nil {
		return zkclient.ServerTime{}, false
	}
	now := c.clock()
	return zkclient.ServerTime{Earliest: now, Latest: now}, true
}

func (c *tickSession) AwaitServerTime(context.Context) error { return nil }

func (c *tickSession) Unavailable() *zkclient.UnavailableError {
	return &zkclient.UnavailableError{Servers: []string{"zk1:2181"}, Since: time.Second}
}

func (c *tickSession) Multi(ctx context.Context, ops ...any) ([]zkclient.MultiResponse, error) {
	c.requests.Add(1)
	f := none
	if c.fault != nil {
		f = c.fault()
	}
	var replies []zkclient.MultiResponse
	var err error
	if f != lostBefore && f != down {
		replies, err = c.commit(ops...)
	}
	switch f {
	case lostBefore, lostAfter:
		if f == lostAfter && c.after != nil {
			c.after()
			c.after = nil
		}
		return nil, fmt.Errorf("%w: broken pipe", zkclient.ErrAmbiguous)
	case down, late:
		if c.giveUp != nil {
			c.giveUp()
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case none:
	}
	return replies, err
}

func (c *tickSession) commit(ops ...any) ([]zkclient.MultiResponse, error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(time.Second)
	now := s.now.UnixMilli()
	nodes := maps.Clone(s.nodes)
	replies := make([]zkclient.MultiResponse, len(ops))
	for i, op := range ops {
		switch op := op.(type) {
		case *zkclient.SetDataRequest:
			n := nodes[op.Path]
			if n == nil {
				return nil, zkclient.ErrNoNode
			} else if n.version != op.Version {
				return nil, zkclient.ErrBadVersion
			}
			written := &tickNode{data: op.Data, version: n.version + 1, ctime: n.ctime, mtime: now, session: n.session}
			nodes[op.Path] = written
			replies[i].Stat = written.stat()
		case *zkclient.DeleteRequest:
			if nodes[op.Path] == nil {
				return nil, zkclient.ErrNoNode
			}
			delete(nodes, op.Path)
		case *zkclient.CreateRequest:
			if nodes[op.Path] != nil {
				return nil, zkclient.ErrNodeExists
			}
			nodes[op.Path] = &tickNode{data: op.Data, session: c, ctime: now, mtime: now}
		}
	}
	s.nodes = nodes
	s.changed()
	return replies, nil
}

func (s *tickServer) ledger(owner string) (*Ledger, *tickSession) {
	c := s.session()
	return newTickLedger(c, "/lk", nil, tickOwner{Ledger: znode.NewGUID(), Owner: owner, Host: "h", PID: 1}), c
}

var tick0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return tick0.Add(time.Duration(seconds) * time.Second) }

// next makes a fault happen at the n-th transaction from now on, from 0.
func (c *tickSession) next(n int, f fault) {
	c.fault = func() fault {
		n--
		if n == -1 {
			return f
		}
		return none
	}
}

func claimed(t *testing.T, l *Ledger, instant time.Time) Run {
	t.Helper()
	claim, err := l.Claim(t.Context(), "job", instant, Ask{})
	require.NoError(t, err)
	require.Equal(t, Claimed, claim.Verdict)
	return claim.Run
}

// finish is Finish for those who care about its error alone.
func finish(ctx context.Context, l *Ledger, run Run, end End) error {
	_, err := l.Finish(ctx, run, end)
	return err
}

func latest(t *testing.T, l *Ledger) Result {
	t.Helper()
	s := state(t, l)
	require.NotEmpty(t, s.History)
	return *s.Latest()
}

func state(t *testing.T, l *Ledger) State {
	t.Helper()
	s, err := l.State(t.Context(), "job")
	require.NoError(t, err)
	return s
}

// soon returns a context that ends; only in a bubble, where nothing takes time
// but waiting, is that after all that could be done was done.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}
