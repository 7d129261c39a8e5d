package zkclient

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// Identities are who may do what below a root, as Config has them.
type Identities struct {
	Operators, Contenders, Readers []string
}

// any reports whether there are lists at all.
func (a access) any() bool { return a.named() || len(a.operators) > 0 }

// ListsError is returned by everything that could make a node below the root,
// for a client that lacks part of the lists of who may do what: others could
// not read its nodes, and it could not tell an operator's override from a
// forged one. Nothing was made.
type ListsError struct {
	Node string // that tells what the client does not know
	Why  string // and what to do
}

func (e *ListsError) Error() string { return e.Node + ": " + e.Why }

// RefusalPoll is how often a refused client polls the lists.
const RefusalPoll = time.Second

// IsRefusal reports whether Introduce has found out that the client must make no
// nodes.
func IsRefusal(err error) bool {
	return IsUntrusted(err) || errors.As(err, new(*ListsError)) || errors.As(err, new(*AccessError)) ||
		errors.As(err, new(*znode.RecordError))
}

// Introduce makes sure, before the client makes its first node below the root, that
// it knows who may do what there. It takes the lists from <root>/identities where its
// configuration has none. It returns an error that IsRefusal knows for a client that
// knows too little, which is looked at again at the next request: an operator may
// have put it right.
func (c *Client) Introduce(ctx context.Context, s *Session) error {
	if c.introduced.Load() || c.introducing == nil {
		return nil
	}
	select {
	case c.introducing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.introducing }()
	if c.introduced.Load() {
		return nil
	}
	st, err := c.learnIdentities(ctx, s)
	if err != nil {
		return err
	}
	if st == nil {
		c.rootless.Store(int64(c.time.clock.now()) + 1)
		return nil
	}
	c.stands.Store(st)
	c.introduced.Store(true)
	return nil
}

// greet is Introduce for every request. While there is no root, as where only classic
// recipes are used, it looks once in a while; whatever makes a node below it looks by itself.
func (c *Client) greet(ctx context.Context, s *Session) error {
	if c.mayPass() {
		return nil
	}
	return c.Introduce(ctx, s)
}

func (c *Client) mayPass() bool {
	if c.introduced.Load() {
		return true
	}
	at := c.rootless.Load()
	return at > 0 && c.time.clock.now().Sub(Instant(at)) < RefusalPoll
}

// home is the root whose lists count: that of a measurement's own root is the one above.
func (c *Client) home() string {
	if IsScratch(path.Base(c.root)) {
		return path.Dir(c.root)
	}
	return c.root
}

// learnIdentities returns who may do what; nil as long as there is no root.
func (c *Client) learnIdentities(ctx context.Context, s *Session) (*standing, error) {
	node := c.home() + "/" + RoomIdentities
	posted, err := s.identities(ctx, node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return c.explain(ctx, s)
	case errors.As(err, new(*znode.RecordError)):
		return nil, &ListsError{Node: node, Why: "it says who may do what, and " + err.Error()}
	case err != nil:
		return nil, err
	}
	posted.root = c.root
	if why := c.disagreement(posted); why != "" {
		return nil, &ListsError{Node: node, Why: why}
	}
	st := c.standing(posted)
	st.posted = true
	if c.given.access.named() || len(c.given.operators) > 0 && !posted.named() {
		return st, nil // they are the client's own
	}
	switch {
	case !posted.named(), posted.has(c.self):
	case !slices.Contains(posted.contenders, anyone):
		return nil, &ListsError{Node: node, Why: fmt.Sprintf("%s is in none of the lists (%s); check that these are the "+
			"right credentials, or let an operator add it and run lockkeeper init", c.self.named(), posted.known())}
	case c.self != (aclID{}) && len(c.given.operators) == 0:
		// The first client can have made them without knowing who this client is.
		return nil, &ListsError{Node: node, Why: fmt.Sprintf("%s is in none of the lists (%s), "+
			"which let every client contend: any client could have made them; "+
			"leave the credentials out, or name the operators in zookeeper.operators, if this is the right root",
			c.self.named(), posted.known())}
	}
	return st, c.vouchIdentities(ctx, s, node, posted)
}

// identities reads the node.
func (s *Session) identities(ctx context.Context, node string) (access, error) {
	data, _, err := s.Get(ctx, node)
	if err != nil {
		return access{}, err
	}
	a, err := decodeIdentities(data)
	return a, znode.InNode(err, node)
}

// disagreement says how the lists of the configuration differ from those in
// ZooKeeper, and what to do; "" if they do not. Operators alone may be named to be
// sure of them: then the other lists are those in ZooKeeper.
func (c *Client) disagreement(posted access) string {
	given := c.given.access
	if !given.any() {
		return ""
	}
	lists := []struct {
		name       string
		own, there []aclID
	}{{"operators", given.operators, posted.operators}}
	if given.named() {
		lists = append(lists, []struct {
			name       string
			own, there []aclID
		}{{"contenders", given.contenders, posted.contenders}, {"readers", given.readers, posted.readers}}...)
	}
	for _, l := range lists {
		if sameIDs(l.own, l.there) {
			continue
		}
		own, there := knownIDs(l.own), knownIDs(l.there)
		if own == there {
			there += ", with other passwords"
		}
		return fmt.Sprintf(
			"it has other %s (%s) than this client was given (%s); leave zookeeper.operators, zookeeper.contenders and "+
				"zookeeper.readers out here, or write what is there, or let an operator run lockkeeper init with the new lists",
			l.name, there, own)
	}
	return ""
}

