package zktest

import "github.com/lockkeeper/lockkeeper/zkwire"

// An OpType is a kind of request, as rules and traces name it. Variants of one
// request that differ in what they answer only are one kind. Requests that have
// no constant here go by ZooKeeper's name, such as "getEphemerals".
type OpType string

// Kinds of requests.
const (
	Connect      OpType = "connect" // the first frame of a connection: a new session, or back to an old one
	CloseSession OpType = "closeSession"
	Ping         OpType = "ping"
	Auth         OpType = "auth"
	Sync         OpType = "sync"

	Create  OpType = "create" // also create2, createContainer and createTTL
	Delete  OpType = "delete"
	SetData OpType = "setData"
	SetACL  OpType = "setACL"
	Check   OpType = "check" // in a Multi only
	Multi   OpType = "multi" // a transaction

	Exists      OpType = "exists"
	GetData     OpType = "getData"
	GetACL      OpType = "getACL"
	GetChildren OpType = "getChildren" // also getChildren2
	MultiRead   OpType = "multiRead"

	AddWatch      OpType = "addWatch"
	RemoveWatches OpType = "removeWatches"
	SetWatches    OpType = "setWatches" // also setWatches2
)

func opType(op zkwire.Op) OpType {
	switch {
	case op.Creates():
		return Create
	case op == zkwire.OpGetChildren2:
		return GetChildren
	case op == zkwire.OpSetWatches2:
		return SetWatches
	}
	return OpType(op.String())
}

// An EventType says what happened to a watched node.
type EventType string

// What ZooKeeper tells of watched nodes.
const (
	NodeCreated         EventType = "NodeCreated"
	NodeDeleted         EventType = "NodeDeleted"
	NodeDataChanged     EventType = "NodeDataChanged"
	NodeChildrenChanged EventType = "NodeChildrenChanged"
)
