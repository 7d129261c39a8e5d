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

// Ensure creates path and its parents as persistent nodes. Where it takes an
// operator to make the root, it returns a *NoRootError to others.
func (s *Session) Ensure(ctx context.Context, path string) error {
	from := 1
	if c := s.c; c.who().access.named() && (path == c.root || strings.HasPrefix(path, c.root+"/")) {
		if err := s.ensureRoot(ctx); err != nil {
			return err
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
	return s.createFrom(ctx, path, from)
}

// ensureRoot makes the root if the client is an operator; to others it returns
// a *NoRootError when it is not there.
func (s *Session) ensureRoot(ctx context.Context) error {
	c := s.c
	if !c.isOperator() {
		_, err := s.Stat(ctx, c.root)
		if errors.Is(err, zk.ErrNoNode) {
			return &NoRootError{Root: c.root}
		}
		return err
	}
	for i := 1; i < len(c.root); i++ {
		if c.root[i] == '/' {
			if _, err := s.Create(ctx, c.root[:i], nil, 0); err != nil && !errors.Is(err, zk.ErrNodeExists) &&
				!errors.Is(err, zk.ErrNoAuth) {
				return err
			}
		}
	}
	return s.makeRooms(ctx)
}

// createFrom creates path and those of its parents that have from bytes or more.
func (s *Session) createFrom(ctx context.Context, path string, from int) error {
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
		if p := s.Post(zkwire.OpCreate,
			[]any{&zk.CreateRequest{Path: node, Data: data, Acl: acl, Flags: flags}}, false); p != nil {
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
		if p := s.Post(zkwire.OpSetData,
			[]any{&zk.SetDataRequest{Path: path, Data: data, Version: version}}, false); p != nil {
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
func (s *Session) CreateNamed(
	ctx context.Context, node string, data []byte, flags int32, acl []zk.ACL,
) (string, error) {
	if err := Fits(&zk.CreateRequest{Path: node, Data: data, Acl: acl}); err != nil {
		return "", err
	}
	created, err := call(ctx, s, func(c *zk.Conn) (string, error) { return c.Create(node, data, flags, acl) })
	return created, denied(err, path.Dir(node), PermissionCreate)
}

// IsEphemeral reports whether a node lives as long as a session. Containers and
// nodes with a time to live have special owners.
func IsEphemeral(stat *zk.Stat) bool {
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != math.MinInt64 && uint64(stat.EphemeralOwner)>>56 != 0xff
}

// Sync waits until the server knows what the leader knew. It returns no error that says something about path.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(path) })
	return err
}
