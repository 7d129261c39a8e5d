package classic

import (
	"context"
	"path"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// absolute returns where a path of a classic recipe is on the servers. It
// returns a *RequestError for a path that can never be.
func absolute(c *zkclient.Client, path string) (string, error) {
	if err := zkclient.CheckOurs("path", path); err != nil {
		return "", err
	}
	return c.Config().Chroot + path, nil
}

// ensureParent creates the directory of a node, as a container.
func ensureParent(ctx context.Context, s *zkclient.Session, node string) error {
	return (&line{c: s.Client(), path: path.Dir(node)}).ensure(ctx, s, true)
}
