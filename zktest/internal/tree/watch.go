package tree

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Mode says how long a watch lasts and what it covers.
type Mode uint8

// Modes of watches.
const (
	Once        Mode = iota
	Always           // until it is removed
	AlwaysBelow      // until it is removed; for the node and all below it
)

// Watches are who wants to hear of what. W is a connection.
type Watches[W comparable] struct {
	data, child table[W]
}

// NewWatches returns none.
func NewWatches[W comparable]() *Watches[W] {
	return &Watches[W]{data: newTable[W](), child: newTable[W]()}
}

// A table is one of the two lists of ZooKeeper's watches. In each a watcher
// has one watch on a path: a later one takes the mode of an earlier one away.
type table[W comparable] struct {
	byPath    map[string][]watch[W]
	byWatcher map[W]map[string]struct{}
	recursive int
}

type watch[W comparable] struct {
	by   W
	mode Mode
}

func newTable[W comparable]() table[W] {
	return table[W]{byPath: make(map[string][]watch[W]), byWatcher: make(map[W]map[string]struct{})}
}

func (t *table[W]) add(path string, by W, mode Mode) {
	list := t.byPath[path]
	i := slices.IndexFunc(list, func(w watch[W]) bool { return w.by == by })
	if i < 0 {
		i = len(list)
		list = append(list, watch[W]{by: by})
		t.byPath[path] = list
		paths := t.byWatcher[by]
		if paths == nil {
			paths = make(map[string]struct{})
			t.byWatcher[by] = paths
		}
		paths[path] = struct{}{}
	}
	if list[i].mode == AlwaysBelow {
		t.recursive--
	}
	if mode == AlwaysBelow {
		t.recursive++
	}
	list[i].mode = mode
}

func (t *table[W]) remove(path string, by W) bool {
	list := t.byPath[path]
	i := slices.IndexFunc(list, func(w watch[W]) bool { return w.by == by })
	if i < 0 {
		return false
	}
	if list[i].mode == AlwaysBelow {
		t.recursive--
	}
	if len(list) == 1 {
		delete(t.byPath, path)
	} else {
		t.byPath[path] = slices.Delete(list, i, i+1)
	}
	paths := t.byWatcher[by]
	delete(paths, path)
	if len(paths) == 0 {
		delete(t.byWatcher, by)
	}
	return true
}

func (t *table[W]) forget(by W) {
	for path := range t.byWatcher[by] {
		t.remove(path, by)
	}
}

// fire takes the watchers of an event at path out, each once.
func (t *table[W]) fire(path string, event zkwire.EventType) []W {
	var told []W
	if list := t.byPath[path]; len(list) > 0 {
		for _, w := range slices.Clone(list) {
			if w.mode == AlwaysBelow && event == zkwire.NodeChildrenChanged {
				continue // the child itself tells those
			}
			told = append(told, w.by)
			if w.mode == Once {
				t.remove(path, w.by)
			}
		}
	}
	if t.recursive == 0 || event == zkwire.NodeChildrenChanged {
		return told
	}
	for above := path; above != "/"; {
		i := strings.LastIndexByte(above, '/')
		if above = above[:max(i, 0)]; above == "" {
			above = "/"
		}
		for _, w := range t.byPath[above] {
			if w.mode == AlwaysBelow && !slices.Contains(told, w.by) {
				told = append(told, w.by)
			}
		}
	}
	return told
}

// Tell is called with each event: who may see it by its access control list
// is the callee's to decide; nil allows every watcher.
type Tell[W comparable] func(to W, event zkwire.EventType, path string, acl []zkwire.ACL)

// Fire tells the watchers of an effect.
func (w *Watches[W]) Fire(e *Effect, tell Tell[W]) {
	if len(w.data.byPath) == 0 && len(w.child.byPath) == 0 {
		return
	}
	parent := func() {
		path, _, _ := split(e.Path)
		if path == "" {
			path = "/"
		}
		for _, by := range w.child.fire(path, zkwire.NodeChildrenChanged) {
			tell(by, zkwire.NodeChildrenChanged, path, e.parentACL)
		}
	}
	switch e.Op {
	case zkwire.OpCreate:
		for _, by := range w.data.fire(e.Path, zkwire.NodeCreated) {
			tell(by, zkwire.NodeCreated, e.Path, e.nodeACL)
		}
		parent()
	case zkwire.OpSetData:
		for _, by := range w.data.fire(e.Path, zkwire.NodeDataChanged) {
			tell(by, zkwire.NodeDataChanged, e.Path, e.nodeACL)
		}
	case zkwire.OpDelete:
		told := w.data.fire(e.Path, zkwire.NodeDeleted)
		for _, by := range told {
			tell(by, zkwire.NodeDeleted, e.Path, e.nodeACL)
		}
		for _, by := range w.child.fire(e.Path, zkwire.NodeDeleted) {
			if !slices.Contains(told, by) {
				tell(by, zkwire.NodeDeleted, e.Path, e.nodeACL)
			}
		}
		parent()
	}
}

