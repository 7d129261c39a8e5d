package steps

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// tables are what a client keeps of requests and holds. All of it has to be
// forgotten when they are over. Nothing tells of it in public, so it is looked at
// from within; a table that is renamed fails every case.
var tables = []string{
	"waiting",                 // requests, by scope
	"backlog.n",               // what goes on in the background
	"current.tenants",         // holds
	"current.watches.entries", // who wants to hear of what
	"current.conn.requests",   // what the library waits for
	"current.link.sent",       // what is not answered

	"current.attached.lateWatches.live", // holds whose watch is not armed yet
}

// inventory tells which tables of a client are not empty.
func inventory(name string, c *lock.Client) (left []string) {
	for _, table := range tables {
		if n := size(reflect.ValueOf(c.Client).Elem(), strings.Split(table, ".")); n != 0 {
			left = append(left, fmt.Sprintf("%d in %s of %s", n, table, name))
		}
	}
	return left
}

// size follows a path of fields, each under the lock of its struct.
func size(v reflect.Value, path []string) int {
	lock := v.FieldByName("mu")
	if path[0] == "requests" {
		lock = v.FieldByName("requestsLock") // the library's
	}
	if lock.IsValid() {
		mu := (*sync.Mutex)(lock.Addr().UnsafePointer())
		mu.Lock()
		defer mu.Unlock()
	}
	if v.Type().Name() == "attachments" {
		if v = attached(v, path[0]); !v.IsValid() { // not read yet
			return 0
		}
		return size(v, path[1:])
	}
	v = v.FieldByName(path[0])
	if v.Kind() == reflect.Pointer {
		if v.IsNil() { // a session that has just begun has no connection yet
			return 0
		}
		v = v.Elem()
	}
	switch {
	case len(path) > 1:
		return size(v, path[1:])
	case v.Kind() == reflect.Int:
		return int(v.Int())
	default:
		return v.Len()
	}
}

// A table that is attached when it is first asked for, and renamed, would be found empty for ever.
func TestAHoldWhoseWatchIsNotArmedYetIsOnTheInventory(t *testing.T) {
	z := zktest.RunT(t)
	c := harness.NewClient(t, lock.Config{Servers: []string{z.Addr()}})
	l, err := c.PriorityLock("users")
	require.NoError(t, err)
	harness.Eventually(t, func() bool { // a machine that is busy may look too late
		g, err := l.Acquire(t.Context(), lock.Request{})
		require.NoError(t, err)
		left := strings.Join(inventory("client", c), "; ")
		require.NoError(t, g.Release(t.Context()))
		return strings.Contains(left, "1 in current.tenants of client") && strings.Contains(left, "1 in current.attached.lateWatches.live of client")
	}, "the hold is not on the inventory")
}

// attached is the value of a type that is attached to a client or a session.
func attached(v reflect.Value, name string) (found reflect.Value) {
	(*sync.Map)(v.FieldByName("m").Addr().UnsafePointer()).Range(func(key, value any) bool {
		if key.(reflect.Type).Name() == name {
			found = reflect.ValueOf(value).Elem()
		}
		return true
	})
	return found
}
