package zktest

import "github.com/lockkeeper/lockkeeper/zkwire"

// A Code is an error that ZooKeeper answers with. As an error it can be compared
// with errors.Is.
type Code int32

// Error codes, by their numbers on the wire.
const (
	SystemError          = Code(zkwire.SystemError)
	RuntimeInconsistency = Code(zkwire.RuntimeInconsistency)
	ConnectionLoss       = Code(zkwire.ConnectionLoss)
	MarshallingError     = Code(zkwire.MarshallingError)
	Unimplemented        = Code(zkwire.Unimplemented)
	OperationTimeout     = Code(zkwire.OperationTimeout)
	BadArguments         = Code(zkwire.BadArguments)
	NoNode               = Code(zkwire.NoNode)
	NoAuth               = Code(zkwire.NoAuth)
	BadVersion           = Code(zkwire.BadVersion)
	NoChildrenEphemeral  = Code(zkwire.NoChildrenEphemeral)
	NodeExists           = Code(zkwire.NodeExists)
	NotEmpty             = Code(zkwire.NotEmpty)
	SessionExpired       = Code(zkwire.SessionExpired)
	InvalidACL           = Code(zkwire.InvalidACL)
	AuthFailed           = Code(zkwire.AuthFailed)
	SessionMoved         = Code(zkwire.SessionMoved)
	NoWatcher            = Code(zkwire.NoWatcher)
)

// Error returns the text of the code, after "zookeeper: ".
func (c Code) Error() string { return zkwire.Code(c).Error() }

// String returns the text of the code, such as "no node".
func (c Code) String() string { return zkwire.Code(c).String() }
