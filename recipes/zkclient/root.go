package zkclient

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// rooms are the children of the root, in order.
var rooms = []string{
	"approvals", roomAudit, "clock", "emergency", "gc", "groups", RoomIdentities, "locks", roomOverrides, "requests",
	roomSeal, "ticks",
}

func (a access) rooms() []string {
	all := []string{a.root}
	for _, room := range rooms {
		if room == roomOverrides { // there is one as soon as there are overrides
			continue
		}
		if all = append(all, a.root+"/"+room); room == roomAudit {
			all = append(all, a.root+"/"+room+"/log")
		}
	}
	return all
}

// roomData is what a room is made with.
func (a access) roomData(room string) []byte {
	switch room {
	case a.root + "/" + RoomIdentities:
		return a.identities()
	case a.root + "/" + roomSeal:
		return a.seal()
	}
	return nil
}

// makeRooms makes what only operators may.
func (s *Session) makeRooms(ctx context.Context) error {
	c := s.c
	if c.roomsMade.Load() {
		return nil
	}
	for _, room := range c.who().access.rooms() {
		_, err := s.Create(ctx, room, c.who().access.roomData(room), 0)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	if _, err := s.renew(ctx, c.root+"/"+roomSeal, c.who().access.seal()); err != nil {
		return err
	}
	c.roomsMade.Store(true)
	return nil
}

// renew makes a node say something, and reports whether it did not before.
func (s *Session) renew(ctx context.Context, node string, want []byte) (bool, error) {
	for {
		has, stat, err := s.Get(ctx, node)
		if err != nil || string(has) == string(want) {
			return false, err
		}
		if _, err = s.Set(ctx, node, want, stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err == nil, err
		}
	}
}

// A RootNode is what Init has found or made of the root or of a node right below it.
type RootNode struct {
	Path  string // chroot included
	State RootNodeState

	// Differs is in what its access control list is not that of the configuration,
	// which Init leaves as it is; "" if it is.
	Differs string
}

// A RootNodeState is what Init has done.
type RootNodeState string

// The states of nodes.
const (
	RootNodeMade    RootNodeState = "made"
	RootNodeThere   RootNodeState = "there"   // before
	RootNodeRenewed RootNodeState = "renewed" // it was there, with other lists in it
)

// MakeRoot is Init for those who need not know what was there.
func (c *Client) MakeRoot(ctx context.Context) error {
	_, err := c.Init(ctx)
	return err
}

// Init makes the root, and, where Config.Contenders or Readers say who may do what,
// what is right below it, as far as that is not there. It leaves the identities
// of the configuration there for all other clients: those of one that
// has none stay as they are. It returns the nodes in their order.
//
//   - *IdentityError: there are lists, and the client is no operator by them
//   - *AccessError, *ListsError, *UntrustedError: the root is there, and not for this client
//   - *UnavailableError: ZooKeeper does not answer
func (c *Client) Init(ctx context.Context) ([]RootNode, error) {
	return Promptly(ctx, c, func() (all []RootNode, err error) {
		err = c.Inspecting(ctx, func(s *Session) error {
			k := initiation{s: s, c: c, made: make(map[string]bool)}
			all, err = k.run(ctx)
			return err
		})
		return all, err
	}, nil)
}

// An initiation is one call of Init, in one session.
type initiation struct {
	s    *Session
	c    *Client
	made map[string]bool
}

func (k *initiation) run(ctx context.Context) ([]RootNode, error) {
	c := k.c
	st, err := k.identities(ctx)
	if err != nil {
		return nil, err
	}
	c.stands.Store(st)
	if st.access.any() {
		if err := c.requireOperator(c.root + " not made"); err != nil {
			return nil, err
		}
	}
	for i := 1; i < len(c.root); i++ {
		if c.root[i] == '/' {
			if _, err := k.make(ctx, c.root[:i]); err != nil && !errors.As(err, new(*AccessError)) {
				return nil, err
			}
		}
	}
	nodes := []string{c.root}
	if st.access.named() {
		nodes = st.access.rooms()
	} else if st.access.any() {
		nodes = append(nodes, c.root+"/"+RoomIdentities)
	}
	var all []RootNode
	for _, node := range nodes {
		n, err := k.node(ctx, st, node)
		if err != nil {
			return all, err
		}
		all = append(all, n)
	}
	c.roomsMade.Store(st.access.named())
	c.introduced.Store(true)
	return all, nil
}

// identities returns who may do what from now on: as the configuration says, or if
// it says nothing, as ZooKeeper has it.
func (k *initiation) identities(ctx context.Context) (*standing, error) {
	c := k.c
	node := c.root + "/" + RoomIdentities
	posted, err := k.s.identities(ctx, node)
	given := c.given.access
	switch {
	case znode.IsNewer(err): // its writer knows more about who may do what
		return nil, &ListsError{Node: node, Why: "it says who may do what, and " + err.Error()}
	case err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.As(err, new(*znode.RecordError)):
		return nil, err
	case given.named(), given.any() && !posted.named():
		st := *c.given
		st.posted = true
		return &st, nil
	case given.any():
		return nil, &ListsError{Node: node, Why: fmt.Sprintf("it has contenders or readers (%s), "+
			"and this client was given operators alone; give it all lists, or none to leave them as they are", posted.known())}
	}
	st, err := c.learnIdentities(ctx, k.s)
	if st == nil && err == nil {
		st = c.given
	}
	return st, err
}

// make makes a node, and reports whether it was not there.
func (k *initiation) make(ctx context.Context, node string) (bool, error) {
	a := k.c.who().access
	data := a.roomData(node)
	var err error
	if path.Base(node) == RoomIdentities && !a.named() {
		var root []zk.ACL
		if root, _, err = k.s.GetACL(ctx, k.c.root); err == nil {
			_, err = k.s.CreateNamed(ctx, node, data, 0, k.c.OperatorACL(root))
		}
	} else {
		_, err = k.s.Create(ctx, node, data, 0)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return false, nil
	}
	return err == nil, err
}

// node makes one of the nodes, or looks what is there.
func (k *initiation) node(ctx context.Context, st *standing, node string) (RootNode, error) {
	n := RootNode{Path: node, State: RootNodeThere}
	made, err := k.make(ctx, node)
	if err != nil {
		return n, err
	}
	if k.made[node] = k.made[node] || made; k.made[node] {
		n.State = RootNodeMade
		return n, nil
	}
	if data := st.access.roomData(node); data != nil {
		renewed, err := k.s.renew(ctx, node, data)
		if err != nil {
			return n, err
		} else if renewed {
			n.State = RootNodeRenewed
		}
	}
	acl, _, err := k.s.GetACL(ctx, node)
	if err != nil {
		return n, err
	}
	n.Differs = k.differs(st, node, acl)
	return n, nil
}

// differs says in what a list is not as the configuration has it. Where that
// names no identity for the node, it has to be closed to strangers if the
// client has credentials.
func (k *initiation) differs(st *standing, node string, has []zk.ACL) string {
	var wrong []string
	want := k.c.ACLOf(node)
	if st.access.named() {
		for _, e := range has {
			if !slices.ContainsFunc(want, func(w zk.ACL) bool { return sameEntry(e, w) }) {
				wrong = append(wrong, describeACL(e)+" should not be there")
			}
		}
	} else {
		for _, e := range has {
			if id := (aclID{e.Scheme, e.ID}); k.c.identity != "" && !id.proven() && e.Perms&(makesNodes|zk.PermWrite) != 0 {
				wrong = append(wrong, describeACL(e)+" is every client")
			}
		}
	}
	for _, w := range want {
		if w.Scheme == "auth" {
			w = k.c.self.may(w.Perms)
		}
		if !slices.ContainsFunc(has, func(e zk.ACL) bool { return sameEntry(e, w) }) {
			if world := (aclID{w.Scheme, w.ID}) == anyone; world && !st.access.named() {
				continue // a client without credentials, where others have some
			}
			wrong = append(wrong, describeACL(w)+" is missing")
		}
	}
	return strings.Join(wrong, ", ")
}

// sameEntry compares an entry as ZooKeeper shows it, perhaps without the hash, with
// one that is known whole.
func sameEntry(has, want zk.ACL) bool {
	return has.Perms == want.Perms && (aclID{has.Scheme, has.ID}).mayBe(aclID{want.Scheme, want.ID})
}
