package steps

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// tables are what a client keeps of requests and holds. All of it has to be
// forgotten when they are over. Nothing tells of it in public, so it is looked at
// from within; a table that is renamed fails every case.
var tables = []string{
	"waiting",                 // requests, by scope
	"backlog.n",               // what goes on in the background
	"current.tenants",         // holds
	"current.watches.entries", // who wants to hear of what
	"current.late.live",       // holds whose watch is not armed yet
	"current.conn.requests",   // what the library waits for
	"current.link.sent",       // what is not answered
}

// inventory tells which tables of a client are not empty.
func inventory(name string, c *recipes.Client) (left []string) {
	for _, table := range tables {
		if n := size(reflect.ValueOf(c).Elem(), strings.Split(table, ".")); n != 0 {
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
	v = v.FieldByName(path[0])
	if v.Kind() == reflect.Pointer {
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
