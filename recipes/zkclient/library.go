package zkclient

import "github.com/go-zookeeper/zk"

// What go-zookeeper calls the parts of ZooKeeper's protocol, for packages that are built on this one: they do
// not import it.
type (
	// Stat is what ZooKeeper knows of a node beside its data.
	Stat = zk.Stat
	// ACLEntry is a right, and who has it.
	ACLEntry = zk.ACL
	// MultiResponse is the answer to one operation of a transaction.
	MultiResponse = zk.MultiResponse

	// The operations of a transaction. A Version of -1 is any.

	// CheckVersionRequest fails unless a node has a version.
	CheckVersionRequest = zk.CheckVersionRequest
	// CreateRequest makes a node.
	CreateRequest = zk.CreateRequest
	// DeleteRequest removes one that has no children.
	DeleteRequest = zk.DeleteRequest
	// SetDataRequest writes one.
	SetDataRequest = zk.SetDataRequest
)

// Flags of a node that is made.
const (
	FlagEphemeral = zk.FlagEphemeral
	FlagSequence  = zk.FlagSequence
	FlagContainer = zk.FlagContainer
)

// What a server answers about data.
var (
	ErrNoNode       = zk.ErrNoNode
	ErrNodeExists   = zk.ErrNodeExists
	ErrBadVersion   = zk.ErrBadVersion
	ErrNotEmpty     = zk.ErrNotEmpty
	ErrNoAuth       = zk.ErrNoAuth
	ErrBadArguments = zk.ErrBadArguments
	ErrAPI          = zk.ErrAPIError // it has answered what go-zookeeper cannot read
)
