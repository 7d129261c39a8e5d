package lock

import (
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Client is a process's connection to ZooKeeper, shared by all its locks, groups, ledgers and boards. They
// are made by its methods. What it is beside that is zkclient's: a program that needs locks has no use for
// its requests to ZooKeeper, and must not write below the root with them.
type Client struct{ *zkclient.Client }

// NewClient validates cfg and starts to connect in the background; it never
// waits for a server. It returns *RequestError values, joined, for a bad cfg.
func NewClient(cfg Config) (*Client, error) {
	c, err := zkclient.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// TickLedger returns the ledger of the client's root. Each has an identity of its own: a process needs one.
// The owner names the process for people; defaults to "host:pid".
func (c *Client) TickLedger(owner string) *ticks.Ledger { return ticks.New(c.Client, owner) }

// Overrides returns the board of the root's overrides.
func (c *Client) Overrides() *opstore.OverrideBoard { return opstore.NewOverrideBoard(c.Client) }

// Approvals returns the board of the root's questions.
func (c *Client) Approvals() *opstore.ApprovalBoard { return opstore.NewApprovalBoard(c.Client) }

// AuditLog returns the audit trail of the root, of which this client keeps that many records: at most MaxAuditKeep, 0
// for DefaultAuditKeep. Clients should agree on it, the least counts. It returns a *RequestError for another number.
func (c *Client) AuditLog(keep int) (*opstore.AuditLog, error) {
	return opstore.NewAuditLog(c.Client, keep)
}

// What is zkclient's, and is handed to clients of this package or comes back from them.
type (
	// Config configures a Client.
	Config = zkclient.Config
	// A Digest is a user and password.
	Digest = zkclient.Digest
	// Health is how a client's connection is.
	Health = zkclient.Health
	// Unreadable is a node that could not be read.
	Unreadable = zkclient.Unreadable
)

// The errors of a client.
type (
	// RequestError is what is wrong with an argument.
	RequestError = zkclient.RequestError
	// UnavailableError is returned while ZooKeeper does not answer.
	UnavailableError = zkclient.UnavailableError
	// AccessError is returned for a node that an ACL keeps from the client.
	AccessError = zkclient.AccessError
	// IdentityError is returned to one that may not do a thing.
	IdentityError = zkclient.IdentityError
	// ListsError is returned while it is not known who may do what.
	ListsError = zkclient.ListsError
	// NoRootError is returned when there is no root, and the client may not make one.
	NoRootError = zkclient.NoRootError
	// UntrustedError is returned for a node that an identity other than this client's and the operators' could
	// have written.
	UntrustedError = zkclient.UntrustedError
	// BusyError is returned by Close while locks are held or requested.
	BusyError = zkclient.BusyError
	// RecordError is returned for a record that cannot be read.
	RecordError = znode.RecordError
	// TooLargeError is returned for what does not fit into a request.
	TooLargeError = zkclient.TooLargeError
)

// ErrClosed is returned by a client that was closed.
var ErrClosed = zkclient.ErrClosed

// Functions of zkclient.

// DigestID is zkclient.DigestID.
func DigestID(user, password string) string { return zkclient.DigestID(user, password) }

// EscapeScope turns a scope into the name of its one node. It returns a *RequestError for a scope that cannot be one.
func EscapeScope(scope string) (string, error) { return znode.EscapeScope(scope) }

// ParseServers is zkclient.ParseServers.
func ParseServers(s string) (servers []string, chroot string, err error) {
	return zkclient.ParseServers(s)
}
