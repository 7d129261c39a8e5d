package virtual

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Contender is the node of a request for a lock, as docs/protocol.md describes it.
type Contender struct {
	zktest.Node `json:"-"`

	ID    string `json:"-"`
	Holds bool   `json:"-"` // the lock node names it, or its own name says that it has walked in

	Owner   string        `json:"owner"`
	Mode    priority.Mode `json:"mode"`
	Granted bool          `json:"granted"`
	Token   lock.Token    `json:"token"` // of a holder; never 0
	Hold    string        `json:"hold"`
}

// Lock is a lock node, with the requests below it.
type Lock struct {
	zktest.Node

	Scope      string
	Err        error // of the grant record, if it cannot be read
	Contenders []Contender
}

// Locks returns all locks below a root.
func Locks(z *zktest.Server, root string) []*Lock {
	var locks []*Lock
	for _, n := range z.Tree(root + "/locks") {
		below, _ := strings.CutPrefix(n.Path, root)
		switch rest := strings.Split(below, "/"); len(rest) {
		case 4: // /locks/<2 hex>/<scope>
			locks = append(locks, &Lock{Node: n, Scope: strings.ReplaceAll(rest[3], "%2F", "/")})
		case 5: // they come behind their parent
			l := locks[len(locks)-1]
			l.Contenders = append(l.Contenders, contender(n))
		}
	}
	for _, l := range locks {
		var g struct{ Holders []string }
		if len(l.Data) > 0 {
			l.Err = json.Unmarshal(l.Data, &g)
		}
		for i, c := range l.Contenders {
			named, walkedIn := slices.Contains(g.Holders, c.ID), strings.Contains(c.Path, "-w-"+c.ID)
			l.Contenders[i].Holds = c.ID != "" && (named || walkedIn)
		}
	}
	return locks
}

func contender(n zktest.Node) Contender {
	var c Contender
	_ = json.Unmarshal(n.Data, &c) // a foreign node has no owner
	c.Node, c.ID = n, GUID(n.Path)
	if c.Token == 0 {
		c.Token = lock.Token(n.Stat.Mzxid)
	}
	return c
}

// Contenders returns all requests for locks below a root.
func Contenders(z *zktest.Server, root string) (all []Contender) {
	for _, l := range Locks(z, root) {
		all = append(all, l.Contenders...)
	}
	return all
}

// GUID returns the guid in the path of a contender, <root>/locks/<2 hex>/<scope>/<name>; "" of any other node.
func GUID(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) < 5 || parts[len(parts)-4] != "locks" {
		return ""
	}
	name := strings.Split(parts[len(parts)-1], "-")
	if len(name) < 4 {
		return ""
	}
	return name[2]
}
