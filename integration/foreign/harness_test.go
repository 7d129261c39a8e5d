package foreign

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var (
	shared  testbed.Shared
	program string // its path
)

func TestMain(m *testing.M) {
	os.Exit(harness.WithProgram(func(path string) int {
		program = path
		return shared.Main(m, func() error { return goleak.Find() })
	}))
}

const scope = "users"

var world = harness.WorldACL

// fixture has a lock that was held once, and a shell that writes there past all clients.
type fixture struct{ *harness.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	h := &fixture{harness.New(t, shared.Server(t))}
	h.hold(h.Client(), "first").Release() // makes the lock's node
	return h
}

// lockNode is the node of a scope.
func (h *fixture) lockNode(scope string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(scope))
	return fmt.Sprintf("%s/locks/%02x/%s", h.Root, hash.Sum32()&0xff, scope)
}

func (h *fixture) node() string { return h.lockNode(scope) }

// request is the name of a request's node: the nth, at a priority.
func request(priority, n int) string {
	return fmt.Sprintf("%010d-x-%s-%010d", 2147483647-priority, guid(n), n)
}

func guid(n int) string { return fmt.Sprintf("%024x", n) }

// paths are those of nodes that a list has left out.
func paths(left []lock.Unreadable) []string {
	all := make([]string, len(left))
	for i, u := range left {
		all[i] = u.Path
	}
	return all
}

func (h *fixture) put(path, data string, flags int32, acl []zk.ACL) {
	h.Helper()
	h.Create(path, []byte(data), flags, acl...)
}

func (h *fixture) read(path string) (string, *zk.Stat) {
	h.Helper()
	data, stat := h.Get(path)
	return string(data), stat
}

// own returns the path of a request's node.
func (h *fixture) own(id string) string {
	h.Helper()
	names := h.Children(h.node())
	i := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, id) })
	require.GreaterOrEqual(h, i, 0, "no node of %s in %q", id, names)
	return h.node() + "/" + names[i]
}

func (h *fixture) state() lock.State {
	h.Helper()
	return h.State(h.Client(), scope)
}

// ask requests the lock in the background, and hold until it is granted.
func (h *fixture) ask(c *lock.Client, owner string, options ...harness.Option) *harness.Request {
	h.Helper()
	return h.Acquire(h.Lock(c, scope), owner, options...)
}

func (h *fixture) hold(c *lock.Client, owner string, options ...harness.Option) *harness.Request {
	h.Helper()
	return h.Hold(h.Lock(c, scope), owner, options...)
}

// works takes the lock in every way, one client after the other, and gives it
// back: a try, a queue of three, readers beside each other.
func (h *fixture) works() {
	h.Helper()
	a, b := h.Client(), h.Client()
	h.hold(a, "try", harness.Try).Release()
	first := h.hold(a, "holder")
	second, third := h.ask(b, "second"), h.ask(a, "third")
	second.Queued()
	first.Release()
	select { // whichever was first in the queue
	case <-second.Done():
	case <-third.Done():
		second, third = third, second
	case <-time.After(harness.Patience):
	}
	second.Release()
	third.Release()
	one, two := h.hold(a, "reader", harness.Shared), h.hold(b, "another", harness.Shared)
	last := h.ask(b, "writer")
	last.Queued()
	one.Release()
	two.Release()
	last.Release()
	h.hold(b, "try again", harness.Try).Release()
}

// fields returns what a node says.
func (h *fixture) fields(path string) map[string]any {
	h.Helper()
	data, _ := h.read(path)
	var all map[string]any
	require.NoError(h, json.Unmarshal([]byte(data), &all), data)
	return all
}
