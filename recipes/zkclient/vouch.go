package zkclient

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"
)

// A node's own list does not say who has made the node, and its creator has
// chosen that list. So what a node says is trusted if only this client and the
// operators may make or remove nodes where it is, and only they may write it.

// UntrustedError says that an identity other than this client's and the operators' could
// have written a node, so that its data is not acted on.
type UntrustedError struct {
	Node  string // whose access control list allows too much
	Entry string // of that list, for example "world:anyone:cdrwa"
	Why   string
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%s is not trusted: its ACL has %s, %s", e.Node, e.Entry, e.Why)
}

// CheckAccess checks who may write the nodes that the client relies on: the
// ACLs of the root and of the nodes right below it. It returns an
// *UntrustedError for each that lets an identity other than the client's and
// the operators do that, and an *AccessError for each that may not be looked
// at, joined. Every client of an open deployment, without credentials, gets
// some.
func (c *Client) CheckAccess(ctx context.Context) error {
	return c.Vouching(ctx, func(s *Session) error {
		root, err := c.VouchRoot(ctx, s)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		} else if err != nil && !IsUntrusted(err) {
			return err
		}
		all := []error{err}
		names, _, err := s.List(ctx, c.root)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			err := c.VouchNode(ctx, s, root, path.Join(c.root, name))
			switch {
			case IsUntrusted(err), errors.Is(err, zk.ErrNoAuth):
				all = append(all, err)
			case err != nil && !errors.Is(err, zk.ErrNoNode):
				return err
			}
		}
		return errors.Join(all...)
	})
}

// Vouching runs a look at access control lists until it has an outcome.
func (c *Client) Vouching(ctx context.Context, op func(*Session) error) error {
	_, err := Promptly(ctx, c, func() (struct{}, error) { return struct{}{}, c.Inspecting(ctx, op) }, nil)
	return err
}

// IsUntrusted reports whether an error is an *UntrustedError.
func IsUntrusted(err error) bool {
	_, is := errors.AsType[*UntrustedError](err)
	return is
}

// makesNodes are the rights with which one can put a node where it is not, or
// another one in the place of one that is.
const makesNodes = zk.PermCreate | zk.PermDelete | zk.PermAdmin

// VouchRoot looks who may make and remove nodes in the root. It returns the
// root's list, too, if that could be read.
func (c *Client) VouchRoot(ctx context.Context, s *Session) (root []zk.ACL, err error) {
	root, _, err = s.GetACL(ctx, c.root)
	if err != nil {
		return nil, err
	}
	members := c.members(root)
	for _, a := range root {
		if a.Perms&makesNodes == 0 {
			continue
		}
		id := aclID{a.Scheme, a.ID}
		why := c.stranger(id, members, true)
		if why != "" && id.masked() && c.who().posted && slices.ContainsFunc(c.who().operators, id.mayBe) {
			continue // a stranger of that name could not have written the hash into the lists
		}
		if why != "" && id.masked() && c.who().access.named() {
			is, err := c.sealed(ctx, s, id)
			if err != nil {
				return root, err
			}
			if is {
				continue
			}
			why = "of which ZooKeeper shows no more to this client, and " + c.root + "/" + roomSeal +
				" does not say that it is one of zookeeper.operators; let an operator run lockkeeper init"
		}
		if why != "" {
			return root, &UntrustedError{Node: c.root, Entry: describeACL(a), Why: why}
		}
	}
	return root, nil
}

// VouchNode checks who may write a node of a root that is vouched for: one of
// those has chosen its list, and could name any identity. So a hash that is
// hidden is the right one.
func (c *Client) VouchNode(ctx context.Context, s *Session, root []zk.ACL, node string) error {
	return c.vouchRights(ctx, s, root, node, zk.PermWrite|zk.PermAdmin)
}

func (c *Client) vouchRights(ctx context.Context, s *Session, root []zk.ACL, node string, rights int32) error {
	acl, _, err := s.GetACL(ctx, node)
	if err != nil {
		return err
	}
	members := c.members(root)
	for _, a := range acl {
		if id := (aclID{a.Scheme, a.ID}); a.Perms&rights != 0 && !c.who().access.grants(node, id, a.Perms&rights) {
			if why := c.stranger(id, members, false); why != "" {
				return &UntrustedError{Node: node, Entry: describeACL(a), Why: why}
			}
		}
	}
	return nil
}

