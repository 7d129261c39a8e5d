package zkclient

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// The part of ZooKeeper's protocol that parcels need: transactions, each of their operations by itself, and
// reads. It is what go-zookeeper writes and reads, byte for byte.

// A NodeRead is the path of a node whose data or children are read, without a watch.
type NodeRead string

// opOf is the code of an operation of a transaction; 0 for what is none.
func opOf(op any) zkwire.Op {
	switch op.(type) {
	case *zk.CheckVersionRequest:
		return zkwire.OpCheck
	case *zk.CreateRequest:
		return zkwire.OpCreate
	case *zk.DeleteRequest:
		return zkwire.OpDelete
	case *zk.SetDataRequest:
		return zkwire.OpSetData
	}
	return 0
}

// appendFrame appends a request: a transaction of ops, or the one of them that op
// is. Its length is written, its xid is 0.
func appendFrame(b []byte, op zkwire.Op, ops []any) []byte {
	start := len(b)
	b = zkwire.Int32(zkwire.BeginFrame(b), 0)
	b = zkwire.Int32(b, int32(op))
	if op != zkwire.OpMulti {
		b = appendOperation(b, ops[0])
	} else {
		for _, o := range ops {
			b = zkwire.MultiHeader(b, opOf(o), false, -1)
			b = appendOperation(b, o)
		}
		b = zkwire.MultiHeader(b, zkwire.OpError, true, -1)
	}
	return zkwire.EndFrame(b, start)
}

func appendOperation(b []byte, op any) []byte {
	switch op := op.(type) {
	case *zk.CheckVersionRequest:
		return zkwire.Int32(zkwire.RawString(b, op.Path), op.Version)
	case NodeRead:
		return zkwire.Bool(zkwire.RawString(b, string(op)), false) // no watch
	case *zk.DeleteRequest:
		return zkwire.Int32(zkwire.RawString(b, op.Path), op.Version)
	case *zk.SetDataRequest:
		return zkwire.Int32(zkwire.Buffer(zkwire.RawString(b, op.Path), op.Data), op.Version)
	case *zk.CreateRequest:
		b = zkwire.Buffer(zkwire.RawString(b, op.Path), op.Data)
		b = zkwire.Int32(b, int32(len(op.Acl)))
		for _, acl := range op.Acl {
			b = zkwire.Int32(b, acl.Perms)
			b = zkwire.RawString(b, acl.Scheme)
			b = zkwire.RawString(b, acl.ID)
		}
		return zkwire.Int32(b, op.Flags)
	}
	return b
}

// wireError is the error of a code that a server has sent.
func wireError(code zkwire.Code) error {
	switch code {
	case zkwire.OK:
		return nil
	case zkwire.BadArguments:
		return zk.ErrBadArguments
	case -100:
		return zk.ErrAPIError
	case zkwire.NoNode:
		return zk.ErrNoNode
	case zkwire.NoAuth:
		return zk.ErrNoAuth
	case zkwire.BadVersion:
		return zk.ErrBadVersion
	case zkwire.NoChildrenEphemeral:
		return zk.ErrNoChildrenForEphemerals
	case zkwire.NodeExists:
		return zk.ErrNodeExists
	case zkwire.NotEmpty:
		return zk.ErrNotEmpty
	case zkwire.SessionExpired:
		return zk.ErrSessionExpired
	case zkwire.InvalidACL:
		return zk.ErrInvalidACL
	case zkwire.AuthFailed:
		return zk.ErrAuthFailed
	case -116:
		return zk.ErrClosing
	case -117:
		return zk.ErrNothing
	case zkwire.SessionMoved:
		return zk.ErrSessionMoved
	case zkwire.ReconfigDisabled:
		return zk.ErrReconfigDisabled
	}
	return fmt.Errorf("unknown error: %d", int32(code))
}
