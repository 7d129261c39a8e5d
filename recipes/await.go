package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// nodeSight is a node at one moment. stat is nil when there is none.
type nodeSight struct {
	data  []byte
	stat  *zk.Stat
	names []string // of its children, if asked for
}

func (c *Client) await(ctx context.Context, path string, children bool, see func(nodeSight) (bool, error)) error {
	return c.reading(ctx, func(s *session) error { return s.awaitNode(ctx, path, children, see) })
}

// awaitNode is await within one session.
func (s *session) awaitNode(ctx context.Context, path string, children bool, see func(nodeSight) (bool, error)) error {
	b := newBell()
	forget := func() {
		s.unwatch(path, &b.watch)
		s.unwatchChildren(path, &b.watch)
	}
	defer forget()
	// A look that comes too late must not leave its watcher behind.
	late := func(nodeSight, error) { forget() }
	for {
		sight, err := promptly(ctx, s.c, func() (nodeSight, error) { return s.sight(ctx, path, children, &b.watch) }, late)
		if err != nil {
			return err
		}
		if done, err := see(sight); done || err != nil {
			return err
		}
		if sight.stat == nil {
			created, err := promptly(ctx, s.c, func() (nodeSight, error) {
				there, stat, err := s.lookFor(ctx, path, &b.watch)
				if !there {
					stat = nil
				}
				return nodeSight{stat: stat}, err
			}, late)
			if err != nil {
				return err
			}
			if created.stat != nil {
				continue
			}
		}
		if err := b.wait(ctx, s); err != nil {
			return err
		}
	}
}

// sight reads a node, of one moment, and makes w hear of what happens to it.
func (s *session) sight(ctx context.Context, path string, children bool, w *watcher) (sight nodeSight, err error) {
	for {
		sight.data, sight.stat, err = s.look(ctx, path, w)
		if err == nil && children {
			var stat *zk.Stat
			sight.names, stat, err = s.lookAtChildren(ctx, path, w)
			if err == nil && stat.Version != sight.stat.Version {
				continue
			}
		}
		if errors.Is(err, zk.ErrNoNode) {
			return nodeSight{}, nil
		}
		return sight, err
	}
}
