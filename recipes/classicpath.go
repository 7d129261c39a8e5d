package recipes

import (
	"context"
	"path"
)

// absolute returns where a path of a classic recipe is on the servers.
func (c *Client) absolute(path string) (string, error) {
	if err := checkOurs("path", path); err != nil {
		return "", err
	}
	return c.cfg.Chroot + path, nil
}

func (s *session) ensureParent(ctx context.Context, node string) error {
	return s.ensure(ctx, path.Dir(node))
}