// AddData adds a watch that exists and getData ask for.
func (w *Watches[W]) AddData(path string, by W) { w.data.add(path, by, Once) }

// AddChild adds a watch that getChildren asks for.
func (w *Watches[W]) AddChild(path string, by W) { w.child.add(path, by, Once) }

// Add adds a watch that stays.
func (w *Watches[W]) Add(path string, by W, mode Mode) {
	w.data.add(path, by, mode)
	w.child.add(path, by, mode)
}

// What RemoveWatches and HasWatches are about, by its number on the wire.
const (
	ChildWatches int32 = 1
	DataWatches  int32 = 2
	AnyWatches   int32 = 3
)

// Remove ends watches at path, and tells whether there were any. what is one
// of ChildWatches, DataWatches and AnyWatches.
func (w *Watches[W]) Remove(path string, by W, what int32) bool {
	removed := false
	if what != DataWatches {
		removed = w.child.remove(path, by)
	}
	if what != ChildWatches {
		removed = w.data.remove(path, by) || removed
	}
	return removed
}

// Has tells whether by watches path, or has a recursive watch above it.
func (w *Watches[W]) Has(path string, by W, what int32) bool {
	return what != DataWatches && w.child.has(path, by) || what != ChildWatches && w.data.has(path, by)
}

func (t *table[W]) has(path string, by W) bool {
	is := func(w watch[W]) bool { return w.by == by }
	if slices.ContainsFunc(t.byPath[path], is) {
		return true
	}
	for at := range t.byWatcher[by] {
		if strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/") &&
			slices.ContainsFunc(t.byPath[at], func(w watch[W]) bool { return w.by == by && w.mode == AlwaysBelow }) {
			return true
		}
	}
	return false
}

// Forget ends all watches of a connection.
func (w *Watches[W]) Forget(by W) {
	w.data.forget(by)
	w.child.forget(by)
}

// Move takes the watches of a connection over to another server.
func (w *Watches[W]) Move(by W, to *Watches[W]) {
	for _, pair := range [][2]*table[W]{{&w.data, &to.data}, {&w.child, &to.child}} {
		for path := range pair[0].byWatcher[by] {
			for _, x := range pair[0].byPath[path] {
				if x.by == by {
					pair[1].add(path, by, x.mode)
				}
			}
		}
		pair[0].forget(by)
	}
}

// Restore arms the watches that a client brings with it, on the nodes of t,
// and tells at once what it has missed. At a list that is null it gives up, and
// is false.
func (w *Watches[W]) Restore(r *zkwire.Watches, t *Tree, by W, tell Tell[W]) bool {
	if r.Data == nil {
		return false
	}
	for _, path := range r.Data {
		switch n := t.find(path); {
		case n == nil:
			tell(by, zkwire.NodeDeleted, path, nil)
		case n.mzxid > r.RelativeZxid:
			tell(by, zkwire.NodeDataChanged, path, nil)
		default:
			w.data.add(path, by, Once)
		}
	}
	if r.Exist == nil {
		return false
	}
	for _, path := range r.Exist {
		if t.find(path) != nil {
			tell(by, zkwire.NodeCreated, path, nil)
		} else {
			w.data.add(path, by, Once)
		}
	}
	if r.Child == nil {
		return false
	}
	for _, path := range r.Child {
		switch n := t.find(path); {
		case n == nil:
			tell(by, zkwire.NodeDeleted, path, nil)
		case n.pzxid > r.RelativeZxid:
			tell(by, zkwire.NodeChildrenChanged, path, nil)
		default:
			w.child.add(path, by, Once)
		}
	}
	if r.Persistent == nil {
		return false
	}
	for _, path := range r.Persistent {
		w.Add(path, by, Always)
	}
	if r.Recursive == nil {
		return false
	}
	for _, path := range r.Recursive {
		w.Add(path, by, AlwaysBelow)
	}
	return true
}

// Each visits every watch of one list, data or child.
func (w *Watches[W]) Each(child bool, visit func(path string, by W, mode Mode)) {
	t := &w.data
	if child {
		t = &w.child
	}
	for path, list := range t.byPath {
		for _, x := range list {
			visit(path, x.by, x.mode)
		}
	}
}
