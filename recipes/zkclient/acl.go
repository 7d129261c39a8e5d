package zkclient

import (
	"context"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// ACL is one entry of an access control list: who may do what with a node.
type ACL struct {
	Permissions Permission
	Scheme      string // for example "world", "auth", "digest", "ip"
	ID          string // for example "anyone", "ann:<digest>", "10.0.0.0/8"
}

// Permission is a set of rights on a node.
type Permission int32

// The rights on a node. Create and Delete are about its children.
const (
	PermissionRead Permission = 1 << iota
	PermissionWrite
	PermissionCreate
	PermissionDelete
	PermissionAdmin
	PermissionAll Permission = 1<<iota - 1
)

// String writes an entry as ZooKeeper's shell does.
func (a ACL) String() string { return a.Scheme + ":" + a.ID + ":" + a.Permissions.String() }

// String returns the letters by which ZooKeeper's shell knows the rights:
// "cdrwa" for all of them.
func (p Permission) String() string {
	var letters strings.Builder
	for i, right := range []Permission{
		PermissionCreate, PermissionDelete, PermissionRead, PermissionWrite, PermissionAdmin,
	} {
		if p&right != 0 {
			letters.WriteByte("cdrwa"[i])
		}
	}
	return letters.String()
}

// ReadACL returns the ACL of a node.
func (s *Session) ReadACL(ctx context.Context, path string) ([]ACL, *zk.Stat, error) {
	type answer struct {
		acl  []zk.ACL
		stat *zk.Stat
	}
	r, err := call(ctx, s, func(c *zk.Conn) (answer, error) {
		acl, stat, err := c.GetACL(path)
		return answer{acl, stat}, err
	})
	if err != nil {
		return nil, nil, denied(err, path, PermissionRead)
	}
	list := make([]ACL, len(r.acl))
	for i, a := range r.acl {
		list[i] = ACL{Permissions: Permission(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return list, r.stat, nil
}

func sameIDs(a, b []aclID) bool {
	in := func(all []aclID) func(aclID) bool { return func(id aclID) bool { return !slices.Contains(all, id) } }
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

// knownIDs names some without hashes.
func knownIDs(ids []aclID) string {
	if len(ids) == 0 {
		return "none"
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = Legible(id.known())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// anyone may be a contender, and nothing else.
var anyone = aclID{"world", "anyone"}

// parseContender reads one of Config.Contenders.
func parseContender(s string) (aclID, error) {
	if s == anyone.String() {
		return anyone, nil
	}
	return parseOperator(s)
}

// named is who a client is, for people.
func (a aclID) named() string {
	if a == (aclID{}) {
		return "a client without credentials"
	}
	return a.known()
}
