package zkwire

// A Stat is what ZooKeeper tells of a node beside its data.
type Stat struct {
	Czxid, Mzxid   int64 // transactions that created it and last set its data
	Ctime, Mtime   int64 // when, in milliseconds since 1970
	Version        int32 // changes of the data
	Cversion       int32 // changes of the children
	Aversion       int32 // changes of the access control list
	EphemeralOwner int64 // session of an ephemeral node, else 0
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // transaction that last created or deleted a child
}

// An ID is who somebody is, by a scheme: "digest", "user:hash".
type ID struct{ Scheme, Name string }

// An ACL says what somebody may do.
type ACL struct {
	Perms int32
	ID    ID

	NullScheme, NullName bool `json:"-"` // on the wire, and not well formed
}

// Permissions of an ACL.
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)

// Flags of a request to create a node.
const (
	Persistent           int32 = 0
	Ephemeral            int32 = 1
	PersistentSequential int32 = 2
	EphemeralSequential  int32 = 3
	Container            int32 = 4
	TTL                  int32 = 5
	TTLSequential        int32 = 6
)

// Sequential tells whether the flags ask for a number behind the name.
func Sequential(flags int32) bool {
	return flags == PersistentSequential || flags == EphemeralSequential || flags == TTLSequential
}

// Reserved xids.
const (
	XidNotification int32 = -1
	XidPing         int32 = -2
	XidAuth         int32 = -4
	XidSetWatches   int32 = -8
)

// An EventType says what happened to a watched node.
type EventType int32

// Events, by their numbers on the wire.
const (
	NodeCreated         EventType = 1
	NodeDeleted         EventType = 2
	NodeDataChanged     EventType = 3
	NodeChildrenChanged EventType = 4
)

func (t EventType) String() string {
	switch t {
	case NodeCreated:
		return "NodeCreated"
	case NodeDeleted:
		return "NodeDeleted"
	case NodeDataChanged:
		return "NodeDataChanged"
	case NodeChildrenChanged:
		return "NodeChildrenChanged"
	}
	return "event " + itoa(int32(t))
}