// known names all lists, without hashes.
func (a access) known() string {
	text := "operators " + knownIDs(a.operators)
	if len(a.contenders) > 0 {
		text += "; contenders " + knownIDs(a.contenders)
	}
	if len(a.readers) > 0 {
		text += "; readers " + knownIDs(a.readers)
	}
	return text
}

// has reports whether an identity is in one of the lists.
func (a access) has(id aclID) bool {
	return slices.Contains(a.operators, id) || slices.Contains(a.contenders, id) || slices.Contains(a.readers, id)
}

// vouchIdentities checks that only those who are operators by the node could
// have written it, or put it there. A client that made the root for itself can
// name any operators, if it knows the hash of this client's password, or its
// certificate's subject: name the operators in the configuration where that
// matters.
func (c *Client) vouchIdentities(ctx context.Context, s *Session, node string, posted access) error {
	for _, look := range []struct {
		node   string
		rights int32
	}{{path.Dir(node), makesNodes}, {node, zk.PermWrite | zk.PermAdmin}} {
		acl, _, err := s.GetACL(ctx, look.node)
		if err != nil {
			return err
		}
		for _, e := range acl {
			id := aclID{e.Scheme, e.ID}
			if e.Perms&look.rights == 0 || slices.ContainsFunc(posted.operators, id.mayBe) ||
				!posted.named() && c.self.mayBe(id) {
				continue
			}
			return &UntrustedError{Node: look.node, Entry: describeACL(e), Why: "who is none of the operators in " + node +
				": what is there could be forged; let an operator take it from the ACL (lockkeeper doctor prints the command)"}
		}
	}
	return nil
}

// explain is for a root without identities, as programs before them have made
// it, and clients of an open deployment do. It returns what the client goes by
// if its lists name every identity that the root's list names.
func (c *Client) explain(ctx context.Context, s *Session) (*standing, error) {
	at := c.home()
	acl, _, err := s.GetACL(ctx, at)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil //nolint:nilnil // there is no root
	case err != nil:
		return nil, err
	}
	a := c.given.access
	if !a.any() {
		// Identities that may do all with the root are operators: they have to be
		// able to set right what this client makes.
		a.operators = c.members(acl)
	}
	for _, e := range acl {
		id := aclID{e.Scheme, e.ID}
		switch {
		case id == anyone && e.Perms&makesNodes != 0:
			return c.given, nil // open to all: that is reported elsewhere
		case !id.proven(), c.self.mayBe(id),
			slices.ContainsFunc(slices.Concat(a.operators, a.contenders, a.readers), id.mayBe):
			continue
		}
		if c.given.access.any() && e.Perms&makesNodes != 0 {
			return nil, &UntrustedError{Node: at, Entry: describeACL(e), Why: c.stranger(id, nil, true)}
		}
		return nil, &ListsError{Node: at, Why: c.given.access.missing(describeACL(e))}
	}
	if c.given.access.any() {
		return c.given, nil
	}
	st := *c.given
	st.acl = c.standing(a).acl
	return &st, nil
}

// missing says what a client has to be told whose lists do not have an entry of an
// access control list.
func (a access) missing(entry string) string {
	var lacks []string
	for _, list := range []struct {
		name string
		ids  []aclID
	}{{"zookeeper.operators", a.operators}, {"zookeeper.contenders", a.contenders}, {"zookeeper.readers", a.readers}} {
		if len(list.ids) == 0 {
			lacks = append(lacks, list.name)
		}
	}
	give := "give this client the lists that all others have"
	if len(lacks) > 0 {
		give += " (it has no " + strings.Join(lacks, ", ") + ")"
	}
	return fmt.Sprintf("its ACL has %s, who is in no list that this client knows: "+
		"it could not tell overrides from forged ones, and others could not read what it makes; "+
		"let an operator run lockkeeper init, which leaves the lists there for all clients, or %s", entry, give)
}

// Identities returns who may do what below the root, as an operator has left it
// in ZooKeeper; nil if none has.
func (c *Client) Identities(ctx context.Context) (*Identities, error) {
	return Promptly(ctx, c, func() (there *Identities, err error) {
		err = c.Inspecting(ctx, func(s *Session) error {
			a, err := s.identities(ctx, c.home()+"/"+RoomIdentities)
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			} else if err != nil {
				return err
			}
			there = &Identities{}
			for _, list := range []struct {
				ids  []aclID
				into *[]string
			}{{a.operators, &there.Operators}, {a.contenders, &there.Contenders}, {a.readers, &there.Readers}} {
				for _, id := range list.ids {
					*list.into = append(*list.into, id.String())
				}
			}
			return nil
		})
		return there, err
	}, nil)
}

// CheckIdentities returns nil for a client that knows all that it has to know before
// it makes nodes; else what it lacks: a *ListsError, *UntrustedError, *AccessError or
// *RecordError; or an *UnavailableError. Every method that may make a node looks by itself.
func (c *Client) CheckIdentities(ctx context.Context) error {
	_, err := Promptly(ctx, c, func() (*Session, error) { return c.Admit(ctx) }, nil)
	return err
}
