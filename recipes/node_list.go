package recipes

import (
	"context"

	"github.com/go-zookeeper/zk"
)

func (c *Client) list(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := promptly(ctx, c, func() (r nodeList, err error) {
		err = c.readingFor(ctx, false, func(s *session) error {
			r.names, r.stat, err = s.list(ctx, path)
			return err
		})
		return r, err
	}, nil)
	return r.names, r.stat, err
}

func (c *Client) children(ctx context.Context, path string) ([]string, error) {
	return promptly(ctx, c, func() (nodes []string, err error) {
		err = c.reading(ctx, func(s *session) error {
			nodes, _, err = s.list(ctx, path)
			return err
		})
		return nodes, err
	}, nil)
}
