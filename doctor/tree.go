package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// checkAccess is about who may do what with the nodes.
func checkAccess(f *findings, x *facts, o Options) {
	if !x.answers() {
		return
	}
	if x.surveyErr != nil {
		f.problem("", fmt.Sprintf("the nodes cannot be read: %v", x.surveyErr), "")
		return
	}
	if !x.survey.Exists {
		f.ok(x.survey.Root, "does not exist yet: the first client creates it")
		return
	}
	if errors.As(x.unknown, new(*lock.ListsError)) {
		f.problem(x.survey.Root, fmt.Sprintf("this client makes no nodes here: %v", x.unknown), "lockkeeper init, "+
			"with the credentials of an operator and all lists; or give this client the lists that the others have")
	}
	if o.Client.NodeACL(x.survey.Root) != nil {
		checkMatrix(f, x, o)
		return
	}
	if len(o.Client.Operators) > 0 && x.known == nil {
		f.warn(x.survey.Root+"/identities", "is not there: every client has to be told who the operators are",
			"lockkeeper init, with the credentials of an operator")
	}
	if n := len(x.survey.Refused); n > 0 {
		f.problem(x.survey.Refused[0], fmt.Sprintf("%s cannot be read with %s", words.Count(n, "node"), credentials(o)),
			"give the credentials of those who created them (zookeeper.auth, --zk-digest-file), "+
				"or let an administrator change the ACLs")
	}
	open, closed, foreign := whoseNodes(x, o)
	if len(foreign) > 0 {
		f.problem(foreign[0], fmt.Sprintf("%s may be changed by others alone, not with %s: %s",
			words.Count(len(foreign), "node"), credentials(o), words.Few(foreign, few)),
			"use the same credentials in all clients of this root (zookeeper.auth, --zk-digest-file), "+
				"or let an administrator change the ACLs")
	}
	checkOperators(f, x, o)
	switch {
	case len(open) > 0 && (len(closed) > 0 || o.Client.Auth != nil):
		f.warn(open[0], fmt.Sprintf("every client that reaches ZooKeeper may change %s, though others are protected or "+
			"credentials are in use: %s", words.Count(len(open), "node"), words.Few(open, few)), "let an administrator set "+
			"their ACLs (setAcl -R), or begin with a new root; clients without credentials create such nodes")
		sensitive(f, x, open)
	case len(open) > 0:
		f.warn(x.survey.Root,
			"every client that reaches ZooKeeper may take, break and forge locks here: no credentials are in use",
			"give every client zookeeper.auth, and begin with a new root; without, "+
				"overrides in ZooKeeper and breaking locks are refused")
		sensitive(f, x, open)
	case len(foreign) == 0 && len(x.survey.Refused) == 0:
		f.ok(x.survey.Root, fmt.Sprintf("%s, none open to the world", words.Count(len(closed), "node")))
	}
}

// whoseNodes sorts nodes by who may change them: open and closed to the world; foreign,
// some of the closed ones, are for another client alone.
func whoseNodes(x *facts, o Options) (open, closed, foreign []string) {
	for _, node := range x.survey.ACLs {
		switch {
		case worldMay(node.ACL,
			zkclient.PermissionWrite|zkclient.PermissionCreate|zkclient.PermissionDelete|zkclient.PermissionAdmin):
			open = append(open, node.Path)
		default:
			closed = append(closed, node.Path)
			if !ours(node.ACL, o) && !restricted(x.survey.Root, node.Path) {
				foreign = append(foreign, node.Path)
			}
		}
	}
	return open, closed, foreign
}

// sensitive names what a stranger must not be able to write: an operator's word,
// and the record of what was done.
func sensitive(f *findings, x *facts, open []string) {
	for _, node := range []struct{ name, what string }{
		{"/audit", "forge the audit trail"},
		{"/audit/log", "forge or remove audit records"},
		{"/overrides", "apply overrides: daemons ignore them while that is so"},
	} {
		if path := x.survey.Root + node.name; slices.Contains(open, path) {
			f.problem(path, "every client that reaches ZooKeeper can "+node.what,
				"let an administrator set its ACL: operators all, others read")
		}
	}
}

// worldMay reports whether every client has one of these rights.
func worldMay(acl []zkclient.ACL, rights zkclient.Permission) bool {
	return slices.ContainsFunc(acl, func(a zkclient.ACL) bool { return a.Scheme == "world" && a.Permissions&rights != 0 })
}

// ours reports whether we may write, as far as can be told from here: what other
// schemes than digest know us by is not known. The hash of a password is hidden
// ("ana:x") from clients that may not change the list.
func ours(acl []zkclient.ACL, o Options) bool {
	for _, a := range acl {
		if a.Permissions&(zkclient.PermissionWrite|zkclient.PermissionCreate) == 0 {
			continue
		}
		if a.Scheme != "digest" ||
			o.Client.Auth != nil && "digest:"+a.ID == lock.DigestID(o.Client.Auth.User, o.Client.Auth.Password) {
			return true
		}
	}
	return false
}

// restricted reports whether a node is one that members need not be able to write.
func restricted(root, path string) bool {
	rest, _ := strings.CutPrefix(path, root)
	for _, room := range []string{"/approvals", "/audit", "/identities", "/overrides"} {
		if rest == room || strings.HasPrefix(rest, room+"/") {
			return true
		}
	}
	return false
}

