package zkclient

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// Unreadable is a node that a list leaves out, because this program cannot make
// anything of it: a newer program has written it, or a foreign client has, or
// its ACL does not let this client read it. Lists return what they could read,
// and these beside it: one bad record is no reason to see nothing.
//
// A decision that depends on a record does not go by a list. It reads that
// record, and gets a *RecordError or an *AccessError.
type Unreadable struct {
	Path   string `json:"path"`   // of the node
	Name   string `json:"-"`      // of the job, group, scope or question that it is about; "" when that is not known
	Reason string `json:"reason"` // why it is left out, and what to do, for people
}

// String returns the path and the reason.
func (u Unreadable) String() string { return u.Path + ": " + u.Reason }

// WhyDenied is the reason of what may not be read.
const WhyDenied = "its ACL does not let this client read it"

// LeftOut tells of what a list has to leave out, if err is about that one node
// alone.
func LeftOut(err error, node, name string) (Unreadable, bool) {
	if e, ok := errors.AsType[*znode.RecordError](err); ok {
		return Unreadable{Path: cmp.Or(e.Node, node), Name: name, Reason: e.Reason()}, true
	}
	if e, ok := errors.AsType[*AccessError](err); ok {
		return Unreadable{
			Path: cmp.Or(e.Node, node), Name: name,
			Reason: WhyDenied + "; an operator may change the ACL, see lockkeeper doctor",
		}, true
	}
	return Unreadable{}, false
}

// Misplaced tells of a node that does not belong where it is.
func Misplaced(node, why string) Unreadable {
	return Unreadable{Path: node, Reason: why + "; find out who made it, and delete it if it is not needed"}
}

// ByPath sorts what was found at the same time.
func ByPath(all []Unreadable) []Unreadable {
	slices.SortFunc(all, func(a, b Unreadable) int { return strings.Compare(a.Path, b.Path) })
	return all
}
