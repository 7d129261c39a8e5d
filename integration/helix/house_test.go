package helix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// scope is what everybody wants.
const scope = "users"

// A house is a root of its own on the shared server, and the story of a test.
type house struct {
	t      testing.TB
	server testbed.Server
	root   string
	story  *story

	onlooker func() *recipes.Client
	shell    func() *zk.Conn
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, server: shared.Server(t), root: testbed.Root(t), story: newStory(t)}
	h.onlooker = sync.OnceValue(func() *recipes.Client { return h.client() })
	h.shell = sync.OnceValue(func() *zk.Conn { return testbed.Shell(t, h.server) })
	return h
}

// client connects a client that is closed at the end. Its session lasts a
// minute unless change says otherwise: far longer than anything may take.
func (h *house) client(change ...func(*recipes.Config)) *recipes.Client {
	h.t.Helper()
	cfg := recipes.Config{Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: time.Minute, ConnectTimeout: soon}
	for _, f := range change {
		f(&cfg)
	}
	c, err := recipes.NewClient(cfg)
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil && !h.t.Failed() {
			require.ErrorIs(h.t, err, recipes.ErrClosed, "close the client")
		}
	})
	return c
}

// mortal is how long a session lasts that a test ends at the server. Once in a
// while the server forgets to hang up then, and the client finds it out alone.
const mortal = 8 * time.Second

func session(d time.Duration) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.SessionTimeout = d }
}

// state reads the lock as an onlooker does.
func (h *house) state() recipes.LockState {
	h.t.Helper()
	state, err := h.onlooker().Lock(h.t.Context(), scope)
	require.NoError(h.t, err)
	return state
}

// holder reads who has the lock: "" when nobody does.
func (h *house) holder() string {
	h.t.Helper()
	return strings.Join(owners(h.state().Holders), " and ")
}

// waiters reads who stands in the queue, the next one first.
func (h *house) waiters() []string {
	h.t.Helper()
	return owners(h.state().Waiters)
}

func owners(contenders []recipes.Contender) []string {
	names := make([]string, 0, len(contenders))
	for _, c := range contenders {
		names = append(names, c.Owner)
	}
	return names
}

// A record is what one node says, and what shows that it or its children were
// touched.
type record struct {
	data     string
	session  int64 // 0 for a node that belongs to none
	created  int64 // zxids
	written  int64
	children int64 // when one came or went
}

// records reads every node of every lock, as it is.
func (h *house) records() map[string]record {
	h.t.Helper()
	all := map[string]record{}
	var walk func(path string)
	walk = func(path string) {
		data, stat, err := h.shell().Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			return
		}
		require.NoError(h.t, err, path)
		all[path] = record{string(data), stat.EphemeralOwner, stat.Czxid, stat.Mzxid, stat.Pzxid}
		names, _, err := h.shell().Children(path)
		if errors.Is(err, zk.ErrNoNode) {
			return
		}
		require.NoError(h.t, err, path)
		for _, name := range names {
			walk(path + "/" + name)
		}
	}
	walk(h.root + "/locks")
	return all
}

// unchanged does something that must leave every record as it was.
func (h *house) unchanged(do func()) {
	h.t.Helper()
	before := h.records()
	do()
	require.Equal(h.t, before, h.records(), "a record was touched")
}

// contenders lists the nodes of the requests that are there.
func (h *house) contenders() []string {
	h.t.Helper()
	var paths []string
	for path, r := range h.records() {
		if r.session != 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// empties waits until nobody is at the lock any more.
func (h *house) empties() {
	h.t.Helper()
	h.eventually("requests are left at the server", func() bool { return len(h.contenders()) == 0 })
}

// eventually waits for a condition that no event tells of.
func (h *house) eventually(otherwise string, holds func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(soon); !holds(); <-time.After(2 * time.Millisecond) {
		require.True(h.t, time.Now().Before(deadline), otherwise)
	}
}

// evict deletes a request's node, as an administrator may.
func (h *house) evict(id string) {
	h.t.Helper()
	for path := range h.records() {
		if strings.Contains(path, id) {
			require.NoError(h.t, h.shell().Delete(path, -1))
			h.story.tell("admin", "deleted %s", path[strings.LastIndexByte(path, '/')+1:])
			return
		}
	}
	require.FailNow(h.t, "no node", "request %s", id)
}

// evictHolder deletes the node of whoever has the lock.
func (h *house) evictHolder() {
	h.t.Helper()
	holders := h.state().Holders
	require.Len(h.t, holders, 1)
	h.evict(holders[0].ID)
}

// expire ends the session of a client at the server.
func (h *house) expire(c *recipes.Client) {
	h.t.Helper()
	id, password := c.Session()
	require.NotZero(h.t, id)
	require.NoError(h.t, h.server.Expire(h.t.Context(), id, password))
	h.story.tell("server", "session 0x%x expired", uint64(id))
}

// A story is what happened in a test, printed when it fails.
type story struct {
	start time.Time
	mu    sync.Mutex
	lines []string
}

func newStory(t testing.TB) *story {
	t.Helper()
	s := &story{start: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("what happened:\n%s", strings.Join(s.lines[max(0, len(s.lines)-200):], "\n"))
		}
	})
	return s
}

func (s *story) tell(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%8.3fs %-12s %s", time.Since(s.start).Seconds(), who, fmt.Sprintf(format, args...)))
}
