package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// tickStore is what a ledger needs of a *Client.
type tickStore interface {
	create(ctx context.Context, path string, data []byte, flags int32) (string, error)
	ensure(ctx context.Context, path string) error
	get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
	list(ctx context.Context, path string) ([]string, *zk.Stat, error)
	multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	unavailable() *UnavailableError

	// serverTime is what is known of the leader's clock, if anything is;
	// awaitServerTime waits until something is.
	serverTime() (ServerTime, bool)
	awaitServerTime(ctx context.Context) error

	// await calls see with the node as it is, and again each time that it, or
	// with children its list of children, may have changed, until see reports
	// true or an error.
	await(ctx context.Context, path string, children bool, see func(tickSight) (bool, error)) error
}

var _ tickStore = (*Client)(nil)

// tickSight is a node at one moment. stat is nil when there is none.
type tickSight struct {
	data  []byte
	stat  *zk.Stat
	names []string // of its children, if asked for
}

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

func (c *Client) await(ctx context.Context, path string, children bool, see func(tickSight) (bool, error)) error {
	return c.reading(ctx, func(s *session) error { return s.awaitNode(ctx, path, children, see) })
}

// awaitNode is await within one session.
func (s *session) awaitNode(ctx context.Context, path string, children bool, see func(tickSight) (bool, error)) error {
	b := newBell()
	forget := func() {
		s.unwatch(path, &b.watch)
		s.unwatchChildren(path, &b.watch)
	}
	defer forget()
	// A look that comes too late must not leave its watcher behind.
	late := func(tickSight, error) { forget() }
	for {
		sight, err := promptly(ctx, s.c, func() (tickSight, error) { return s.sight(ctx, path, children, &b.watch) }, late)
		if err != nil {
			return err
		}
		if done, err := see(sight); done || err != nil {
			return err
		}
		if sight.stat == nil {
			created, err := promptly(ctx, s.c, func() (tickSight, error) {
				there, stat, err := s.lookFor(ctx, path, &b.watch)
				if !there {
					stat = nil
				}
				return tickSight{stat: stat}, err
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
func (s *session) sight(ctx context.Context, path string, children bool, w *watcher) (sight tickSight, err error) {
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
			return tickSight{}, nil
		}
		return sight, err
	}
}
