package zkclient

import (
	"context"
	"crypto/sha1" //nolint:gosec // what ZooKeeper's digest scheme is made of
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Identity returns who the client is to ZooKeeper: "digest:ana", or
// "x509:CN=ana,O=example"; "" for a client without credentials. It says what
// the client was configured with: ZooKeeper takes any digest user, and what a
// wrong password may not do shows when it is tried.
func (c *Client) Identity() string { return c.identity }

// DigestID returns how ZooKeeper's access control lists name a user of the
// digest scheme: "digest:ana:<hash of user and password>". It does not suffice
// to log in, but passwords can be tried against it.
func DigestID(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password)) //nolint:gosec // see the import
	return "digest:" + user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// OperatorID returns how Operators names the client itself: by its digest user,
// or by the subject of its certificate. It returns "" for a client without
// credentials, and an error for a certificate that has no subject.
func (cfg Config) OperatorID() (string, error) {
	switch {
	case cfg.Auth != nil:
		return DigestID(cfg.Auth.User, cfg.Auth.Password), nil
	case cfg.X509:
		subject, err := certificateSubject(cfg.TLS)
		return "x509:" + subject, err
	}
	return "", nil
}

// An aclID is the identity in an entry of an access control list.
type aclID struct{ scheme, id string }

func (a aclID) String() string { return a.scheme + ":" + a.id }

// known returns the id without the hash of a password, for people.
func (a aclID) known() string {
	if a.scheme == "digest" {
		user, _, _ := strings.Cut(a.id, ":")
		return "digest:" + user
	}
	return a.String()
}

// proven reports whether a client has to prove that it is the one.
func (a aclID) proven() bool { return a.scheme != "world" && a.scheme != "ip" && a.scheme != "" }

// masked reports whether ZooKeeper has hidden the hash of the password, as it
// does from every client that may not change the list.
func (a aclID) masked() bool { return a.scheme == "digest" && strings.HasSuffix(a.id, ":x") }

// parseOperator reads one of Config.Operators.
func parseOperator(s string) (aclID, error) {
	const instead = `write "digest:USER:HASH" (see lockkeeper config operator) or "x509:SUBJECT"`
	scheme, id, _ := strings.Cut(s, ":")
	switch scheme {
	case "digest":
		user, hash, _ := strings.Cut(id, ":")
		if sum, err := base64.StdEncoding.DecodeString(hash); user == "" || err != nil || len(sum) != sha1.Size {
			return aclID{}, fmt.Errorf("%q does not name a digest user with the hash of the password; %s", s, instead)
		}
	case "x509":
		if !strings.Contains(id, "=") {
			return aclID{},
				fmt.Errorf("%q does not name the subject of a certificate, such as CN=ana,O=example; %s", s, instead)
		}
	case "world", "ip", "auth":
		return aclID{}, fmt.Errorf("%q names no single identity; %s", s, instead)
	default:
		return aclID{}, fmt.Errorf("%q has no scheme that is known; %s", s, instead)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return aclID{}, fmt.Errorf("%q contains a control character; %s", s, instead)
	}
	return aclID{scheme, id}, nil
}

// identify fills in who the client is, and what its configuration says of who may
// do what: who the operators are, and with what ACL it creates its nodes: its own and
// the operators', or open to all. The configuration has been validated.
func (c *Client) identify() {
	if id, _ := c.cfg.OperatorID(); id != "" {
		c.self, _ = parseOperator(id)
	}
	if c.self != (aclID{}) {
		c.identity = c.self.known()
	}
	c.given = c.standing(c.cfg.access())
	c.stands.Store(c.given)
}

// A standing is who may do what, as far as a client knows: by its configuration,
// or by what an operator has left in ZooKeeper. It does not change.
type standing struct {
	operators []aclID
	acl       []zk.ACL // of what the client creates, unless access says otherwise
	access    access
	posted    bool // all of it stands in ZooKeeper as well
}

// standing returns what follows from lists.
func (c *Client) standing(a access) *standing {
	st := &standing{operators: a.operators, access: a}
	switch {
	case a.named():
		st.acl = a.of(c.root + "/locks")
	case c.self == (aclID{}):
		st.acl = zk.WorldACL(zk.PermAll)
	default:
		st.acl = zk.AuthACL(zk.PermAll)
		for _, id := range a.operators {
			if id != c.self {
				st.acl = append(st.acl, id.may(zk.PermAll))
			}
		}
	}
	return st
}

