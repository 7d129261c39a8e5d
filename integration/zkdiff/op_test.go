package zkdiff

import "strconv"

// Op is what a Step does: an operation of the protocol by its number on the wire, or from dropOp on something with
// connections.
type Op int32

// The protocol's operations.
const (
	Create               Op = 1
	Delete               Op = 2
	Exists               Op = 3
	GetData              Op = 4
	SetData              Op = 5
	GetACL               Op = 6
	SetACL               Op = 7
	GetChildren          Op = 8
	Sync                 Op = 9
	Ping                 Op = 11
	GetChildren2         Op = 12
	Check                Op = 13
	Multi                Op = 14
	Create2              Op = 15
	Reconfig             Op = 16
	CheckWatches         Op = 17
	RemoveWatches        Op = 18
	CreateContainer      Op = 19
	DeleteContainer      Op = 20
	CreateTTL            Op = 21
	MultiRead            Op = 22
	Auth                 Op = 100
	SetWatches           Op = 101
	GetEphemerals        Op = 103
	GetAllChildrenNumber Op = 104
	SetWatches2          Op = 105
	AddWatch             Op = 106
	WhoAmI               Op = 107
	CreateSession        Op = -10
	CloseSession         Op = -11
)

// What is done with connections.
const (
	Drop          Op = 1000 + iota // hang up; the session stays
	Resume                         // a new connection for the session, beside the old one
	WrongPassword                  // ask for the session with another password, on a connection beside
	Stale                          // ask for a session that was closed before, on a connection beside
	Unknown                        // ask for a session that never was, on a connection beside
	Ahead                          // ask for the session with a zxid that the server has not reached
	Greeting                       // Raw as first frame of a connection beside
	Frame                          // Raw as a frame
	Bytes                          // Raw without a length before it: the server hangs up
)

var opNames = map[Op]string{
	Create: "Create", Delete: "Delete", Exists: "Exists", GetData: "GetData", SetData: "SetData", GetACL: "GetACL",
	SetACL: "SetACL", GetChildren: "GetChildren", Sync: "Sync", Ping: "Ping", GetChildren2: "GetChildren2",
	Check: "Check", Multi: "Multi", Create2: "Create2", Reconfig: "Reconfig", CheckWatches: "CheckWatches",
	RemoveWatches: "RemoveWatches", CreateContainer: "CreateContainer", DeleteContainer: "DeleteContainer",
	CreateTTL: "CreateTTL", MultiRead: "MultiRead", Auth: "Auth", SetWatches: "SetWatches",
	GetEphemerals: "GetEphemerals", GetAllChildrenNumber: "GetAllChildrenNumber", SetWatches2: "SetWatches2",
	AddWatch: "AddWatch", WhoAmI: "WhoAmI", CreateSession: "CreateSession", CloseSession: "CloseSession",
	Drop: "Drop", Resume: "Resume", WrongPassword: "WrongPassword", Stale: "Stale",
	Unknown: "Unknown", Ahead: "Ahead", Greeting: "Greeting", Frame: "Frame", Bytes: "Bytes",
}

// String returns the name that a script has for it.
func (o Op) String() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return "Op(" + strconv.Itoa(int(o)) + ")"
}

// fixed xids, by which a client tells answers to its own housekeeping.
const (
	eventXid      = -1
	pingXid       = -2
	authXid       = -4
	setWatchesXid = -8
)

// errors after which a server hangs up.
const (
	unimplemented = -6
	authFailed    = -115
)

// xid returns the number under which the operation is sent.
func (o Op) xid(next int32) int32 {
	switch o {
	case Ping:
		return pingXid
	case Auth:
		return authXid
	case SetWatches, SetWatches2:
		return setWatchesXid
	default:
		return next
	}
}

// The flags of a create.
const (
	persistent int32 = iota
	ephemeral
	sequential
	ephemeralSequential
	container
	persistentTTL
	sequentialTTL
)
