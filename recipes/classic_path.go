package recipes

import (
	"context"
	"path"
)

// absolute returns where a path of a classic recipe is on the servers. It
// returns a *RequestError for a path that can never be.
func (c *Client) absolute(path string) (string, error) {
	if err := checkOurs("path", path); err != nil {
		return "", err
	}
	return c.cfg.Chroot + path, nil
}

// ensureParent creates the directory of a node, as a container.
func (s *session) ensureParent(ctx context.Context, node string) error {
	return (&line{c: s.c, path: path.Dir(node)}).ensure(ctx, s, true)
}
