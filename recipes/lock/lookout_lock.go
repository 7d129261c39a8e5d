package lock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// lookLock looks at one lock. It keeps what it has read: G, the list of who is
// there, and each request's node; a watch says which of them to read again.
type lookLock struct {
	scope string
	round int // in which all was read; 0: not all is known

	onG, onList       zkclient.Watcher
	staleG, staleList atomic.Bool

	stat   *zkclient.Stat // of G as read
	listed *zkclient.Stat // of the list as read
	seen   lockLook
	nodes  map[string]*watchedNode // by the name of the child

	mu         sync.Mutex
	staleNodes []*watchedNode

	absent  bool  // there is no such lock
	damaged error // why it cannot be looked at
	changed bool  // since it was told
	state   State

	// On the goroutine of Run:
	told   bool
	isGone bool // absent, as last told
}

// A watchedNode is the node of a request.
type watchedNode struct {
	requestNode
	child
	onNode zkclient.Watcher

	// Under lookLock.mu:
	isStale bool // and among lookLock.staleNodes
	isGone  bool // its watch has said so
}

func newLookLock(scope string) *lookLock {
	return &lookLock{scope: scope, nodes: make(map[string]*watchedNode)}
}

func (l *lookLock) size() int { return len(l.nodes) }

func (l *lookLock) look(ctx context.Context, s *zkclient.Session, at *site) error {
	if l.onG == nil {
		l.seen.scope, l.seen.path = l.scope, at.path
		l.onG = func(zkclient.WatchKind) { l.staleG.Store(true); at.mark() }
		l.onList = func(zkclient.WatchKind) { l.staleList.Store(true); at.mark() }
	}
	whole := l.round != at.round
	l.round = 0
	state, err := l.read(ctx, s, at, whole)
	was := l.damaged
	l.damaged = nil
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		l.forget(s, at)
		clear(l.nodes)
		l.absent, l.stat, l.listed = true, nil, nil
		l.seen.children, l.seen.foreign = nil, nil
		return nil
	case isUnusable(err): // the others can be looked at
		l.damaged = err
		l.changed = l.changed || was == nil || was.Error() != err.Error()
		look := lockLook{scope: l.scope, path: at.path, damage: err}
		l.state = look.damaged()
		l.absent = false
		if errors.As(err, new(*zkclient.AccessError)) {
			at.markLater()
		}
		return nil
	case err != nil:
		return err
	}
	l.changed = l.changed || was != nil
	l.absent, l.round = false, at.round
	if l.changed {
		l.state = state
	}
	return nil
}

// read reads what is stale, or the whole, and describes it if it has changed.
func (l *lookLock) read(ctx context.Context, s *zkclient.Session, at *site, whole bool) (State, error) {
	for range 4 {
		// G first, whatever has changed: with the answer, all has been heard that
		// was done in the same transaction.
		if err := l.readLock(ctx, s, at, whole); err != nil {
			return State{}, err
		}
		left, err := l.readNodes(ctx, s, at, l.stale(s, at, whole))
		if err != nil {
			return State{}, err
		}
		if !left {
			break
		}
		whole = false // G may say why it has left
	}
	if !l.changed && l.damaged == nil {
		return State{}, nil
	}
	if l.seen.asksForTime() && !at.v.primed.Load() {
		if err := at.v.c.PrimeTime(ctx, s); err != nil {
			return State{}, err
		}
		at.v.primed.Store(true) // as well as this client may
	}
	return l.seen.state(at.v.c.Now().UnixMilli(), func(i int) *requestNode {
		return &l.nodes[l.seen.children[i].name].requestNode
	})
}

// stale returns the nodes that are to be read, and forgets those that are gone.
func (l *lookLock) stale(s *zkclient.Session, at *site, whole bool) []*watchedNode {
	l.mu.Lock()
	stale := l.staleNodes
	l.staleNodes = nil
	for _, n := range stale {
		n.isStale = false
	}
	l.mu.Unlock()
	if whole {
		stale = slices.Collect(maps.Values(l.nodes))
	}
	there := make(map[string]struct{}, len(l.seen.children))
	var fresh []*watchedNode
	for _, c := range l.seen.children {
		there[c.name] = struct{}{}
		if l.nodes[c.name] == nil {
			n := l.newNode(c, at)
			l.nodes[c.name] = n
			fresh = append(fresh, n)
		}
	}
	if len(there) != len(l.nodes) {
		for name, n := range l.nodes {
			if _, stays := there[name]; !stays {
				s.Unwatch(at.path+"/"+name, &n.onNode)
				delete(l.nodes, name)
			}
		}
	}
	stale = slices.DeleteFunc(stale, func(n *watchedNode) bool { return l.nodes[n.name] != n })
	return append(stale, fresh...)
}

func (l *lookLock) newNode(c child, at *site) *watchedNode {
	n := &watchedNode{child: c}
	n.onNode = func(kind zkclient.WatchKind) {
		l.mu.Lock()
		n.isGone = n.isGone || kind == zkclient.WatchDeleted
		if !n.isStale {
			n.isStale = true
			l.staleNodes = append(l.staleNodes, n)
		}
		l.mu.Unlock()
		at.mark()
	}
	return n
}

