package zkclient

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// ErrClosed is returned by every call on a Client after Close.
var ErrClosed = errors.New("lockkeeper: client is closed")

// RequestError is returned for a Request, scope or Config that can never work.
type RequestError = priority.RequestError

// RecordError is returned for a node whose data this program cannot use: a newer program has written them, or
// something that is none of ours.
type RecordError = znode.RecordError

// BusyError is returned by Close while locks are held or requested.
type BusyError struct {
	Held      []string // scopes
	Requested []string // scopes
}

func (e *BusyError) Error() string {
	var parts []string
	if len(e.Held) > 0 {
		parts = append(parts, fmt.Sprintf("still holding %s: release before closing", strings.Join(e.Held, ", ")))
	}
	if len(e.Requested) > 0 {
		parts = append(parts, fmt.Sprintf("still requesting %s: cancel before closing", strings.Join(e.Requested, ", ")))
	}
	return "lockkeeper: cannot close: " + strings.Join(parts, "; ")
}

// UnavailableError is returned when ZooKeeper does not answer. New requests
// fail with it at once while the breaker is open; what is held stays held
// until its own deadline.
type UnavailableError struct {
	Servers []string
	Since   time.Duration // how long there has been no answer; 0 when unknown
	Err     error         // the last thing that went wrong
}

func (e *UnavailableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ZooKeeper at %s does not answer", strings.Join(e.Servers, ","))
	if e.Since > 0 {
		fmt.Fprintf(&b, " since %s", e.Since.Round(time.Millisecond))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	b.WriteString("; check that the servers run and can be reached from here")
	return b.String()
}

// Unwrap returns the last thing that went wrong.
func (e *UnavailableError) Unwrap() error { return e.Err }

// AccessError is returned when the access control list (ACL) of a node does
// not allow what a request needs. Trying again is of no use.
type AccessError struct {
	Node  string
	Below bool   // it is Node or a node below it
	User  string // who was refused: a user of the digest scheme, or "x509:..."; "" without credentials

	Reader bool       // the user is one of Config.Readers
	Listed bool       // the user is one of Config.Readers, Contenders or Operators
	Right  Permission // that is missing on Node; 0 when that is not known
	Err    error
}

func (e *AccessError) Error() string {
	node, who, check := e.Node, "clients without credentials", "give those of the user that the ACL names"
	if e.Below {
		node += " or a node below it"
	}
	switch {
	case strings.HasPrefix(e.User, "x509:"):
		who, check = fmt.Sprintf("the certificate %q", e.User), "check that it is the right one"
	case e.User != "":
		who, check = fmt.Sprintf("the digest user %q", e.User), "check the user and the password"
	}
	switch {
	case e.Listed && e.Right == PermissionRead: // all identities in the lists may
		return fmt.Sprintf("ZooKeeper refuses access: the ACL of %s does not allow it to %s, who is in the lists of the "+
			"root: the node was made with others; lockkeeper doctor says how to set it right", node, who)
	case e.Reader:
		check = "it is one of zookeeper.readers, who may read alone: use the credentials of a contender or an operator"
	}
	text := fmt.Sprintf("ZooKeeper refuses access: the ACL of %s does not allow it to %s; %s (zookeeper.auth), "+
		"or let an administrator change the ACL", node, who, check)
	if what := rightWords[e.Right]; what != "" {
		text += fmt.Sprintf("; missing is the right to %s (%s)", what, e.Right)
	}
	return text
}

var rightWords = map[Permission]string{
	PermissionRead: "read it", PermissionWrite: "write it", PermissionCreate: "create nodes below it",
	PermissionDelete: "delete nodes below it", PermissionAdmin: "change its ACL",
}

// Unwrap returns what ZooKeeper said.
func (e *AccessError) Unwrap() error { return e.Err }

// forbidden is what is known of a request that ZooKeeper refused: not which
// node it was.
func (c *Client) forbidden(err error) error {
	e := &AccessError{Node: c.root, Below: true, Reader: c.isReader(), Listed: c.isListed(), Err: err}
	switch {
	case c.cfg.Auth != nil:
		e.User = c.cfg.Auth.User
	case c.cfg.X509:
		e.User = c.identity
	}
	return e
}

// denied says which node it was, and which right is missing, if err says that
// access was refused there.
func denied(err error, node string, right Permission) error {
	if e, ok := errors.AsType[*AccessError](err); ok {
		return &AccessError{Node: node, User: e.User, Reader: e.Reader, Listed: e.Listed, Right: right, Err: e.Err}
	}
	return err
}

// Legible keeps what others have written into ZooKeeper from looking like lines
// of its own in an error, or from telling a terminal what to do.
func Legible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// TooLargeError is returned for what cannot be written because it does not fit
// into one request to ZooKeeper. Nothing was sent.
type TooLargeError struct {
	Node  string // that takes most of it
	Bytes int    // of the request
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("lockkeeper: %s is not written: the request takes %d bytes, and ZooKeeper takes %d "+
		"(jute.maxbuffer) and hangs up on more; shorten what is to be written", e.Node, e.Bytes, e.Limit)
}
