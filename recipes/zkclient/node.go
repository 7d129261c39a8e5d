package zkclient

import (
	"context"
	"errors"
	"math"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// NodeData is what a read of a node returns.
type NodeData struct {
	Data []byte
	Stat *zk.Stat
}

// nodePresence says whether a node is there.
type nodePresence struct {
	there bool
	stat  *zk.Stat
}

type nodeList struct {
	names []string
	stat  *zk.Stat
}

// Get reads a node.
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := call(ctx, s, func(c *zk.Conn) (NodeData, error) { return s.read(c, path) })
	return r.Data, r.Stat, denied(err, path, PermissionRead)
}

func (s *Session) read(c *zk.Conn, path string) (NodeData, error) {
	if p := s.Post(zkwire.OpGetData, []any{NodeRead(path)}, false); p != nil {
		r, err := p.reply(s)
		if err != nil {
			return NodeData{}, err
		}
		return NodeData{p.data, r[0].Stat}, nil
	}
	data, stat, err := c.Get(path)
	return NodeData{data, stat}, err
}

// List returns the children of path together with its stat, from one snapshot.
func (s *Session) List(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := call(ctx, s, func(c *zk.Conn) (nodeList, error) { return s.readList(c, path) })
	return r.names, r.stat, denied(err, path, PermissionRead)
}

func (s *Session) readList(c *zk.Conn, path string) (nodeList, error) {
	if p := s.Post(zkwire.OpGetChildren2, []any{NodeRead(path)}, false); p != nil {
		r, err := p.reply(s)
		if err != nil {
			return nodeList{}, err
		}
		return nodeList{p.names, r[0].Stat}, nil
	}
	names, stat, err := c.Children(path)
	return nodeList{names, stat}, err
}

// Delete removes a node at a version; -1: any.
func (s *Session) Delete(ctx context.Context, node string, version int32) error {
	_, err := call(ctx, s, func(c *zk.Conn) (struct{}, error) {
		if p := s.Post(zkwire.OpDelete, []any{&zk.DeleteRequest{Path: node, Version: version}}, false); p != nil {
			_, err := p.reply(s)
			return struct{}{}, err
		}
		return struct{}{}, c.Delete(node, version)
	})
	if err == nil {
		return nil
	}
	return denied(err, path.Dir(node), PermissionDelete)
}

// Deleted waits for the reply to a delete of node.
func (s *Session) Deleted(sent *Parcel, node string) error {
	if _, err := sent.reply(s); err != nil {
		return denied(s.classify(err), path.Dir(node), PermissionDelete)
	}
	return nil
}

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
func (s *Session) concluded(ops []any, sent Instant, r []zk.MultiResponse, err error) ([]zk.MultiResponse, int, error) {
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

// Ensure creates path and its parents as persistent nodes. Where it takes an
// operator to make the root, it returns a *NoRootError to others.
func (s *Session) Ensure(ctx context.Context, path string) error {
	from := 1
	if c := s.c; c.who().access.named() && (path == c.root || strings.HasPrefix(path, c.root+"/")) {
		if c.isOperator() {
			for i := 1; i < len(c.root); i++ {
				if c.root[i] == '/' {
					if _, err := s.Create(ctx, c.root[:i], nil, 0); err != nil && !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoAuth) {
						return err
					}
				}
			}
			if err := s.makeRooms(ctx); err != nil {
				return err
			}
		} else {
			if _, err := s.Stat(ctx, c.root); errors.Is(err, zk.ErrNoNode) {
				return &NoRootError{Root: c.root}
			} else if err != nil {
				return err
			}
		}
		from = len(c.root) + 1
	}
	if c := s.c; strings.HasPrefix(path, c.root+"/") && !c.introduced.Load() {
		// Another client may just have made the root, for others.
		if from == 1 {
			if err := s.Ensure(ctx, c.root); err != nil {
				return err
			}
		}
		if err := c.Introduce(ctx, s); err != nil {
			return err
		}
	}
	var refused error // a parent may exist although we may not create it
	for i := from; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		_, err := s.Create(ctx, path[:i], nil, 0)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
		case errors.Is(err, zk.ErrNoNode) && refused != nil:
			return refused
		case errors.Is(err, zk.ErrNoAuth) && i < len(path):
			refused = err
		case errors.Is(err, zk.ErrNoAuth):
			if _, gone := s.Stat(ctx, path); gone == nil {
				return nil
			}
			return err
		default:
			return err
		}
	}
	return nil
}

// Create makes a node for those of Client.ACL, and returns its path: with FlagSequence it is longer.
func (s *Session) Create(ctx context.Context, node string, data []byte, flags int32) (string, error) {
	acl := s.c.ACLOf(node)
	if err := Fits(&zk.CreateRequest{Path: node, Data: data, Acl: acl}); err != nil {
		return "", err
	}
	created, err := call(ctx, s, func(c *zk.Conn) (string, error) {
		if p := s.Post(zkwire.OpCreate, []any{&zk.CreateRequest{Path: node, Data: data, Acl: acl, Flags: flags}}, false); p != nil {
			r, err := p.reply(s)
			if err != nil {
				return "", err
			}
			return r[0].String, nil
		}
		return c.Create(node, data, flags, acl)
	})
	return created, denied(err, path.Dir(node), PermissionCreate)
}

