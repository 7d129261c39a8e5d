package tree

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// Exists returns the stat of a node, without access control.
func (t *Tree) Exists(path string) (zkwire.Stat, zkwire.Code) {
	n := t.find(path)
	if n == nil {
		return zkwire.Stat{}, zkwire.NoNode
	}
	return n.stat(), zkwire.OK
}

// Data returns the data of a node.
func (t *Tree) Data(path string, by Caller) ([]byte, zkwire.Stat, zkwire.Code) {
	n, code := t.read(path, zkwire.PermRead, by)
	if code != zkwire.OK {
		return nil, zkwire.Stat{}, code
	}
	return n.data, n.stat(), zkwire.OK
}

// Children returns the names of a node's children, in no order. The list is
// valid until the next change.
func (t *Tree) Children(path string, by Caller) ([]string, zkwire.Stat, zkwire.Code) {
	n, code := t.read(path, zkwire.PermRead, by)
	if code != zkwire.OK {
		return nil, zkwire.Stat{}, code
	}
	return n.children.names, n.stat(), zkwire.OK
}

// ACL returns the access control list of a node. Who may not change it sees no
// hashes of passwords.
func (t *Tree) ACL(path string, by Caller) ([]zkwire.ACL, zkwire.Stat, zkwire.Code) {
	n, code := t.read(path, zkwire.PermRead|zkwire.PermAdmin, by)
	if code != zkwire.OK {
		return nil, zkwire.Stat{}, code
	}
	acl := n.acl
	if !by.may(zkwire.PermAdmin, acl) {
		acl = hide(acl)
	}
	return acl, n.stat(), zkwire.OK
}

// Below returns how many nodes are below path.
func (t *Tree) Below(path string, by Caller) (int, zkwire.Code) {
	if _, code := t.read(path, zkwire.PermRead, by); code != zkwire.OK {
		return 0, code
	}
	if path == "/" {
		return len(t.nodes) - 1, zkwire.OK
	}
	below := 0
	for p := range t.nodes {
		if p == "" {
			p = "/" // the root has two names there, and this is one of them
		}
		if strings.HasPrefix(p, path+"/") {
			below++
		}
	}
	return below, zkwire.OK
}

func (t *Tree) read(path string, perms int32, by Caller) (*node, zkwire.Code) {
	n := t.find(path)
	if n == nil {
		return nil, zkwire.NoNode
	}
	if !by.may(perms, n.acl) {
		return nil, zkwire.NoAuth
	}
	return n, zkwire.OK
}
