package tree

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Change is a write that was found good.
type Change struct {
	Op    zkwire.Op // OpCreate, OpDelete, OpSetData, OpSetACL or OpCheck
	Path  string
	Data  []byte
	ACL   []zkwire.ACL
	Kind  Kind
	Owner int64
	// Version is what the data or the ACL has afterwards.
	Version int32
}

// Check tells what a write would do. Multi is not one write but several.
func (t *Tree) Check(r *zkwire.Request, by Caller) (Change, zkwire.Code) {
	switch r.Op {
	case zkwire.OpCreate, zkwire.OpCreate2, zkwire.OpCreateContainer, zkwire.OpCreateTTL:
		return t.checkCreate(r, by)
	case zkwire.OpDelete, zkwire.OpDeleteContainer:
		return t.checkDelete(r, by)
	case zkwire.OpSetData, zkwire.OpSetACL, zkwire.OpCheck:
		return t.checkSet(r, by)
	}
	return Change{}, zkwire.Unimplemented
}

// maxTTL is what fits beside the marks in the owner of a node.
const maxTTL = 1<<40 - 1

func (t *Tree) checkCreate(r *zkwire.Request, by Caller) (Change, zkwire.Code) {
	if code := t.checkFlags(r); code != zkwire.OK {
		return Change{}, code
	}
	if r.NullPath {
		return Change{}, zkwire.MarshallingError
	}
	path := r.Path
	parentPath, _, ok := split(path)
	if !ok {
		return Change{}, zkwire.BadArguments
	}
	acl, code := fix(r.ACL, by.IDs)
	if code != zkwire.OK {
		return Change{}, code
	}
	parent := t.find(parentPath)
	if parent == nil {
		return Change{}, zkwire.NoNode
	}
	if !by.may(zkwire.PermCreate, parent.acl) {
		return Change{}, zkwire.NoAuth
	}
	if zkwire.Sequential(r.Flags) {
		path += fmt.Sprintf("%010d", parent.creates)
	}
	if !ValidPath(path) {
		return Change{}, zkwire.BadArguments
	}
	if t.find(path) != nil {
		return Change{}, zkwire.NodeExists
	}
	if parent.kind == Ephemeral {
		return Change{}, zkwire.NoChildrenEphemeral
	}
	c := Change{Op: zkwire.OpCreate, Path: path, Data: r.Data, ACL: acl}
	switch {
	case r.Op == zkwire.OpCreateContainer:
		c.Kind = Container
	case hasTTL(r.Flags):
		c.Kind, c.Owner = TTL, r.TTL
	case r.Flags == zkwire.Ephemeral || r.Flags == zkwire.EphemeralSequential:
		c.Kind, c.Owner = Ephemeral, by.Session
	}
	return c, zkwire.OK
}

// checkFlags checks the kind of node that is asked for, and its TTL.
func (t *Tree) checkFlags(r *zkwire.Request) zkwire.Code {
	lives := hasTTL(r.Flags)
	switch {
	case r.Flags < zkwire.Persistent || r.Flags > zkwire.TTLSequential:
		return zkwire.BadArguments
	case lives && !t.TTLs:
		return zkwire.Unimplemented
	case lives != (r.Op == zkwire.OpCreateTTL) || lives && (r.TTL <= 0 || r.TTL > maxTTL) || !lives && r.TTL >= 0:
		return zkwire.BadArguments
	}
	return zkwire.OK
}

func hasTTL(flags int32) bool { return flags == zkwire.TTL || flags == zkwire.TTLSequential }

func (t *Tree) checkDelete(r *zkwire.Request, by Caller) (Change, zkwire.Code) {
	if r.NullPath {
		return Change{}, zkwire.MarshallingError
	}
	parentPath, _, ok := split(r.Path)
	if !ok || special(r.Path) {
		return Change{}, zkwire.BadArguments
	}
	swept := r.Op == zkwire.OpDeleteContainer
	parent := t.nodes[parentPath]
	if !swept {
		if parent == nil {
			return Change{}, zkwire.NoNode
		}
		if !by.may(zkwire.PermDelete, parent.acl) {
			return Change{}, zkwire.NoAuth
		}
	}
	n := t.find(r.Path)
	if n == nil {
		return Change{}, zkwire.NoNode
	}
	if !swept && r.Version != -1 && r.Version != n.version {
		return Change{}, zkwire.BadVersion
	}
	if n.children.len() > 0 {
		return Change{}, zkwire.NotEmpty
	}
	if swept && n.kind == Ephemeral {
		return Change{}, zkwire.BadVersion
	}
	return Change{Op: zkwire.OpDelete, Path: r.Path}, zkwire.OK
}

// checkSet is for whatever is about one node and a version of it.
func (t *Tree) checkSet(r *zkwire.Request, by Caller) (Change, zkwire.Code) {
	if !ValidPath(r.Path) {
		return Change{}, zkwire.BadArguments
	}
	c := Change{Op: r.Op, Path: r.Path, Data: r.Data}
	if r.Op == zkwire.OpSetACL {
		var code zkwire.Code
		if c.ACL, code = fix(r.ACL, by.IDs); code != zkwire.OK {
			return Change{}, code
		}
	}
	n := t.find(r.Path)
	if n == nil {
		return Change{}, zkwire.NoNode
	}
	perm, version := zkwire.PermWrite, n.version
	switch r.Op {
	case zkwire.OpSetACL:
		perm, version = zkwire.PermAdmin, n.aversion
	case zkwire.OpCheck:
		perm = zkwire.PermRead
	}
	if !by.may(perm, n.acl) {
		return Change{}, zkwire.NoAuth
	}
	if r.Version != -1 && r.Version != version {
		return Change{}, zkwire.BadVersion
	}
	c.Version = version + 1
	return c, zkwire.OK
}
