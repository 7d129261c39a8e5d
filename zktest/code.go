package zktest

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// A Code is an error that ZooKeeper answers with. As an error it can be compared
// with errors.Is.
type Code int32

// Error codes, by their numbers on the wire.
const (
	SystemError          = Code(wire.SystemError)
	RuntimeInconsistency = Code(wire.RuntimeInconsistency)
	ConnectionLoss       = Code(wire.ConnectionLoss)
	MarshallingError     = Code(wire.MarshallingError)
	Unimplemented        = Code(wire.Unimplemented)
	OperationTimeout     = Code(wire.OperationTimeout)
	BadArguments         = Code(wire.BadArguments)
	NoNode               = Code(wire.NoNode)
	NoAuth               = Code(wire.NoAuth)
	BadVersion           = Code(wire.BadVersion)
	NoChildrenEphemeral  = Code(wire.NoChildrenEphemeral)
	NodeExists           = Code(wire.NodeExists)
	NotEmpty             = Code(wire.NotEmpty)
	SessionExpired       = Code(wire.SessionExpired)
	InvalidACL           = Code(wire.InvalidACL)
	AuthFailed           = Code(wire.AuthFailed)
	SessionMoved         = Code(wire.SessionMoved)
	NoWatcher            = Code(wire.NoWatcher)
)

// Error returns the text of the code, after "zookeeper: ".
func (c Code) Error() string { return wire.Code(c).Error() }

// String returns the text of the code, such as "no node".
func (c Code) String() string { return wire.Code(c).String() }