// checkOperators: breaking a lock needs the right to delete its nodes.
func checkOperators(f *findings, x *facts, o Options) {
	for _, operator := range o.Client.Operators {
		scheme, id, _ := strings.Cut(operator, ":")
		var without []string
		for _, node := range x.survey.ACLs {
			if worldMay(node.ACL, zkclient.PermissionWrite) || restricted(x.survey.Root, node.Path) {
				continue
			}
			named := slices.ContainsFunc(node.ACL, func(a zkclient.ACL) bool {
				return a.Scheme == scheme && (a.ID == id || strings.HasSuffix(a.ID, ":x"))
			})
			if !named {
				without = append(without, node.Path)
			}
		}
		if len(without) > 0 {
			f.warn(without[0], fmt.Sprintf("the ACLs of %s do not name the operator %s, who cannot break locks there: %s",
				words.Count(len(without), "node"), known(operator), words.Few(without, few)),
				"let an administrator add the operator (setAcl -R); nodes get it from clients that have zookeeper.operators "+
					"when they create them")
		}
	}
}

// known is an operator without the hash of the password.
func known(operator string) string {
	if scheme, id, _ := strings.Cut(operator, ":"); scheme == "digest" {
		user, _, _ := strings.Cut(id, ":")
		return scheme + ":" + user
	}
	return operator
}

func credentials(o Options) string {
	switch {
	case o.Client.Auth != nil:
		return fmt.Sprintf("the password of the digest user %q that was given", o.Client.Auth.User)
	case o.Client.TLS != nil && len(o.Client.TLS.Certificates) > 0:
		return "the certificate that was given"
	}
	return "no credentials"
}

// checkNodes names what does not belong there.
func checkNodes(f *findings, x *facts, _ Options) {
	if !x.answers() || x.surveyErr != nil || !x.survey.Exists {
		return
	}
	const few = 10
	for i, s := range x.survey.Strangers {
		if i == few {
			f.warn("", fmt.Sprintf("%d more nodes do not belong where they are", len(x.survey.Strangers)-few), "")
			break
		}
		f.warn(s.Path, "does not belong here: "+s.Why,
			"find out who made it, and delete it (deleteall) if it is not needed; locks ignore it")
	}
	looked := fmt.Sprintf("%s looked at, %s, %s", words.Count(x.survey.Nodes, "node"),
		words.Count(x.survey.Scopes, "scope"), words.Count(x.survey.Requests, "request"))
	if !x.survey.Complete {
		f.skip(x.survey.Root, looked+"; not all in this time", "give it longer: --timeout 1m")
	} else if len(x.survey.Strangers) == 0 {
		f.ok(x.survey.Root, looked)
	}
}

// checkRecords names what stands where this program looks for a record, and is none
// that it can read: lists leave it out.
func checkRecords(f *findings, x *facts, _ Options) {
	if !x.answers() || x.surveyErr != nil || !x.survey.Exists || slices.Contains(x.survey.Refused, x.survey.Root) {
		return
	}
	const many = 100
	for i, u := range x.survey.Unreadable {
		if i == many {
			f.problem("", fmt.Sprintf("%d more records cannot be read", len(x.survey.Unreadable)-many),
				"put these right, and look again")
			break
		}
		why, do, _ := strings.Cut(u.Reason, "; ")
		f.problem(u.Path, why, do)
	}
	if len(x.survey.Unreadable) == 0 && x.survey.Complete {
		f.ok(x.survey.Root, "every record can be read")
	}
}

// juteBuffer is the default of jute.maxbuffer: no answer may be longer.
const juteBuffer = 0xfffff

const (
	manyIdle  = 10_000
	manyNodes = 1_000_000
)

// checkSize is about what grows.
func checkSize(f *findings, x *facts, o Options) {
	if !x.answers() || x.surveyErr != nil || !x.survey.Exists {
		return
	}
	list := x.survey.Longest
	found := fmt.Sprintf("its list of %s is the longest, %d KiB of the 1024 KiB that an answer may have (jute.maxbuffer)",
		words.Count(list.Children, "child"), list.Bytes>>10)
	found = strings.Replace(found, "childs", "children", 1)
	switch {
	case list.Bytes > juteBuffer:
		f.problem(list.Path, found+": clients in Java cannot list it",
			"raise jute.maxbuffer on all servers and clients, and let fewer requests wait for one lock")
	case list.Bytes > juteBuffer/2:
		f.warn(list.Path, found,
			"let fewer requests wait for one lock (acquire_timeout), or spread the work over more scopes")
	case list.Path != "":
		f.ok(list.Path, found)
	}
	switch {
	case x.survey.Idle >= manyIdle:
		f.warn("", fmt.Sprintf("%d of %d scopes were not locked for %s: each stays as a small node",
			x.survey.Idle, x.survey.Scopes, days(o)),
			"let lockkeeper gc remove them, from cron; or use scopes whose names come back, without dates and ids")
	case x.survey.Idle > 0:
		f.ok("", fmt.Sprintf("%d of %d scopes were not locked for %s", x.survey.Idle, x.survey.Scopes, days(o)))
	}
	for _, s := range x.servers {
		if n, ok := s.figures.number("znode_count"); ok && n > manyNodes {
			f.warn(s.address, fmt.Sprintf("has %.0f nodes: its snapshots and its start take long", n),
				"find out who makes them; ZooKeeper keeps all of them in memory")
			break
		}
	}
}

func days(o Options) string { return words.Count(int(o.IdleAfter.Hours()/24), "day") }
