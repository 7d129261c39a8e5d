package zkclient

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// WatchKind is what a watcher is notified of.
type WatchKind uint8

// What happened, as far as a watcher is notified.
const (
	WatchChanged WatchKind = iota // the node was written or created, or a child came or went
	WatchDeleted                  // the node is gone
	WatchLost                     // the watch may have missed something: read again
)

// A Watcher wants to know of changes of a node. It is called on the library's
// own goroutine and must not block.
type Watcher func(WatchKind)

// watchTable keeps at most one watch of a kind at the server for each path,
// however many watchers it has: go-zookeeper cannot take a watch back, so one a
// look would pile up. Watches are hints, reads decide.
type watchTable struct {
	mu      sync.Mutex
	entries map[watchKey]*watchEntry
	library map[watchKey]libraryWatch
	prune   int // with more of those, the ones that have ended are removed
}

// A libraryWatch is a watch that go-zookeeper registers again after each reconnect.
// The event that ends the watch closes it.
type libraryWatch <-chan zk.Event

func (w libraryWatch) stands() bool {
	select {
	case <-w:
		return false
	default:
		return w != nil
	}
}

// watchKey is what a watch is on: a node, or the list of its children.
type watchKey struct {
	path     string
	children bool
}

type watchEntry struct {
	armed   bool // a watch stands at the server
	pending int  // requests under way that will arm it
	changes int  // counts what was told, so that a look knows if it was overtaken
	readers map[*Watcher]struct{}
}

func newWatchTable() watchTable {
	return watchTable{entries: make(map[watchKey]*watchEntry), library: make(map[watchKey]libraryWatch)}
}

// Look reads a node and registers w for its next change. w stays registered
// until Unwatch, the node's deletion included.
func (s *Session) Look(ctx context.Context, path string, w *Watcher) ([]byte, *zk.Stat, error) {
	r, err := lookWith(ctx, s, watchKey{path: path}, w,
		func(c *zk.Conn) (NodeData, error) { return s.read(c, path) },
		func(c *zk.Conn) (NodeData, libraryWatch, error) {
			data, stat, watch, err := c.GetW(path)
			return NodeData{data, stat}, watch, err
		})
	return r.Data, r.Stat, err
}

// LookFor asks whether a node exists and registers w for its next change, its
// creation included. The watch on a node that is not there cannot be taken
// back, so LookFor is for nodes that come, or of which there are few.
func (s *Session) LookFor(ctx context.Context, path string, w *Watcher) (bool, *zk.Stat, error) {
	r, err := lookWith(ctx, s, watchKey{path: path}, w,
		func(c *zk.Conn) (r nodePresence, err error) {
			r.there, r.stat, err = c.Exists(path)
			return r, err
		},
		func(c *zk.Conn) (r nodePresence, watch libraryWatch, err error) {
			r.there, r.stat, watch, err = c.ExistsW(path)
			return r, watch, err
		})
	return r.there, r.stat, err
}

// LookAtChildren lists the children of a node and registers w for the next that
// comes or goes, and for the node's deletion. w stays registered until
// UnwatchChildren.
func (s *Session) LookAtChildren(ctx context.Context, path string, w *Watcher) ([]string, *zk.Stat, error) {
	r, err := lookWith(ctx, s, watchKey{path: path, children: true}, w,
		func(c *zk.Conn) (nodeList, error) { return s.readList(c, path) },
		func(c *zk.Conn) (nodeList, libraryWatch, error) {
			names, stat, watch, err := c.ChildrenW(path)
			return nodeList{names, stat}, watch, err
		})
	return r.names, r.stat, err
}

// lookWith reads, and arms the watch unless it stands already.
func lookWith[T any](
	ctx context.Context, s *Session, key watchKey, w *Watcher,
	read func(*zk.Conn) (T, error), readAndWatch func(*zk.Conn) (T, libraryWatch, error),
) (T, error) {
	t := &s.watches
	t.mu.Lock()
	t.entry(key).readers[w] = struct{}{}
	t.mu.Unlock()

	r, err := call(ctx, s, func(c *zk.Conn) (T, error) {
		t.mu.Lock()
		e := t.entry(key)
		changes, armed := e.changes, e.armed
		if !armed {
			e.pending++
		}
		t.mu.Unlock()
		if armed {
			return read(c)
		}
		r, watch, err := readAndWatch(c)
		t.mu.Lock()
		defer t.mu.Unlock()
		e.pending--
		if err == nil && e.changes == changes {
			e.armed = true
		}
		if err == nil {
			t.keep(key, watch)
		}
		t.sweep(key, e)
		return r, err
	})
	return r, denied(err, key.path, PermissionRead)
}