// readLock reads G, and who is there if that has changed: both of one moment,
// unless the lock changes hands all the time.
func (l *lookLock) readLock(ctx context.Context, s *zkclient.Session, at *site, whole bool) error {
	for range 4 {
		l.staleG.Store(false)
		var data []byte
		var stat *zkclient.Stat
		err := at.v.read(ctx, func() (err error) {
			data, stat, err = s.Look(ctx, at.path, &l.onG)
			return err
		})
		if err != nil {
			return err
		}
		if l.stat == nil || l.seen.damage != nil || l.stat.Mzxid != stat.Mzxid || l.stat.Czxid != stat.Czxid {
			if err := l.decode(ctx, s, at, data, stat); err != nil {
				return err
			}
			l.changed = true
		}
		l.stat = stat
		if !whole && !l.staleList.Load() && l.listed != nil && sameList(l.listed, stat) {
			return nil
		}
		l.staleList.Store(false)
		var names []string
		var listed *zkclient.Stat
		err = at.v.read(ctx, func() (err error) {
			names, listed, err = s.LookAtChildren(ctx, at.path, &l.onList)
			return err
		})
		if err != nil {
			return err
		}
		if l.listed == nil || !sameList(l.listed, listed) {
			l.seen.children, l.seen.foreign = parseChildren(names)
			l.changed = true
		}
		l.listed = listed
		if listed.Version == stat.Version {
			return nil
		}
		whole = false
	}
	l.staleG.Store(true)
	at.mark()
	return nil
}

// decode makes use of the data of the lock node.
func (l *lookLock) decode(ctx context.Context, s *zkclient.Session, at *site, data []byte, stat *zkclient.Stat) error {
	g, bad := decodeLock(data)
	l.seen.damage = nil
	if bad != nil {
		l.seen.damage = znode.InNode(bad, at.path)
		var err error
		if g, err = newPriorityLock(at.v.c, l.scope, at.path).restored(ctx, s); err != nil {
			return err
		}
	}
	g.freeze(stat)
	l.seen.g = g
	return nil
}

// sameList reports whether the children of a node were the same at both times.
func sameList(a, b *zkclient.Stat) bool {
	return a.Czxid == b.Czxid && a.Pzxid == b.Pzxid && a.Cversion == b.Cversion && a.NumChildren == b.NumChildren
}

// readNodes reads the nodes of requests. It reports whether a holder has left
// since the list was read.
func (l *lookLock) readNodes(
	ctx context.Context, s *zkclient.Session, at *site, nodes []*watchedNode,
) (left bool, err error) {
	if len(nodes) == 0 {
		return false, nil
	}
	holds := l.seen.g.named()
	var changed, gone atomic.Bool
	work, inner := errgroup.WithContext(ctx)
	work.SetLimit(maxLooks)
	for _, n := range nodes {
		work.Go(func() error {
			var data []byte
			var stat *zkclient.Stat
			err := zkclient.ErrNoNode
			path := at.path + "/" + n.name
			if !l.knowsGone(n) {
				err = at.v.read(inner, func() (err error) {
					data, stat, err = s.Look(inner, path, &n.onNode)
					return err
				})
			}
			unread := err
			if errors.As(err, new(*zkclient.AccessError)) {
				if stat, err = s.Stat(inner, path); err == nil {
					err = unread
				}
			}
			if isOutage(err) || inner.Err() != nil {
				return errors.Join(err, context.Cause(inner))
			}
			if errors.Is(err, zkclient.ErrNoNode) {
				s.Unwatch(path, &n.onNode)
				if holds(n.child) {
					gone.Store(true)
				}
			}
			before := n.requestNode
			if err == nil && before.stat != nil && before.stat.Mzxid == stat.Mzxid {
				return nil
			}
			changed.Store(true)
			n.requestNode = newRequestNode(data, stat, err)
			return nil
		})
	}
	err = work.Wait()
	l.changed = l.changed || changed.Load()
	return gone.Load(), err
}

// knowsGone reports whether a node need not be read to know that it is gone.
func (l *lookLock) knowsGone(n *watchedNode) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return n.isGone
}

func (l *lookLock) tell(at *site) {
	l.isGone = false
	switch {
	case l.absent:
		l.isGone = true
		l.tellGone(at)
	case l.changed:
		l.changed, l.told = false, true
		told := Sighting{State: l.state}
		if l.listed != nil {
			told.Moved, told.Version = Token(l.listed.Pzxid), l.listed.Version
		}
		at.v.seen(told)
	}
}

func (l *lookLock) tellGone(at *site) {
	if l.told {
		l.told = false
		at.v.seen(Sighting{State: State{Scope: l.scope}, Gone: true})
	}
}

func (l *lookLock) forget(s *zkclient.Session, at *site) {
	s.Unwatch(at.path, &l.onG)
	s.UnwatchChildren(at.path, &l.onList)
	for name, n := range l.nodes {
		s.Unwatch(at.path+"/"+name, &n.onNode)
	}
}