// Set writes a node at a version; -1: any.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	sent := s.c.time.clock.now()
	if err := Fits(&zk.SetDataRequest{Path: path, Data: data}); err != nil {
		return nil, err
	}
	stat, err := call(ctx, s, func(c *zk.Conn) (*zk.Stat, error) {
		if p := s.Post(zkwire.OpSetData, []any{&zk.SetDataRequest{Path: path, Data: data, Version: version}}, false); p != nil {
			r, err := p.reply(s)
			if err != nil {
				return nil, err
			}
			return r[0].Stat, nil
		}
		return c.Set(path, data, version)
	})
	if err == nil {
		s.c.time.learn(stat.Mtime, sent, s.c.time.clock.now())
	}
	return stat, denied(err, path, PermissionWrite)
}

// --- the same on whatever session there is, for what is bound to none ------

// Get is Session.Get in one session after the other.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := Promptly(ctx, c, func() (r NodeData, err error) {
		err = c.ReadingFor(ctx, false, func(s *Session) error {
			r.Data, r.Stat, err = s.Get(ctx, path)
			return err
		})
		return r, err
	}, nil)
	return r.Data, r.Stat, err
}

// Ensure makes a node and those above it, as far as they are not there.
func (c *Client) Ensure(ctx context.Context, path string) error {
	_, err := Promptly(ctx, c, func() (struct{}, error) {
		return struct{}{}, c.Reading(ctx, func(s *Session) error { return s.Ensure(ctx, path) })
	}, nil)
	return err
}

// Create is Session.Create in one session. It is not repeated when its outcome
// is unknown: ErrAmbiguous.
func (c *Client) Create(ctx context.Context, path string, data []byte, flags int32) (string, error) {
	return Promptly(ctx, c, func() (string, error) {
		s, err := c.Usable(ctx)
		if err != nil {
			return "", err
		}
		if err := c.Introduce(ctx, s); err != nil {
			return "", err
		}
		return s.Create(ctx, path, data, flags)
	}, nil)
}

// Multi is Session.Multi in one session. It is not repeated when its outcome is
// unknown: ErrAmbiguous.
func (c *Client) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return Promptly(ctx, c, func() ([]zk.MultiResponse, error) {
		s, err := c.Usable(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.Introduce(ctx, s); err != nil {
			return nil, err
		}
		r, _, err := s.Multi(ctx, ops...)
		return r, err
	}, nil)
}

// Reading repeats an idempotent op until it has an answer.
func (c *Client) Reading(ctx context.Context, op func(*Session) error) error {
	return c.ReadingFor(ctx, true, op)
}

// ReadingFor is reading; who makes no nodes is not kept from looking.
func (c *Client) ReadingFor(ctx context.Context, makes bool, op func(*Session) error) error {
	for {
		s, err := c.UsableFor(ctx, makes)
		if err != nil {
			return err
		}
		err = op(s)
		if !errors.Is(err, ErrAmbiguous) && !errors.Is(err, ErrSessionOver) {
			return err
		}
	}
}

// checkPath refuses what ZooKeeper would, with a better error.
func checkPath(field, path string) error {
	bad := func(why string) error {
		return &RequestError{Field: field, Reason: path + " " + why + "; write an absolute path such as /lockkeeper"}
	}
	if !strings.HasPrefix(path, "/") {
		return bad("does not begin with /")
	}
	if path == "/" {
		return bad("is all that the server has")
	}
	if strings.HasSuffix(path, "/") {
		return bad("ends with /")
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		switch {
		case part == "":
			return bad("has an empty part")
		case part == "." || part == "..":
			return bad("has a relative part")
		case words.HasControl(part):
			return bad("contains a control character")
		}
	}
	return nil
}

// CreateNamed creates a node with an ACL of its own, and returns its path.
func (s *Session) CreateNamed(ctx context.Context, node string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	if err := Fits(&zk.CreateRequest{Path: node, Data: data, Acl: acl}); err != nil {
		return "", err
	}
	created, err := call(ctx, s, func(c *zk.Conn) (string, error) { return c.Create(node, data, flags, acl) })
	return created, denied(err, path.Dir(node), PermissionCreate)
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

// IsEphemeral reports whether a node lives as long as a session. Containers and
// nodes with a time to live have special owners.
func IsEphemeral(stat *zk.Stat) bool {
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != math.MinInt64 && uint64(stat.EphemeralOwner)>>56 != 0xff
}

// Inspecting runs a read that the breaker may refuse, until it has an answer.
func (c *Client) Inspecting(ctx context.Context, op func(*Session) error) error {
	s, err := c.admitFor(ctx, false)
	for err == nil {
		err = op(s)
		if !errors.Is(err, ErrAmbiguous) && !errors.Is(err, ErrSessionOver) {
			return err
		}
		s, err = c.UsableFor(ctx, false)
	}
	return err
}

// maxRequestBytes is the longest request that is sent. A server hangs up on one
// that is longer than its jute.maxbuffer, 1,048,575 bytes by default, and all
// that the session holds is at risk then. The rest is for what the servers add
// when they pass it on among themselves. They may be set to less: then, too,
// what is longer costs the connection. Answers may be longer: the servers send
// them and this client reads them, but clients in Java, zkCli.sh among them, do
// not.
const maxRequestBytes = 1_000_000

// Sync waits until the server knows what the leader knew. It returns no error that says something about path.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(path) })
	return err
}