// who returns what is known now of who may do what.
func (c *Client) who() *standing {
	if st := c.stands.Load(); st != nil {
		return st
	}
	return &standing{}
}

// ACL is for nodes that this client makes.
func (c *Client) ACL() []zk.ACL { return c.who().acl }

// Unlisted reports whether no client can be told from another: the client has
// no name, and operators are not listed.
func (c *Client) Unlisted() bool { return c.identity == "" && len(c.who().operators) == 0 }

// ACLOf returns the list with which the client makes a node.
func (c *Client) ACLOf(node string) []zk.ACL {
	if c.who().access.named() {
		return c.who().access.of(node)
	}
	return c.who().acl
}

func (a aclID) may(perms int32) zk.ACL { return zk.ACL{Perms: perms, Scheme: a.scheme, ID: a.id} }

// isOperator reports whether the client is one: without configured operators
// every client with credentials is.
func (c *Client) isOperator() bool {
	return c.identity != "" && (len(c.who().operators) == 0 || slices.Contains(c.who().operators, c.self))
}

// requireIdentity returns an *IdentityError for a client without credentials.
// The error says what was not done.
func (c *Client) requireIdentity(what string) error {
	if c.identity == "" {
		return &IdentityError{What: what}
	}
	return nil
}

// requireOperator returns an *IdentityError for a client that is no operator.
func (c *Client) requireOperator(what string) error {
	if c.isOperator() {
		return nil
	}
	e := &IdentityError{What: what, Identity: c.identity}
	for _, id := range c.who().operators {
		e.Operators = append(e.Operators, id.known())
	}
	return e
}

// unknownIdentity explains that ZooKeeper does not take the ACL of a node.
func (c *Client) unknownIdentity(err error) error {
	isX509 := func(id aclID) bool { return id.scheme == "x509" }
	switch {
	case isX509(c.self):
		return fmt.Errorf("the ZooKeeper servers do not know this client by its certificate; "+
			"connect to their secureClientPort, or give a digest user (zookeeper.auth): %w", err)
	case slices.ContainsFunc(c.who().operators, isX509):
		return fmt.Errorf("the ZooKeeper servers authenticate no client by certificate; "+
			"configure their secureClientPort, or take x509 from zookeeper.operators: %w", err)
	}
	return err
}

// IdentityError is returned for what needs an author: overrides, broken locks,
// decisions about approvals. The client has no credentials, or those of an
// identity that is no operator. Nothing has changed.
type IdentityError struct {
	What      string   // was not done, for example `override "INC-1" not applied`
	Identity  string   // of the client; "" without credentials
	Operators []string // who may, without hashes
}

func (e *IdentityError) Error() string {
	if e.Identity == "" {
		return e.What + ": this client has no credentials, so no record could name it; " +
			"give some (zookeeper.auth, or --zk-digest-file)"
	}
	return fmt.Sprintf("%s: %s is none of the operators (%s); use the credentials of one (zookeeper.auth, "+
		"or --zk-digest-file), or add %[2]s to zookeeper.operators", e.What, e.Identity, strings.Join(e.Operators, ", "))
}

// KnowsOperator reports whether an identity, as records have it, such as
// "digest:ana", is that of an operator: without configured operators, that of
// any client with credentials.
func (c *Client) KnowsOperator(identity string) bool {
	if identity == "" || len(c.who().operators) == 0 {
		return identity != ""
	}
	return slices.ContainsFunc(c.who().operators, func(id aclID) bool { return id.known() == identity })
}

// CheckOperator returns nil for a client with the credentials of an operator,
// else an *IdentityError that says that what was not done. A client whose
// configuration does not name the operators looks into ZooKeeper first, as for
// any other request.
func (c *Client) CheckOperator(ctx context.Context, what string) error {
	if err := c.requireIdentity(what); err != nil {
		return err
	}
	if len(c.given.operators) == 0 {
		if _, err := Promptly(ctx, c, func() (*Session, error) { return c.Admit(ctx) }, nil); err != nil {
			return err
		}
	}
	return c.requireOperator(what)
}
