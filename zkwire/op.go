package zkwire

import "strconv"

// An Op is the kind of a request.
type Op int32

// Operations, by their numbers on the wire.
const (
	OpCreate            Op = 1
	OpDelete            Op = 2
	OpExists            Op = 3
	OpGetData           Op = 4
	OpSetData           Op = 5
	OpGetACL            Op = 6
	OpSetACL            Op = 7
	OpGetChildren       Op = 8
	OpSync              Op = 9
	OpPing              Op = 11
	OpGetChildren2      Op = 12
	OpCheck             Op = 13
	OpMulti             Op = 14
	OpCreate2           Op = 15
	OpReconfig          Op = 16
	OpCheckWatches      Op = 17
	OpRemoveWatches     Op = 18
	OpCreateContainer   Op = 19
	OpDeleteContainer   Op = 20
	OpCreateTTL         Op = 21
	OpMultiRead         Op = 22
	OpAuth              Op = 100
	OpSetWatches        Op = 101
	OpSASL              Op = 102
	OpGetEphemerals     Op = 103
	OpAllChildrenNumber Op = 104
	OpSetWatches2       Op = 105
	OpAddWatch          Op = 106
	OpWhoAmI            Op = 107
	OpCloseSession      Op = -11
	OpError             Op = -1

	// OpConnect is no number of the protocol, where a connect request is known
	// by being the first: it lets rules and traces speak of it.
	OpConnect Op = -10
)

//nolint:cyclop,funlen // one case for each operation
func (o Op) String() string {
	switch o {
	case OpCreate:
		return "create"
	case OpDelete:
		return "delete"
	case OpExists:
		return "exists"
	case OpGetData:
		return "getData"
	case OpSetData:
		return "setData"
	case OpGetACL:
		return "getACL"
	case OpSetACL:
		return "setACL"
	case OpGetChildren:
		return "getChildren"
	case OpSync:
		return "sync"
	case OpPing:
		return "ping"
	case OpGetChildren2:
		return "getChildren2"
	case OpCheck:
		return "check"
	case OpMulti:
		return "multi"
	case OpCreate2:
		return "create2"
	case OpReconfig:
		return "reconfig"
	case OpCheckWatches:
		return "checkWatches"
	case OpRemoveWatches:
		return "removeWatches"
	case OpCreateContainer:
		return "createContainer"
	case OpDeleteContainer:
		return "deleteContainer"
	case OpCreateTTL:
		return "createTTL"
	case OpMultiRead:
		return "multiRead"
	case OpAuth:
		return "auth"
	case OpSetWatches:
		return "setWatches"
	case OpSASL:
		return "sasl"
	case OpGetEphemerals:
		return "getEphemerals"
	case OpAllChildrenNumber:
		return "getAllChildrenNumber"
	case OpSetWatches2:
		return "setWatches2"
	case OpAddWatch:
		return "addWatch"
	case OpWhoAmI:
		return "whoAmI"
	case OpCloseSession:
		return "closeSession"
	case OpError:
		return "error"
	case OpConnect:
		return "connect"
	}
	return "op " + itoa(int32(o))
}

// Creates tells whether o makes a node.
func (o Op) Creates() bool {
	return o == OpCreate || o == OpCreate2 || o == OpCreateContainer || o == OpCreateTTL
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// A Code is an error that ZooKeeper answers with. 0 is none.
type Code int32

// Error codes, by their numbers on the wire.
const (
	OK                   Code = 0
	SystemError          Code = -1
	RuntimeInconsistency Code = -2
	ConnectionLoss       Code = -4
	MarshallingError     Code = -5
	Unimplemented        Code = -6
	OperationTimeout     Code = -7
	BadArguments         Code = -8
	NoNode               Code = -101
	NoAuth               Code = -102
	BadVersion           Code = -103
	NoChildrenEphemeral  Code = -108
	NodeExists           Code = -110
	NotEmpty             Code = -111
	SessionExpired       Code = -112
	InvalidACL           Code = -114
	AuthFailed           Code = -115
	SessionMoved         Code = -118
	NoWatcher            Code = -121
	ReconfigDisabled     Code = -123
)

func (c Code) Error() string { return "zookeeper: " + c.String() }

//nolint:cyclop // one case for each code
func (c Code) String() string {
	switch c {
	case OK:
		return "ok"
	case SystemError:
		return "system error"
	case RuntimeInconsistency:
		return "runtime inconsistency"
	case ConnectionLoss:
		return "connection loss"
	case MarshallingError:
		return "marshalling error"
	case Unimplemented:
		return "unimplemented"
	case OperationTimeout:
		return "operation timeout"
	case BadArguments:
		return "bad arguments"
	case NoNode:
		return "no node"
	case NoAuth:
		return "no auth"
	case BadVersion:
		return "bad version"
	case NoChildrenEphemeral:
		return "no children for ephemerals"
	case NodeExists:
		return "node exists"
	case NotEmpty:
		return "not empty"
	case SessionExpired:
		return "session expired"
	case InvalidACL:
		return "invalid acl"
	case AuthFailed:
		return "auth failed"
	case SessionMoved:
		return "session moved"
	case NoWatcher:
		return "no watcher"
	case ReconfigDisabled:
		return "reconfig disabled"
	}
	return "error " + itoa(int32(c))
}
