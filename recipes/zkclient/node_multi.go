package zkclient

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// Multi runs ops as one transaction. A failed one returns the error of the
// operation that failed, and its index.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, int, error) {
	sent := s.c.time.clock.now()
	if err := Fits(ops...); err != nil {
		return nil, -1, err
	}
	r, err := call(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		if p := s.Post(zkwire.OpMulti, ops, false); p != nil {
			return p.reply(s)
		}
		return c.Multi(ops...)
	})
	return s.concluded(ops, sent, r, err)
}

// concluded is what Multi makes of the reply to a transaction.
func (s *Session) concluded(
	ops []any, sent Instant, r []zk.MultiResponse, err error,
) ([]zk.MultiResponse, int, error) {
	if err != nil {
		failed := culprit(r, err)
		if failed >= 0 {
			node, right := operand(ops[failed])
			err = denied(err, node, right)
		}
		return nil, failed, err
	}
	for i := range r {
		if stat := r[i].Stat; stat != nil {
			s.c.time.learn(stat.Mtime, sent, s.c.time.clock.now())
			break
		}
	}
	return r, -1, nil
}

// operand returns the node whose ACL an operation of a transaction needs, and the
// right on it.
func operand(op any) (string, Permission) {
	switch op := op.(type) {
	case *zk.CheckVersionRequest:
		return op.Path, PermissionRead
	case *zk.CreateRequest:
		return path.Dir(op.Path), PermissionCreate
	case *zk.DeleteRequest:
		return path.Dir(op.Path), PermissionDelete
	case *zk.SetDataRequest:
		return op.Path, PermissionWrite
	}
	return "", 0
}

// culprit finds the operation that made a transaction fail: those before it
// show no error, those after it an error without a name.
func culprit(r []zk.MultiResponse, err error) int {
	for i := range r {
		if r[i].Error != nil && errors.Is(err, r[i].Error) {
			return i
		}
	}
	return -1
}

// Fits returns a *TooLargeError for operations that do not fit into one request.
func Fits(ops ...any) error {
	const (
		head  = 64 // of a request, and of each operation in it
		entry = 16 // of an ACL
	)
	bytes, most, node := head, 0, ""
	for _, op := range ops {
		n, path := head, ""
		list := func(acl []zk.ACL) {
			for _, e := range acl {
				n += entry + len(e.Scheme) + len(e.ID)
			}
		}
		switch op := op.(type) {
		case *zk.CheckVersionRequest:
			path = op.Path
		case *zk.CreateRequest:
			path = op.Path
			n += len(op.Data)
			list(op.Acl)
		case *zk.DeleteRequest:
			path = op.Path
		case *zk.SetDataRequest:
			path = op.Path
			n += len(op.Data)
		}
		n += len(path)
		if n > most {
			most, node = n, path
		}
		bytes += n
	}
	if bytes <= maxRequestBytes {
		return nil
	}
	return &TooLargeError{Node: node, Bytes: bytes, Limit: maxRequestBytes}
}

// maxRequestBytes is the longest request that is sent. A server hangs up on one
// that is longer than its jute.maxbuffer, 1,048,575 bytes by default, and all
// that the session holds is at risk then. The rest is for what the servers add
// when they pass it on among themselves. They may be set to less: then, too,
// what is longer costs the connection. Answers may be longer: the servers send
// them and this client reads them, but clients in Java, zkCli.sh among them, do
// not.
const maxRequestBytes = 1_000_000
