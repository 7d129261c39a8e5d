package zkclient

import (
	"context"

	"github.com/go-zookeeper/zk"
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
