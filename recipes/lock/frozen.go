package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A FrozenRequest is a request that an operator's freeze keeps out of the queue
// of its lock. It waits outside, so the lock knows nothing of it. Its process
// shows it in ZooKeeper:
//
//	<root>/emergency/frozen/<id>   ephemeral: the request waits for the end of a freeze
//
// The node is for people. No decision depends on it: one that is missing, or
// that stays a moment too long, changes only what is shown. Processes of older
// versions make none.
type FrozenRequest struct {
	ID    string // of the request, as in its events
	Scope string

	priority.Identity // Host and PID are set by ShowFrozen; Hold, Class and Trace are not shown

	Job      string // by which overrides find it; "" for none
	Priority priority.Level
	Mode     priority.Mode
	Override Mark
	Until    time.Time // the end of the override
	Since    time.Time // of the freeze, by the server's clock; filled in when it is read
}

type frozenNote struct {
	Format   int            `json:"format"`
	ID       string         `json:"id"`
	Scope    string         `json:"scope"`
	Owner    string         `json:"owner"`
	Job      string         `json:"job,omitempty"`
	Host     string         `json:"host,omitempty"`
	PID      int            `json:"pid,omitempty"`
	Priority priority.Level `json:"priority"`
	Shared   bool           `json:"shared,omitempty"`
	Message  string         `json:"message,omitempty"`
	Override Mark           `json:"override"`
	Until    time.Time      `json:"until"`
	Waited   int64          `json:"waited,omitempty"` // milliseconds of the freeze before the node was made
}

// frozenGoodbye is how long ShowFrozen tries to remove its node. The session
// removes it in any case.
const frozenGoodbye = 30 * time.Second

// ShowFrozen shows a request as frozen until ctx ends, in one session after the
// other. It returns an error only if the node cannot be made.
func (c *Client) ShowFrozen(ctx context.Context, r FrozenRequest) error {
	note := frozenNote{
		Format: znode.RecordFormat, ID: r.ID, Scope: r.Scope, Owner: r.Owner, Job: r.Job, Host: c.Host(), PID: c.PID(),
		Priority: r.Priority, Shared: r.Mode == priority.Shared, Message: words.Clip(r.Message, maxFrozenMessage),
		Override: r.Override, Until: r.Until.UTC(),
	}
	began := time.Now()
	for {
		note.Waited = time.Since(began).Milliseconds()
		err := c.showFrozen(ctx, note)
		switch {
		case ctx.Err() != nil, errors.Is(err, zkclient.ErrClosed):
			return nil //nolint:nilerr // it is shown no more, as was asked for
		case errors.Is(err, zkclient.ErrSessionOver):
			continue // which took the node with it
		case err != nil:
			return fmt.Errorf("the frozen request for %q is not shown: %w", r.Scope, err)
		}
	}
}

// showFrozen keeps the node in one session. A node of a session that is over may
// stand for a while, so each session has a name of its own.
func (c *Client) showFrozen(ctx context.Context, note frozenNote) error {
	s, err := c.Usable(ctx)
	if err != nil {
		return err
	}
	node := c.frozenRoom() + "/" + znode.NewGUID()
	for {
		_, err := s.Create(ctx, node, znode.Encode(note), zkclient.FlagEphemeral)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			if err := s.Ensure(ctx, c.frozenRoom()); err != nil && !errors.Is(err, zkclient.ErrAmbiguous) {
				return err
			}
			continue
		case errors.Is(err, zkclient.ErrAmbiguous):
			if err := s.Await(ctx); err != nil {
				c.removeFrozen(ctx, s, node)
				return err
			}
			continue
		case err != nil && !errors.Is(err, zkclient.ErrNodeExists): // of an attempt whose reply was lost
			c.removeFrozen(ctx, s, node)
			return err
		}
		break
	}
	defer c.removeFrozen(ctx, s, node)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.Over():
		return zkclient.ErrSessionOver
	}
}

func (c *Client) removeFrozen(ctx context.Context, s *zkclient.Session, node string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), frozenGoodbye)
	defer cancel()
	for s.Await(ctx) == nil {
		if err := s.DeleteOnce(ctx, node); !errors.Is(err, zkclient.ErrAmbiguous) {
			return // else the node goes with the session
		}
	}
}

func (c *Client) frozenRoom() string { return c.Root() + "/emergency/frozen" }

// Frozen returns the requests that are frozen now, the longest first, and the
// nodes that cannot be read, by path.
func (c *Client) Frozen(ctx context.Context) (all []FrozenRequest, left []zkclient.Unreadable, err error) {
	names, err := c.Children(ctx, c.frozenRoom())
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("frozen requests: %w", err)
	}
	var mu sync.Mutex
	work, inner := errgroup.WithContext(ctx)
	work.SetLimit(16)
	for _, name := range names {
		work.Go(func() error {
			node := c.frozenRoom() + "/" + name
			data, stat, err := c.Get(inner, node)
			if errors.Is(err, zkclient.ErrNoNode) {
				return nil // it is over
			}
			var r FrozenRequest
			if err == nil {
				r, err = decodeFrozen(data, stat)
				err = znode.InNode(err, node)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				all = append(all, r)
				return nil
			}
			bad, ok := zkclient.LeftOut(err, node, "")
			if !ok {
				return err
			}
			left = append(left, bad)
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, nil, fmt.Errorf("frozen requests: %w", err)
	}
	slices.SortFunc(all, func(a, b FrozenRequest) int {
		if order := a.Since.Compare(b.Since); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, zkclient.ByPath(left), nil
}

func decodeFrozen(data []byte, stat *zkclient.Stat) (FrozenRequest, error) {
	var n frozenNote
	if err := znode.Decode(data, &n, &n.Format); err != nil {
		return FrozenRequest{}, err
	}
	r := FrozenRequest{
		ID: znode.Valid(n.ID), Scope: znode.Valid(n.Scope), Job: znode.Valid(n.Job),
		Identity: priority.Identity{
			Owner: znode.Valid(n.Owner), Host: znode.Valid(n.Host), PID: n.PID, Message: znode.Valid(n.Message),
		},
		Priority: n.Priority, Override: *n.Override.valid(), Until: znode.Writable(n.Until),
		Since: znode.RecordTime(stat.Ctime - max(0, n.Waited)),
	}
	if n.Shared {
		r.Mode = priority.Shared
	}
	return r, nil
}

// maxFrozenMessage bounds what a record of a frozen request says of it, in bytes.
const maxFrozenMessage = 300
