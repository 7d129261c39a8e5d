package zkclient

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// NodeSight is a node at one moment. stat is nil when there is none.
type NodeSight struct {
	Data  []byte
	Stat  *zk.Stat
	Names []string // of its children, if asked for
}

// Await calls see with a node as it is, and again each time that it, or with children its list of children,
// may have changed, until see reports true or an error: in one session after the other.
func (c *Client) Await(ctx context.Context, path string, children bool, see func(NodeSight) (bool, error)) error {
	return c.Reading(ctx, func(s *Session) error { return s.AwaitNode(ctx, path, children, see) })
}

// AwaitNode is Await within one session.
func (s *Session) AwaitNode(ctx context.Context, path string, children bool, see func(NodeSight) (bool, error)) error {
	b := NewBell()
	forget := func() {
		s.Unwatch(path, &b.watch)
		s.UnwatchChildren(path, &b.watch)
	}
	defer forget()
	// A look that comes too late must not leave its watcher behind.
	late := func(NodeSight, error) { forget() }
	for {
		sight, err := Promptly(ctx, s.c, func() (NodeSight, error) { return s.sight(ctx, path, children, &b.watch) }, late)
		if err != nil {
			return err
		}
		if done, err := see(sight); done || err != nil {
			return err
		}
		if sight.Stat == nil {
			created, err := Promptly(ctx, s.c, func() (NodeSight, error) {
				there, stat, err := s.LookFor(ctx, path, &b.watch)
				if !there {
					stat = nil
				}
				return NodeSight{Stat: stat}, err
			}, late)
			if err != nil {
				return err
			}
			if created.Stat != nil {
				continue
			}
		}
		if err := b.Wait(ctx, s); err != nil {
			return err
		}
	}
}

// sight reads a node, of one moment, and registers w for what happens to it.
func (s *Session) sight(ctx context.Context, path string, children bool, w *Watcher) (sight NodeSight, err error) {
	for {
		sight.Data, sight.Stat, err = s.Look(ctx, path, w)
		if err == nil && children {
			var stat *zk.Stat
			sight.Names, stat, err = s.LookAtChildren(ctx, path, w)
			if err == nil && stat.Version != sight.Stat.Version {
				continue
			}
		}
		if errors.Is(err, zk.ErrNoNode) {
			return NodeSight{}, nil
		}
		return sight, err
	}
}
