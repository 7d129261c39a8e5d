package zkclient

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// A Probe sends single requests to ZooKeeper, so that a caller can see how long
// they take. The node that it writes is ephemeral and its own.
type Probe struct {
	c      *Client
	parent string
}

// Probe returns a probe that writes below the client's root; while that does not
// exist, below the nearest node above it that does. It waits for a session as
// long as ctx lives.
func (c *Client) Probe(ctx context.Context) (*Probe, error) {
	parent := c.root
	for {
		_, err := c.Stat(ctx, parent)
		if err == nil {
			return &Probe{c: c, parent: parent}, nil
		}
		if !errors.Is(err, zk.ErrNoNode) || parent == "/" {
			return nil, err
		}
		parent = path.Dir(parent)
	}
}

// Sync lets the server catch up with the leader: a round trip through both.
func (p *Probe) Sync(ctx context.Context) error {
	_, err := Promptly(ctx, p.c, func() (struct{}, error) {
		return struct{}{}, p.on(ctx, func(s *Session) error {
			_, err := call(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(p.parent) })
			return err
		})
	}, nil)
	return err
}

// Read is answered by the server alone.
func (p *Probe) Read(ctx context.Context) error {
	_, err := p.c.Stat(ctx, p.parent)
	return err
}

// Create creates an ephemeral node with a sequence number, as any recipe for a
// lock does, and returns its path. Without an error it has to be deleted.
func (p *Probe) Create(ctx context.Context) (node string, err error) {
	return Promptly(ctx, p.c, func() (node string, err error) {
		err = p.on(ctx, func(s *Session) (err error) {
			node, err = s.Create(ctx, p.prefix(), nil, zk.FlagEphemeral|zk.FlagSequence)
			return err
		})
		return node, err
	}, func(node string, err error) {
		if err == nil {
			p.c.discard(node)
		}
	})
}

// Delete deletes a node that Create has created.
func (p *Probe) Delete(ctx context.Context, node string) error {
	_, err := Promptly(ctx, p.c, func() (struct{}, error) {
		return struct{}{}, p.on(ctx, func(s *Session) error { return s.Delete(ctx, node, -1) })
	}, nil)
	return err
}

// A Stamp ties the clock of the leader, which stamps every write, to that of
// this machine: the leader wrote At somewhere between Sent and Replied.
type Stamp struct {
	At            time.Time // by the leader's clock, in milliseconds
	Sent, Replied time.Time // by ours
}

// Ahead returns how far the leader's clock is ahead of ours, and how far that
// can be off at most, either way.
func (s Stamp) Ahead() (ahead, accuracy time.Duration) {
	half := s.Replied.Sub(s.Sent) / 2
	return s.At.Sub(s.Sent.Add(half)), half + time.Millisecond
}

// Stamp creates a node and deletes it, and returns when the leader did that.
func (p *Probe) Stamp(ctx context.Context) (Stamp, error) {
	return Promptly(ctx, p.c, func() (stamp Stamp, err error) {
		err = p.on(ctx, func(s *Session) error {
			node := p.prefix() + znode.NewGUID()
			stamp.Sent = time.Now()
			// A create alone does not tell its time.
			r, _, err := s.Multi(ctx,
				&zk.CreateRequest{Path: node, Acl: s.c.who().acl, Flags: zk.FlagEphemeral},
				&zk.SetDataRequest{Path: node, Version: 0},
				&zk.DeleteRequest{Path: node, Version: 1})
			if err != nil {
				return err
			}
			stamp.Replied, stamp.At = time.Now(), time.UnixMilli(r[1].Stat.Mtime)
			return nil
		})
		return stamp, err
	}, nil)
}

func (p *Probe) prefix() string {
	if p.parent == "/" {
		return "/" + ProbeName
	}
	return p.parent + "/" + ProbeName
}

// ProbeName begins the names of probes' nodes.
const ProbeName = "probe-"

// on does op once, in the session that there is: to try again would be measured,
// too.
func (p *Probe) on(ctx context.Context, op func(*Session) error) error {
	s, err := p.c.Usable(ctx)
	if err != nil {
		return err
	}
	return op(s)
}

// discard deletes a node in the background; if that fails, it goes with its
// session.
func (c *Client) discard(node string) {
	c.backlog.Go(func() {
		if s, err := c.Usable(c.closing); err == nil {
			_ = s.Delete(c.closing, node, -1)
		}
	})
}

// Stat returns the stat of a node. Nothing but the way to it can forbid that.
func (c *Client) Stat(ctx context.Context, path string) (*zk.Stat, error) {
	return Promptly(ctx, c, func() (stat *zk.Stat, err error) {
		err = c.ReadingFor(ctx, false, func(s *Session) error {
			stat, err = s.Stat(ctx, path)
			return err
		})
		return stat, err
	}, nil)
}

// Stat returns the stat of a node; ErrNoNode: there is none.
func (s *Session) Stat(ctx context.Context, path string) (*zk.Stat, error) {
	r, err := call(ctx, s, func(c *zk.Conn) (nodePresence, error) {
		there, stat, err := c.Exists(path)
		return nodePresence{there, stat}, err
	})
	if err == nil && !r.there {
		err = zk.ErrNoNode
	}
	return r.stat, err
}