// keep notes a watch that the library has set. An event that came since may be
// older, and then the watch stands; if it was newer, the watch has ended or is about to.
func (t *watchTable) keep(key watchKey, watch libraryWatch) {
	if !watch.stands() {
		return
	}
	if t.library[key] = watch; len(t.library) > t.prune {
		t.prune = 2*t.standing() + 100
	}
}

// standing forgets the watches that have ended, and counts the others.
func (t *watchTable) standing() int {
	maps.DeleteFunc(t.library, func(_ watchKey, w libraryWatch) bool { return !w.stands() })
	return len(t.library)
}

// entry returns what is known of a key. The caller holds t.mu, and gives the
// entry a reason to stay.
func (t *watchTable) entry(key watchKey) *watchEntry {
	e := t.entries[key]
	if e == nil {
		e = &watchEntry{readers: make(map[*Watcher]struct{}, 1)}
		t.entries[key] = e
	}
	return e
}

// Unwatch removes w from the watchers of a node.
func (s *Session) Unwatch(path string, w *Watcher) { s.watches.forget(watchKey{path: path}, w) }

// UnwatchChildren removes w from the watchers of a node's children.
func (s *Session) UnwatchChildren(path string, w *Watcher) {
	s.watches.forget(watchKey{path: path, children: true}, w)
}

func (t *watchTable) forget(key watchKey, w *Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[key]; e != nil {
		delete(e.readers, w)
		t.sweep(key, e)
	}
}

// sweep forgets an entry that stands for nothing.
func (t *watchTable) sweep(key watchKey, e *watchEntry) {
	if !e.armed && e.pending == 0 && len(e.readers) == 0 && t.entries[key] == e {
		delete(t.entries, key)
	}
}

func (t *watchTable) fire(ev zk.Event) {
	kind := WatchChanged
	keys := []watchKey{{path: ev.Path}}
	switch ev.Type { //nolint:exhaustive // all others say that the node has changed
	case zk.EventNodeDeleted:
		kind = WatchDeleted
		keys = append(keys, watchKey{path: ev.Path, children: true})
	case zk.EventNotWatching:
		kind = WatchLost
		keys = append(keys, watchKey{path: ev.Path, children: true})
	case zk.EventNodeChildrenChanged:
		keys[0].children = true
	}
	var told []*Watcher
	t.mu.Lock()
	for _, key := range keys {
		if ev.Type != zk.EventNodeCreated { // that ends no watch of data, which may stand as well
			delete(t.library, key)
		}
		if e := t.entries[key]; e != nil {
			told = append(told, e.tell()...)
			t.sweep(key, e)
		}
	}
	t.mu.Unlock()
	for _, w := range told {
		(*w)(kind)
	}
}

func (e *watchEntry) tell() []*Watcher {
	e.armed = false
	e.changes++
	told := make([]*Watcher, 0, len(e.readers))
	for w := range e.readers {
		told = append(told, w)
	}
	return told
}

// disconnected: what was armed may have fired unseen.
func (t *watchTable) disconnected() { t.reset(false) }

// reconnected makes every watcher read again.
func (t *watchTable) reconnected() { t.reset(true) }

func (t *watchTable) reset(tell bool) {
	t.mu.Lock()
	var told []*Watcher
	for key, e := range t.entries {
		told = append(told, e.tell()...)
		t.sweep(key, e)
	}
	t.mu.Unlock()
	if tell {
		for _, w := range told {
			(*w)(WatchLost)
		}
	}
}

// FireIdleChildren makes a watch on a list fire that is no longer needed: a
// child comes and goes in one transaction, which is visible only as an event.
// go-zookeeper cannot take a watch back.
func (s *Session) FireIdleChildren(ctx context.Context, path string) {
	for s.watches.idle(watchKey{path: path, children: true}) {
		child := path + "/watched-" + znode.NewGUID()
		_, _, err := s.Multi(ctx,
			&zk.CreateRequest{Path: child, Acl: s.c.who().acl, Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: child, Version: -1})
		if !errors.Is(err, ErrAmbiguous) { // else the watch is set again with the connection
			return
		}
	}
}

// idle reports whether a watch stands at the server without a watcher, or will
// when the connection is back: the library registers it again.
func (t *watchTable) idle(key watchKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	if e == nil {
		return t.library[key].stands()
	}
	return e.armed && len(e.readers) == 0
}

// WatchIdle reports whether a watch on a node stands without a watcher.
func (s *Session) WatchIdle(path string) bool { return s.watches.idle(watchKey{path: path}) }

// resends reports whether the library has watches to register again.
func (t *watchTable) resends() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.standing() > 0
}
