package zkclient

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// List returns the children of a node with its stat, of one moment.
func (c *Client) List(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := Promptly(ctx, c, func() (r nodeList, err error) {
		err = c.ReadingFor(ctx, false, func(s *Session) error {
			r.names, r.stat, err = s.List(ctx, path)
			return err
		})
		return r, err
	}, nil)
	return r.names, r.stat, err
}

// Children returns the children of a node: none if it is not there.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	return Promptly(ctx, c, func() (nodes []string, err error) {
		err = c.Reading(ctx, func(s *Session) error {
			nodes, _, err = s.List(ctx, path)
			return err
		})
		return nodes, err
	}, nil)
}

type nodeList struct {
	names []string
	stat  *zk.Stat
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
