package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// soon is how long anything that must happen may take on a busy machine.
const soon = 60 * time.Second

const scope = "users"

// A house is a root of its own on the shared server, and somebody who writes
// there past all clients.
type house struct {
	t     *testing.T
	root  string
	shell *zk.Conn
}

func newHouse(t *testing.T) *house {
	t.Helper()
	t.Parallel()
	h := &house{t: t, root: testbed.Root(t), shell: testbed.Shell(t, shared.Server(t))}
	client := h.client() // makes the lock's node
	hold := h.hold(client, "first")
	hold.release()
	return h
}

// client connects a client that is closed at the end.
func (h *house) client() *recipes.Client {
	h.t.Helper()
	c, err := recipes.NewClient(recipes.Config{Servers: []string{shared.Server(h.t).Addr()}, Root: h.root, SessionTimeout: 20 * time.Second})
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil && !h.t.Failed() {
			require.NoError(h.t, err, "close the client")
		}
	})
	return c
}

// lockNode is the node of a scope.
func (h *house) lockNode(scope string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(scope))
	return fmt.Sprintf("%s/locks/%02x/%s", h.root, hash.Sum32()&0xff, scope)
}

func (h *house) node() string { return h.lockNode(scope) }

// request is the name of a contender's node: the nth, at a priority.
func request(priority, n int) string {
	return fmt.Sprintf("%010d-x-%s-%010d", 2147483647-priority, guid(n), n)
}

func guid(n int) string { return fmt.Sprintf("%024x", n) }

// paths are those of nodes that a list has left out.
func paths(left []recipes.Unreadable) []string {
	all := make([]string, len(left))
	for i, u := range left {
		all[i] = u.Path
	}
	return all
}

var world = zk.WorldACL(zk.PermAll)

// put creates a node, and whatever is missing above it.
func (h *house) put(path, data string, flags int32, acl []zk.ACL) {
	h.t.Helper()
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			_, err := h.shell.Create(path[:i], nil, 0, world)
			if err != nil {
				require.ErrorIs(h.t, err, zk.ErrNodeExists)
			}
		}
	}
	_, err := h.shell.Create(path, []byte(data), flags, acl)
	require.NoError(h.t, err, path)
}

func (h *house) write(path, data string) {
	h.t.Helper()
	_, err := h.shell.Set(path, []byte(data), -1)
	require.NoError(h.t, err)
}

func (h *house) read(path string) (string, *zk.Stat) {
	h.t.Helper()
	data, stat, err := h.shell.Get(path)
	require.NoError(h.t, err)
	return string(data), stat
}

// own returns the path of a request's node.
func (h *house) own(id string) string {
	h.t.Helper()
	names, _, err := h.shell.Children(h.node())
	require.NoError(h.t, err)
	i := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, id) })
	require.GreaterOrEqual(h.t, i, 0, "no node of %s in %q", id, names)
	return h.node() + "/" + names[i]
}

func (h *house) state() recipes.LockState {
	h.t.Helper()
	s, err := h.client().Lock(h.t.Context(), scope)
	require.NoError(h.t, err)
	return s
}

// A user is one request, and then its grant.
type user struct {
	h     *house
	owner string
	done  chan struct{}
	told  chan recipes.Notice
	grant *recipes.Grant
	err   error
}

// ask requests the lock in the background. It is released at the end.
func (h *house) ask(c *recipes.Client, owner string, change ...func(*recipes.Request)) *user {
	h.t.Helper()
	l, err := c.PriorityLock(scope)
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	u := &user{h: h, owner: owner, done: make(chan struct{}), told: make(chan recipes.Notice, 1000)}
	r := recipes.Request{Owner: owner, Notify: func(n recipes.Notice) { u.told <- n }}
	for _, f := range change {
		f(&r)
	}
	go func() {
		defer close(u.done)
		u.grant, u.err = l.Acquire(ctx, r)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-u.done
		if u.grant != nil {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			_ = u.grant.Release(ctx)
		}
	})
	return u
}

func try(r *recipes.Request)    { r.AcquireTimeout = new(time.Duration(0)) }
func reader(r *recipes.Request) { r.Mode = 1 }
func boss(r *recipes.Request)   { r.Priority = 9 }

func (h *house) hold(c *recipes.Client, owner string, change ...func(*recipes.Request)) *user {
	h.t.Helper()
	u := h.ask(c, owner, change...)
	u.granted()
	return u
}

func (u *user) ended() {
	u.h.t.Helper()
	select {
	case <-u.done:
	case <-time.After(soon):
		require.FailNow(u.h.t, u.owner+"'s request has not ended")
	}
}

func (u *user) granted() *recipes.Grant {
	u.h.t.Helper()
	u.ended()
	require.NoError(u.h.t, u.err, "%s's request", u.owner)
	return u.grant
}

func (u *user) refused() error {
	u.h.t.Helper()
	u.ended()
	require.Error(u.h.t, u.err, "%s's request was granted", u.owner)
	return u.err
}

func (u *user) release() {
	u.h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(u.h.t, u.granted().Release(ctx), "%s's release", u.owner)
}

// waits fails the test unless the request still waits.
func (u *user) waits() {
	u.h.t.Helper()
	select {
	case <-u.done:
		require.FailNow(u.h.t, u.owner+"'s request does not wait any more", "error: %v", u.err)
	default:
	}
}

// await waits for the next notice of a kind.
func await[N recipes.Notice](u *user) N {
	u.h.t.Helper()
	deadline := time.After(soon)
	for {
		select {
		case n := <-u.told:
			if x, ok := n.(N); ok {
				return x
			}
		case <-deadline:
			var none N
			require.FailNow(u.h.t, fmt.Sprintf("%s was not told %T", u.owner, none))
		}
	}
}

// works takes the lock in every way, one client after the other, and gives it
// back: a try, a queue of three, readers beside each other.
func (h *house) works() {
	h.t.Helper()
	a, b := h.client(), h.client()
	h.hold(a, "try", try).release()
	first := h.hold(a, "holder")
	second, third := h.ask(b, "second"), h.ask(a, "third")
	await[recipes.Queued](second)
	first.release()
	ended := make(chan *user, 2)
	for _, u := range []*user{second, third} {
		go func() { <-u.done; ended <- u }()
	}
	for range 2 {
		select {
		case u := <-ended:
			u.release()
		case <-time.After(soon):
			require.FailNow(h.t, "nobody was granted")
		}
	}
	one, two := h.hold(a, "reader", reader), h.hold(b, "another", reader)
	last := h.ask(b, "writer")
	await[recipes.Queued](last)
	one.release()
	two.release()
	last.granted()
	last.release()
	h.hold(b, "try again", try).release()
}

// fields returns what a node says.
func (h *house) fields(path string) map[string]any {
	h.t.Helper()
	data, _ := h.read(path)
	var all map[string]any
	require.NoError(h.t, json.Unmarshal([]byte(data), &all), data)
	return all
}

type silent struct{}

func (silent) Printf(string, ...any) {}
