package recipes

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"
)

// watchKind is what a watcher is told.
type watchKind uint8

const (
	watchChanged watchKind = iota // the node's data was written
	watchDeleted                  // the node is gone
	watchLost                     // the watch may have missed something: read again
)

// A watcher wants to know of changes of a node. It is called on the library's
// own goroutine and must not block.
type watcher func(watchKind)

// watchTable keeps at most one watch at the server for each path, whoever is
// interested in it: go-zookeeper cannot take a watch back, so one a look would
// pile up. Watches are hints, reads decide.
type watchTable struct {
	mu      sync.Mutex
	entries map[string]*watchEntry
	library map[string]struct{} // paths that go-zookeeper registers again after a reconnect
}

type watchEntry struct {
	armed   bool // a watch stands at the server
	pending int  // requests under way that will arm it
	changes int  // counts what was told, so that a look knows if it was overtaken
	fired   int  // counts events alone
	readers map[*watcher]struct{}
}

// look reads a node and makes w hear of its next change. w stays registered
// until unwatch, the node's deletion included.
func (s *session) look(ctx context.Context, path string, w *watcher) ([]byte, *zk.Stat, error) {
	t := &s.watches
	t.mu.Lock()
	t.entry(path).readers[w] = struct{}{}
	t.mu.Unlock()

	r, err := call(ctx, s, func(c *zk.Conn) (nodeData, error) {
		t.mu.Lock()
		e := t.entry(path)
		changes, fired, armed := e.changes, e.fired, e.armed
		if !armed {
			e.pending++
		}
		t.mu.Unlock()
		if armed {
			data, stat, err := c.Get(path)
			return nodeData{data, stat}, err
		}
		data, stat, _, err := c.GetW(path)
		t.mu.Lock()
		defer t.mu.Unlock()
		e.pending--
		if err == nil && e.changes == changes {
			e.armed = true
		}
		if err == nil && e.fired == fired {
			t.library[path] = struct{}{}
		}
		t.sweep(path, e)
		return nodeData{data, stat}, err
	})
	return r.data, r.stat, denied(err, path)
}

// entry returns what is known of path. The caller holds t.mu, and gives the
// entry a reason to stay.
func (t *watchTable) entry(path string) *watchEntry {
	e := t.entries[path]
	if e == nil {
		e = &watchEntry{readers: make(map[*watcher]struct{}, 1)}
		t.entries[path] = e
	}
	return e
}

// unwatch makes w hear no more of path.
func (s *session) unwatch(path string, w *watcher) {
	t := &s.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[path]; e != nil {
		delete(e.readers, w)
		t.sweep(path, e)
	}
}

// sweep forgets an entry that stands for nothing.
func (t *watchTable) sweep(path string, e *watchEntry) {
	if !e.armed && e.pending == 0 && len(e.readers) == 0 && t.entries[path] == e {
		delete(t.entries, path)
	}
}

func (t *watchTable) fire(ev zk.Event) {
	kind := watchChanged
	switch ev.Type { //nolint:exhaustive // all others say that the node has changed
	case zk.EventNodeDeleted:
		kind = watchDeleted
	case zk.EventNotWatching:
		kind = watchLost
	}
	t.mu.Lock()
	delete(t.library, ev.Path)
	e := t.entries[ev.Path]
	if e == nil {
		t.mu.Unlock()
		return
	}
	e.fired++
	told := e.tell()
	t.sweep(ev.Path, e)
	t.mu.Unlock()
	for _, w := range told {
		(*w)(kind)
	}
}

func (e *watchEntry) tell() []*watcher {
	e.armed = false
	e.changes++
	told := make([]*watcher, 0, len(e.readers))
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
	var told []*watcher
	for path, e := range t.entries {
		told = append(told, e.tell()...)
		t.sweep(path, e)
	}
	t.mu.Unlock()
	if tell {
		for _, w := range told {
			(*w)(watchLost)
		}
	}
}

// resends reports whether the library has watches to register again.
func (t *watchTable) resends() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.library) > 0
}

// resendsNothing: the library did not register anything again after all.
func (t *watchTable) resendsNothing() {
	t.mu.Lock()
	clear(t.library)
	t.mu.Unlock()
}
