package tree

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Exists returns the stat of a node, whoever asks.
func (t *Tree) Exists(path string) (wire.Stat, wire.Code) {
	n := t.find(path)
	if n == nil {
		return wire.Stat{}, wire.NoNode
	}
	return n.stat(), wire.OK
}

// Data returns the data of a node.
func (t *Tree) Data(path string, by Caller) ([]byte, wire.Stat, wire.Code) {
	n, code := t.read(path, wire.PermRead, by)
	if code != wire.OK {
		return nil, wire.Stat{}, code
	}
	return n.data, n.stat(), wire.OK
}

// Children returns the names of a node's children, in no order. The list is
// valid until the next change.
func (t *Tree) Children(path string, by Caller) ([]string, wire.Stat, wire.Code) {
	n, code := t.read(path, wire.PermRead, by)
	if code != wire.OK {
		return nil, wire.Stat{}, code
	}
	return n.children.names, n.stat(), wire.OK
}

// ACL returns the access control list of a node. Who may not change it sees no
// hashes of passwords.
func (t *Tree) ACL(path string, by Caller) ([]wire.ACL, wire.Stat, wire.Code) {
	n, code := t.read(path, wire.PermRead|wire.PermAdmin, by)
	if code != wire.OK {
		return nil, wire.Stat{}, code
	}
	acl := n.acl
	if !by.may(wire.PermAdmin, acl) {
		acl = hide(acl)
	}
	return acl, n.stat(), wire.OK
}

// Below returns how many nodes are below path.
func (t *Tree) Below(path string, by Caller) (int, wire.Code) {
	if _, code := t.read(path, wire.PermRead, by); code != wire.OK {
		return 0, code
	}
	if path == "/" {
		return len(t.nodes) - 1, wire.OK
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
	return below, wire.OK
}

func (t *Tree) read(path string, perms int32, by Caller) (*node, wire.Code) {
	n := t.find(path)
	if n == nil {
		return nil, wire.NoNode
	}
	if !by.may(perms, n.acl) {
		return nil, wire.NoAuth
	}
	return n, wire.OK
}
