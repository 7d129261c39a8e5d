package zkclient

import "strings"

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
	for i, right := range []Permission{PermissionCreate, PermissionDelete, PermissionRead, PermissionWrite, PermissionAdmin} {
		if p&right != 0 {
			letters.WriteByte("cdrwa"[i])
		}
	}
	return letters.String()
}
