package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Lock returns the state of one lock, one look at ZooKeeper. A scope that was
// never locked is free.
func (c *Client) Lock(ctx context.Context, scope string) (State, error) {
	name, err := znode.EscapeScope(scope)
	if err != nil {
		return State{}, err
	}
	return zkclient.Promptly(ctx, c.Client, func() (state State, err error) {
		err = c.Inspecting(ctx, func(s *zkclient.Session) (err error) {
			state, err = c.snapshot(ctx, s, scope, lockPath(c.Root(), name), true)
			return err
		})
		return state, err
	}, nil)
}

// Locks returns the state of every lock that there is, sorted by scope, and the
// nodes that cannot be read, by path: lists of locks, and those of each state.
// Each lock is looked at on its own: the whole is no snapshot.
func (c *Client) Locks(ctx context.Context) ([]State, []zkclient.Unreadable, error) {
	type found struct {
		states []State
		left   []zkclient.Unreadable
	}
	f, err := zkclient.Promptly(ctx, c.Client, func() (f found, err error) {
		f.states, f.left, err = c.locks(ctx)
		return f, err
	}, nil)
	return f.states, f.left, err
}

func (c *Client) locks(ctx context.Context) (states []State, left []zkclient.Unreadable, err error) {
	err = c.Inspecting(ctx, func(s *zkclient.Session) error {
		states, left = nil, nil
		buckets, _, err := s.List(ctx, c.Root()+"/locks")
		if errors.Is(err, zkclient.ErrNoNode) {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := c.ServerNow(ctx, s); err != nil && !errors.Is(err, zkclient.ErrNoAuth) {
			return err
		}
		var mu sync.Mutex
		work, inner := errgroup.WithContext(ctx)
		work.SetLimit(16)
		for _, bucket := range buckets {
			work.Go(func() error {
				if !IsBucket(bucket) {
					return nil
				}
				path := c.Root() + "/locks/" + bucket
				names, _, err := s.List(inner, path)
				if bad, isBad := zkclient.LeftOut(err, path, ""); isBad {
					mu.Lock()
					left = append(left, bad)
					mu.Unlock()
					return nil
				} else if errors.Is(err, zkclient.ErrNoNode) {
					return nil
				} else if err != nil {
					return err
				}
				for _, name := range names {
					scope, why := ScopeIn(c.Root(), path, name)
					if why != "" {
						mu.Lock()
						left = append(left, zkclient.Misplaced(path+"/"+name, why))
						mu.Unlock()
						continue
					}
					state, err := c.snapshot(inner, s, scope, path+"/"+name, true)
					if isUnusable(err) { // the others can be listed
						look := lockLook{scope: scope, path: path + "/" + name, damage: err}
						state, err = look.damaged(), nil
					}
					if err != nil {
						return err
					}
					mu.Lock()
					states, left = append(states, state), append(left, state.Unreadable...)
					mu.Unlock()
				}
				return nil
			})
		}
		return work.Wait()
	})
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Scope, b.Scope) })
	return states, zkclient.ByPath(left), err
}

// lockAt reads G and who is there: of one moment, unless the lock changes hands
// all the time. The marks of G are frozen. With a *RecordError g is what the requests tell.
func lockAt(ctx context.Context, s *zkclient.Session, l *PriorityLock) (g lockRecord, names []string, err error) {
	var bad error
	for range 4 {
		data, before, err := s.Get(ctx, l.path)
		if err != nil {
			return g, nil, err
		}
		if g, bad = decodeLock(data); bad != nil {
			bad = znode.InNode(bad, l.path)
			if g, err = l.restored(ctx, s); err != nil {
				return g, nil, err
			}
		}
		g.freeze(before)
		list, after, err := s.List(ctx, l.path)
		if err != nil {
			return g, nil, err
		}
		if names = list; before.Version == after.Version {
			break
		}
	}
	return g, names, bad
}

// snapshot reads one lock: G, then who is there, then what they say.
func (c *Client) snapshot(ctx context.Context, s *zkclient.Session, scope, path string, all bool) (State, error) {
	look := lockLook{scope: scope, path: path}
	var names []string
	var err error
	look.g, names, err = lockAt(ctx, s, newPriorityLock(c, scope, path))
	if errors.Is(err, zkclient.ErrNoNode) {
		return State{Scope: scope}, nil
	} else if errors.As(err, new(*znode.RecordError)) {
		look.damage = err
	} else if err != nil {
		return State{Scope: scope}, err
	}
	look.children, look.foreign = parseChildren(names)
	var now int64
	if look.asksForTime() {
		if now, err = c.ServerNow(ctx, s); errors.Is(err, zkclient.ErrNoAuth) {
			now = time.Now().UnixMilli() // an onlooker that may not write: nearly right
		} else if err != nil {
			return State{Scope: scope}, err
		}
	}
	if holding := look.g.named(); !all {
		look.children = slices.DeleteFunc(look.children, func(c child) bool { return !holding(c) })
	}
	nodes, err := readRequests(ctx, s, path, look.children)
	if err != nil {
		return State{Scope: scope}, err
	}
	return look.state(now, func(i int) *requestNode { return &nodes[i] })
}

// readRequests reads the nodes of contenders, several at a time. It returns an error
// where nothing more can be read.
func readRequests(ctx context.Context, s *zkclient.Session, lock string, children []child) ([]requestNode, error) {
	nodes := make([]requestNode, len(children))
	work, inner := errgroup.WithContext(ctx)
	work.SetLimit(16) // on one connection, one after the other: this saves the waits between
	for i, c := range children {
		work.Go(func() error {
			var err error
			nodes[i], err = readRequest(inner, s, lock+"/"+c.name)
			if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, zkclient.ErrSessionOver) {
				return err
			}
			return inner.Err()
		})
	}
	err := work.Wait()
	return nodes, err
}

// readRequest reads the node of a contender. One that may not be read has a stat
// all the same.
func readRequest(ctx context.Context, s *zkclient.Session, node string) (requestNode, error) {
	data, stat, err := s.Get(ctx, node)
	n := newRequestNode(data, stat, err)
	if errors.As(err, new(*zkclient.AccessError)) {
		n.stat, err = s.Stat(ctx, node)
		if errors.Is(err, zkclient.ErrNoNode) {
			n.err = err
		}
	}
	return n, err
}

// IsNotAcquired reports whether err says that a lock was busy for as long as
// the request was ready to wait: nothing is broken, another holder has it.
func IsNotAcquired(err error) bool {
	var busy *NotAcquiredError
	var pending *CleanupPendingError
	var full *QueueFullError
	return errors.As(err, &busy) || errors.As(err, &pending) || errors.As(err, &full)
}
