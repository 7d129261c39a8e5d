package zkclient

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// An access is who may do what with which node, where the configuration names
// all who may do anything: Config.Contenders, Operators and Readers.
//
//	                   contenders            operators   readers
//	<root>, above it   read                  all         read
//	locks and most     read, write,          all         read
//	                   create, delete
//	overrides, seal,   read                  all         read
//	identities
//	approvals          as locks; a question: read alone
//	audit              read, write           all         read
//	audit/log          read, create, delete; a record: read alone
//
// Only operators have the admin right, and only they may make or remove the
// nodes right below the root: a client that may remove a node can put another
// one in its place. So only an operator can make the root.
type access struct {
	root                           string // chroot included
	operators, contenders, readers []aclID
}

// named reports whether the configuration says who may do what. Else a client
// with the credentials of a node's creator may do all with it.
func (a access) named() bool { return len(a.contenders)+len(a.readers) > 0 }

// contendersUse is what contenders may do where nothing else is said: they write
// and remove each other's nodes, as the protocol wants.
const contendersUse = zk.PermRead | zk.PermWrite | zk.PermCreate | zk.PermDelete

// of returns the list of a node.
func (a access) of(node string) []zk.ACL {
	var list []zk.ACL
	grant := func(ids []aclID, perms int32) {
		for _, id := range ids {
			if !slices.ContainsFunc(list, func(e zk.ACL) bool { return e.Scheme == id.scheme && e.ID == id.id }) {
				list = append(list, id.may(perms))
			}
		}
	}
	grant(a.operators, zk.PermAll)
	grant(a.contenders, a.contendersMay(node))
	grant(a.readers, zk.PermRead)
	return list
}

func (a access) contendersMay(node string) int32 {
	rest, below := strings.CutPrefix(node, a.root+"/")
	if !below {
		if node == a.root || strings.HasPrefix(a.root, node+"/") {
			return zk.PermRead
		}
		return contendersUse // a classic recipe's
	}
	switch room, child, deeper := strings.Cut(rest, "/"); {
	case room == RoomIdentities, room == roomOverrides, room == roomSeal:
		return zk.PermRead
	case room == roomApprovals && deeper:
		return zk.PermRead
	case room == roomAudit && !deeper:
		return zk.PermRead | zk.PermWrite
	case room == roomAudit && child == "log":
		return zk.PermRead | zk.PermCreate | zk.PermDelete
	case room == roomAudit:
		return zk.PermRead
	}
	return contendersUse
}

// The rooms that are not for all contenders to write.
const (
	roomApprovals  = "approvals"
	roomAudit      = "audit"
	RoomIdentities = "identities"
	roomOverrides  = "overrides"
	roomSeal       = "seal"
)

// grants reports whether an identity may have these rights on a node, as far as
// can be seen.
func (a access) grants(node string, id aclID, rights int32) bool {
	return a.named() && slices.ContainsFunc(a.of(node), func(e zk.ACL) bool {
		return e.Perms&rights == rights && (aclID{e.Scheme, e.ID}).mayBe(id)
	})
}

// access returns who may do what. Names that cannot be read are left out.
func (cfg Config) access() access {
	read := func(list []string, parse func(string) (aclID, error)) (ids []aclID) {
		for _, s := range list {
			if id, err := parse(s); err == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	return access{
		root: cfg.Chroot + cfg.Root, operators: read(cfg.Operators, parseOperator),
		contenders: read(cfg.Contenders, parseContender), readers: read(cfg.Readers, parseOperator),
	}
}

// NodeACL returns the access control list that a node of a path, chroot
// included, has if it is made by clients with this configuration. It returns
// nil where the configuration does not say who may do what: without Contenders
// and Readers a node is for its creator, and for Operators.
func (cfg Config) NodeACL(node string) []ACL {
	if cfg.Root == "" {
		cfg.Root = defaultRoot
	}
	a := cfg.access()
	if !a.named() {
		return nil
	}
	var list []ACL
	for _, e := range a.of(node) {
		list = append(list, ACL{Permissions: Permission(e.Perms), Scheme: e.Scheme, ID: e.ID})
	}
	return list
}

// Rooms returns the nodes that an operator makes below the root, chroot included,
// the root itself first.
func (cfg Config) Rooms() []string {
	if cfg.Root == "" {
		cfg.Root = defaultRoot
	}
	return cfg.access().rooms()
}

// checkAccess reports what is contradictory about who may do what.
func (cfg *Config) checkAccess(bad func(field, format string, args ...any)) {
	lists := []struct {
		field string
		names []string
		parse func(string) (aclID, error)
	}{
		{"operators", cfg.Operators, parseOperator},
		{"contenders", cfg.Contenders, parseContender},
		{"readers", cfg.Readers, parseOperator},
	}
	sound := true
	for _, list := range lists {
		for _, s := range list.names {
			if _, err := list.parse(s); err != nil {
				bad(list.field, "%v", err)
				sound = false
			}
		}
	}
	a := cfg.access()
	if !a.named() {
		return
	}
	for _, id := range a.readers {
		switch {
		case slices.Contains(a.operators, id):
			bad("readers", "%s is an operator as well; take it out of one of the two", id.known())
		case slices.Contains(a.contenders, id):
			bad("readers", "%s is a contender as well; take it out of one of the two", id.known())
		}
	}
	if len(cfg.Operators) == 0 {
		bad("operators", "there are none, and only they may make the root and write overrides; name them")
	}
	own, err := cfg.OperatorID()
	self, _ := parseOperator(own)
	switch {
	case err != nil || !sound, slices.Contains(a.contenders, anyone): // said already, or welcome
	case own == "":
		bad("auth",
			"contenders or readers are named, and this client has no credentials to be one of them by; give those of one")
	case !slices.Contains(a.operators, self) && !slices.Contains(a.contenders, self) && !slices.Contains(a.readers, self):
		bad("contenders", "%s, which this client is, is named nowhere; add %s to contenders, "+
			"operators or readers (or check the password: another one makes another hash)", self.known(), own)
	}
}

// isReader reports whether the client may read alone.
func (c *Client) isReader() bool { return slices.Contains(c.who().access.readers, c.self) }

// isListed reports whether the client is one of those who may read everything.
func (c *Client) isListed() bool {
	a := c.who().access
	return a.named() && (c.isReader() || slices.Contains(a.operators, c.self) || slices.Contains(a.contenders, c.self))
}

// NoRootError is returned where Config.Contenders or Readers name who may do what,
// for a client that is no operator, while there is no root: it takes an operator
// to make it.
type NoRootError struct{ Root string }

func (e *NoRootError) Error() string {
	return fmt.Sprintf("%s does not exist, and only an operator may make it; let one run: lockkeeper init", e.Root)
}
