package recipes

import (
	"encoding/binary"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// The part of ZooKeeper's wire protocol that parcels need: transactions, each of
// their operations by itself, and reads. It is what go-zookeeper writes and reads, byte for byte.

// opError is the kind of an operation that has failed, and the mark of the end.
const opError = -1

// A nodeRead is the path of a node whose data or children are read, without a watch.
type nodeRead string

// opOf is the code of an operation of a transaction; 0 for what is none.
func opOf(op any) int32 {
	switch op.(type) {
	case *zk.CheckVersionRequest:
		return opCheck
	case *zk.CreateRequest:
		return opCreate
	case *zk.DeleteRequest:
		return opDelete
	case *zk.SetDataRequest:
		return opSetData
	}
	return 0
}

// appendFrame appends a request: a transaction of ops, or the one of them that op
// is. Its length is written, its xid is 0.
func appendFrame(b []byte, op int32, ops []any) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	if op != opMulti {
		b = appendOperation(b, ops[0])
	} else {
		for _, o := range ops {
			b = appendMultiHeader(b, opOf(o), false)
			b = appendOperation(b, o)
		}
		b = appendMultiHeader(b, opError, true)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

func appendMultiHeader(b []byte, op int32, done bool) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	last := byte(0)
	if done {
		last = 1
	}
	return append(b, last, 0xff, 0xff, 0xff, 0xff)
}

func appendOperation(b []byte, op any) []byte {
	version := func(n int32) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	switch op := op.(type) {
	case *zk.CheckVersionRequest:
		b = appendString(b, op.Path)
		version(op.Version)
	case nodeRead:
		b = append(appendString(b, string(op)), 0) // no watch
	case *zk.DeleteRequest:
		b = appendString(b, op.Path)
		version(op.Version)
	case *zk.SetDataRequest:
		b = appendString(b, op.Path)
		b = appendBuffer(b, op.Data)
		version(op.Version)
	case *zk.CreateRequest:
		b = appendString(b, op.Path)
		b = appendBuffer(b, op.Data)
		b = binary.BigEndian.AppendUint32(b, uint32(len(op.Acl)))
		for _, acl := range op.Acl {
			b = binary.BigEndian.AppendUint32(b, uint32(acl.Perms))
			b = appendString(b, acl.Scheme)
			b = appendString(b, acl.ID)
		}
		version(op.Flags)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendBuffer(b, data []byte) []byte {
	if data == nil {
		return append(b, 0xff, 0xff, 0xff, 0xff)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
}

// A wireReader reads a reply. Once it was too short, all is zero.
type wireReader struct {
	b     []byte
	short bool
}

func (r *wireReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.short, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *wireReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *wireReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *wireReader) bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

func (r *wireReader) string() string { return string(r.take(int(r.int32()))) }

// buffer returns a copy.
func (r *wireReader) buffer() []byte {
	n := r.int32()
	if n < 0 {
		return nil
	}
	return append([]byte{}, r.take(int(n))...)
}

func (r *wireReader) strings() []string {
	n := r.int32()
	if n < 0 || int(n) > len(r.b)/4 { // each says how long it is
		r.short = r.short || n != 0
		return []string{}
	}
	all := make([]string, n)
	for i := range all {
		all[i] = r.string()
	}
	return all
}

func (r *wireReader) stat(s *zk.Stat) {
	*s = zk.Stat{
		Czxid: r.int64(), Mzxid: r.int64(), Ctime: r.int64(), Mtime: r.int64(),
		Version: r.int32(), Cversion: r.int32(), Aversion: r.int32(),
		EphemeralOwner: r.int64(), DataLength: r.int32(), NumChildren: r.int32(), Pzxid: r.int64(),
	}
}

// wireError is the error of a code that a server has sent.
func wireError(code int32) error {
	switch code {
	case 0:
		return nil
	case -8:
		return zk.ErrBadArguments
	case -100:
		return zk.ErrAPIError
	case -101:
		return zk.ErrNoNode
	case -102:
		return zk.ErrNoAuth
	case -103:
		return zk.ErrBadVersion
	case -108:
		return zk.ErrNoChildrenForEphemerals
	case -110:
		return zk.ErrNodeExists
	case -111:
		return zk.ErrNotEmpty
	case -112:
		return zk.ErrSessionExpired
	case -114:
		return zk.ErrInvalidACL
	case -115:
		return zk.ErrAuthFailed
	case -116:
		return zk.ErrClosing
	case -117:
		return zk.ErrNothing
	case -118:
		return zk.ErrSessionMoved
	case -123:
		return zk.ErrReconfigDisabled
	}
	return fmt.Errorf("unknown error: %d", code)
}