// VouchMaker is VouchNode for a node that records are made below: it looks who
// may do that.
func (c *Client) VouchMaker(ctx context.Context, s *Session, root []zk.ACL, node string) error {
	return c.vouchRights(ctx, s, root, node, makesNodes)
}

// members returns who may use the root, as far as they are to be trusted
// without being named in the configuration: where no operators are configured,
// every identity that may make nodes there, if this client may.
func (c *Client) members(root []zk.ACL) (ids []aclID) {
	if len(c.who().operators) > 0 || c.identity == "" {
		return nil
	}
	for _, a := range root {
		if id := (aclID{a.Scheme, a.ID}); id.proven() && a.Perms&makesNodes != 0 {
			ids = append(ids, id)
		}
	}
	if !slices.Contains(ids, c.self) { // if the hash is hidden, it may be another one
		return nil
	}
	return ids
}

// stranger says why an identity is neither this client nor an operator, nor a
// member; "" for one of these.
func (c *Client) stranger(id aclID, members []aclID, exact bool) string {
	switch {
	case !id.proven():
		return "which is every client; set the ACL to those who may use Lockkeeper (docs/security.md says how)"
	case id == c.self, slices.Contains(c.who().operators, id), slices.Contains(members, id):
		return ""
	case id.masked() && (c.self.mayBe(id) || slices.ContainsFunc(c.who().operators, id.mayBe)):
		if !exact {
			return ""
		}
		return "of which ZooKeeper shows no more to this client, so that it may be another user of that name; " +
			"let an operator run lockkeeper init, which leaves the hashes there for all clients"
	case c.identity == "" && len(c.who().operators) == 0:
		return "which this client does not know: " +
			"it has neither credentials nor operators (zookeeper.auth, zookeeper.operators)"
	}
	return "who is neither this client nor one of zookeeper.operators: add it there (" + id.String() +
		") if it is one of yours, else take it from the ACL"
}

// mayBe reports whether two ids are of the same user, as far as can be seen.
func (a aclID) mayBe(b aclID) bool {
	return a == b || a.scheme == b.scheme && (a.masked() || b.masked()) && a.known() == b.known()
}

// describeACL writes an entry as ZooKeeper's shell does, without a hash.
func describeACL(a zk.ACL) string {
	return Legible(aclID{a.Scheme, a.ID}.known()) + ":" + Permission(a.Perms).String()
}

// OperatorACL is the list of a node that operators write, and all others who
// may use the root read.
func (c *Client) OperatorACL(root []zk.ACL) []zk.ACL {
	if c.who().access.named() {
		return c.who().access.of(c.root + "/" + roomOverrides)
	}
	var acl []zk.ACL
	grant := func(id aclID, perms int32) {
		if !slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == id.scheme && a.ID == id.id }) {
			acl = append(acl, id.may(perms))
		}
	}
	members := c.members(root)
	for _, id := range c.who().operators {
		grant(id, zk.PermAll)
	}
	if c.identity != "" {
		perms := int32(zk.PermRead)
		if len(c.who().operators) == 0 {
			perms = zk.PermAll
		}
		grant(c.self, perms)
	} else {
		grant(aclID{"world", "anyone"}, zk.PermRead) // or this client could not read it
	}
	for _, a := range root {
		switch id := (aclID{a.Scheme, a.ID}); {
		case id.masked(): // cannot be named
		case slices.Contains(members, id):
			grant(id, zk.PermAll)
		case a.Perms&zk.PermRead != 0:
			grant(id, zk.PermRead)
		}
	}
	return acl
}

// GetACL returns the ACL of a node as the servers have it.
func (s *Session) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	type list struct {
		acl  []zk.ACL
		stat *zk.Stat
	}
	r, err := call(ctx, s, func(c *zk.Conn) (list, error) {
		acl, stat, err := c.GetACL(path)
		return list{acl, stat}, err
	})
	return r.acl, r.stat, denied(err, path, PermissionRead)
}

// SetACL sets the ACL of a node at a version of it; -1: any.
func (s *Session) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) error {
	_, err := call(ctx, s, func(c *zk.Conn) (*zk.Stat, error) { return c.SetACL(path, acl, version) })
	return denied(err, path, PermissionAdmin)
}
