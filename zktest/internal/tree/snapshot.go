package tree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Snapshot is a tree as it is written down.
type Snapshot struct {
	Nodes []SavedNode `json:"nodes"` // parents before children
}

// A SavedNode is a node of a Snapshot.
type SavedNode struct {
	Path     string       `json:"path"`
	Data     []byte       `json:"data"`
	Null     bool         `json:"null,omitempty"` // the data is null, not empty
	ACL      []zkwire.ACL `json:"acl"`
	Czxid    int64        `json:"czxid"`
	Mzxid    int64        `json:"mzxid"`
	Pzxid    int64        `json:"pzxid"`
	Ctime    int64        `json:"ctime"`
	Mtime    int64        `json:"mtime"`
	Version  int32        `json:"version"`
	Aversion int32        `json:"aversion"`
	Creates  int32        `json:"creates"`
	Kind     Kind         `json:"kind,omitempty"`
	Owner    int64        `json:"owner,omitempty"`
}

// Save returns the tree as it is now.
func (t *Tree) Save() Snapshot {
	paths := make([]string, 0, len(t.nodes))
	for path := range t.nodes {
		paths = append(paths, path)
	}
	slices.Sort(paths) // a path sorts before what is below it
	var s Snapshot
	for _, path := range paths {
		n := t.nodes[path]
		s.Nodes = append(s.Nodes, SavedNode{
			Path: path, Data: n.data, Null: n.data == nil, ACL: n.acl, Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
			Ctime: n.ctime, Mtime: n.mtime, Version: n.version, Aversion: n.aversion, Creates: n.creates,
			Kind: n.kind, Owner: n.owner,
		})
	}
	return s
}

// Load returns the tree that was saved. It fails if s is no whole tree.
func Load(s Snapshot) (*Tree, error) {
	t := &Tree{nodes: make(map[string]*node), ephemerals: make(map[int64]*set), transient: make(map[string]struct{})}
	for _, from := range s.Nodes {
		n := &node{
			czxid: from.Czxid, mzxid: from.Mzxid, pzxid: from.Pzxid, ctime: from.Ctime, mtime: from.Mtime,
			version: from.Version, aversion: from.Aversion, creates: from.Creates, kind: from.Kind, owner: from.Owner,
			data: from.Data, acl: from.ACL,
		}
		if from.Null {
			n.data = nil
		} else if n.data == nil {
			n.data = []byte{}
		}
		if from.Path != "" {
			i := strings.LastIndexByte(from.Path, '/')
			if i < 0 || t.nodes[from.Path[:i]] == nil {
				return nil, fmt.Errorf("node %q has no parent", from.Path)
			}
			t.nodes[from.Path[:i]].children.add(from.Path[i+1:])
		}
		t.nodes[from.Path] = n
		t.mark(from.Path, n)
	}
	for _, path := range []string{"", "/zookeeper"} {
		if t.nodes[path] == nil {
			return nil, fmt.Errorf("node %q is missing", path)
		}
	}
	return t, nil
}
