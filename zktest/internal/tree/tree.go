package tree

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Tree is the nodes of a server. It is not safe for concurrent use.
type Tree struct {
	// TTLs lets nodes have a time to live (zookeeper.extendedTypesEnabled).
	TTLs bool

	nodes      map[string]*node // "" is the root
	ephemerals map[int64]*set
	transient  map[string]struct{} // containers and nodes with a time to live
}

// New returns the tree of a server that has just begun.
func New() *Tree {
	t := &Tree{nodes: make(map[string]*node), ephemerals: make(map[int64]*set), transient: make(map[string]struct{})}
	for _, path := range []string{"", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		n := &node{data: []byte{}, acl: OpenACL}
		if path == "/zookeeper/config" {
			n.acl, n.aversion = readACL, -1
		}
		t.nodes[path] = n
		if parent, name, ok := split(path); ok {
			t.nodes[parent].children.add(name) // these do not count as creates
		}
	}
	return t
}

// Clone returns a copy that shares nothing that changes.
func (t *Tree) Clone() *Tree {
	c := &Tree{
		TTLs:       t.TTLs,
		nodes:      make(map[string]*node, len(t.nodes)),
		ephemerals: make(map[int64]*set, len(t.ephemerals)),
		transient:  make(map[string]struct{}, len(t.transient)),
	}
	for path, n := range t.nodes {
		copied := *n
		copied.children = n.children.clone()
		c.nodes[path] = &copied
	}
	for session, paths := range t.ephemerals {
		copied := paths.clone()
		c.ephemerals[session] = &copied
	}
	for path := range t.transient {
		c.transient[path] = struct{}{}
	}
	return c
}

// find returns a node by its path on the wire, where the root is "/" or "".
func (t *Tree) find(path string) *node {
	if path == "/" {
		path = ""
	}
	return t.nodes[path]
}

// Len returns the number of nodes, the server's own among them.
func (t *Tree) Len() int { return len(t.nodes) }

// DataSize returns the bytes of all paths and data, about.
func (t *Tree) DataSize() int {
	size := len("/") // the root counts under both of its names
	for path, n := range t.nodes {
		size += len(path) + len(n.data)
	}
	return size
}

// A Caller is who asks.
type Caller struct {
	Session int64
	IDs     []zkwire.ID
	Super   bool // may do everything
	Over    bool // the session has ended, and a lagging server does not know it
}

func (c Caller) may(perms int32, acl []zkwire.ACL) bool { return c.Super || Allowed(acl, perms, c.IDs) }

// An Effect is what a Change did: the state of the node right after it, and
// who may hear of it.
type Effect struct {
	Change
	Stat      zkwire.Stat
	nodeACL   []zkwire.ACL
	parentACL []zkwire.ACL

	undo func()
}

// Undo takes the last Change back.
func (e *Effect) Undo() { e.undo() }

// Apply puts a change into effect, in a transaction at a time in milliseconds
// since 1970. The change must come from Check on an equal tree.
func (t *Tree) Apply(c Change, zxid, now int64) Effect {
	switch c.Op {
	case zkwire.OpCreate:
		return t.create(c, zxid, now)
	case zkwire.OpDelete:
		return t.remove(c, zxid)
	case zkwire.OpSetData:
		n := t.find(c.Path)
		before := *n
		n.data, n.version, n.mtime, n.mzxid = c.Data, c.Version, now, zxid
		return Effect{Change: c, Stat: n.stat(), nodeACL: n.acl, undo: func() {
			n.data, n.version, n.mtime, n.mzxid = before.data, before.version, before.mtime, before.mzxid
		}}
	case zkwire.OpSetACL:
		n := t.find(c.Path)
		before := *n
		n.acl, n.aversion = c.ACL, c.Version
		return Effect{Change: c, Stat: n.stat(), undo: func() { n.acl, n.aversion = before.acl, before.aversion }}
	}
	return Effect{Change: c, undo: func() {}}
}

func (t *Tree) create(c Change, zxid, now int64) Effect {
	parentPath, name, _ := split(c.Path)
	parent := t.nodes[parentPath]
	pzxid := parent.pzxid
	parent.children.add(name)
	parent.creates++
	parent.pzxid = zxid
	n := &node{
		czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: now, mtime: now,
		data: c.Data, acl: c.ACL, kind: c.Kind, owner: c.Owner,
	}
	t.nodes[c.Path] = n
	t.mark(c.Path, n)
	return Effect{Change: c, Stat: n.stat(), nodeACL: n.acl, parentACL: parent.acl, undo: func() {
		t.unmark(c.Path, n)
		delete(t.nodes, c.Path)
		parent.children.remove(name)
		parent.creates--
		parent.pzxid = pzxid
	}}
}

func (t *Tree) remove(c Change, zxid int64) Effect {
	parentPath, name, _ := split(c.Path)
	parent, n := t.nodes[parentPath], t.nodes[c.Path]
	pzxid := parent.pzxid
	parent.children.remove(name)
	parent.pzxid = zxid
	delete(t.nodes, c.Path)
	t.unmark(c.Path, n)
	return Effect{Change: c, nodeACL: n.acl, parentACL: parent.acl, undo: func() {
		t.nodes[c.Path] = n
		t.mark(c.Path, n)
		parent.children.add(name)
		parent.pzxid = pzxid
	}}
}

func (t *Tree) mark(path string, n *node) {
	switch n.kind {
	case Ephemeral:
		paths := t.ephemerals[n.owner]
		if paths == nil {
			paths = &set{}
			t.ephemerals[n.owner] = paths
		}
		paths.add(path)
	case Container, TTL:
		t.transient[path] = struct{}{}
	case Persistent:
	}
}

func (t *Tree) unmark(path string, n *node) {
	switch n.kind {
	case Ephemeral:
		if paths := t.ephemerals[n.owner]; paths != nil {
			paths.remove(path)
			if paths.len() == 0 {
				delete(t.ephemerals, n.owner)
			}
		}
	case Container, TTL:
		delete(t.transient, path)
	case Persistent:
	}
}

// Ephemerals returns the paths of a session's nodes.
func (t *Tree) Ephemerals(session int64) []string {
	if paths := t.ephemerals[session]; paths != nil {
		return slices.Clone(paths.names)
	}
	return nil
}

// Owners returns the sessions that have ephemeral nodes.
func (t *Tree) Owners() []int64 {
	owners := make([]int64, 0, len(t.ephemerals))
	for session := range t.ephemerals {
		owners = append(owners, session)
	}
	slices.Sort(owners)
	return owners
}

// Expired returns, in order, the containers and the nodes with a time to live
// that a sweep at this time, in milliseconds since 1970, deletes.
func (t *Tree) Expired(now int64) []string {
	var paths []string
	for path := range t.transient {
		n := t.nodes[path]
		if n.children.len() > 0 {
			continue
		}
		if n.kind == Container && n.creates > 0 || n.kind == TTL && now-n.mtime > n.owner {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Walk visits the node at path and all below it, parents before children,
// children in the order of their names.
func (t *Tree) Walk(path string, visit func(path string, data []byte, acl []zkwire.ACL, stat zkwire.Stat)) {
	n := t.find(path)
	if n == nil {
		return
	}
	if path == "" {
		path = "/"
	}
	visit(path, n.data, n.acl, n.stat())
	for _, name := range slices.Sorted(slices.Values(n.children.names)) {
		t.Walk(strings.TrimSuffix(path, "/")+"/"+name, visit)
	}
}
