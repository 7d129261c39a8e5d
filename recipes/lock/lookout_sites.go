package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// lookRoot looks at the list of the buckets.
type lookRoot struct {
	onList zkclient.Watcher
	onNode zkclient.Watcher // while it is not there
	names  []string
}

func (r *lookRoot) size() int { return 0 }

func (r *lookRoot) look(ctx context.Context, s *zkclient.Session, at *site) error {
	if r.onList == nil {
		r.onList = func(zkclient.WatchKind) { at.mark() }
		r.onNode = r.onList
	}
	for {
		names, _, err := s.LookAtChildren(ctx, at.path, &r.onList)
		if !errors.Is(err, zkclient.ErrNoNode) {
			s.Unwatch(at.path, &r.onNode)
			r.names = names
			return err
		}
		s.UnwatchChildren(at.path, &r.onList)
		if there, _, err := s.LookFor(ctx, at.path, &r.onNode); err != nil || !there {
			r.names = nil
			return err
		}
	}
}

func (r *lookRoot) tell(at *site) {
	for _, name := range r.names {
		if !IsBucket(name) {
			continue
		}
		path := at.path + "/" + name
		if bucket := at.v.sites[path]; bucket == nil {
			at.v.add(path, &lookBucket{locks: make(map[string]*site)})
		} else if bucket.looking || bucket.what.(*lookBucket).isGone { // it may be there anew
			bucket.mark()
		}
	}
}

func (r *lookRoot) forget(s *zkclient.Session, at *site) {
	s.UnwatchChildren(at.path, &r.onList)
	s.Unwatch(at.path, &r.onNode)
}

// lookBucket looks at the list of the locks in a bucket.
type lookBucket struct {
	onList zkclient.Watcher
	absent bool
	denied error // *AccessError: the list is as it was seen before
	names  []string

	// On the goroutine of Run:
	isGone bool             // absent, as last told
	locks  map[string]*site // by name
}

func (b *lookBucket) size() int { return 0 }

func (b *lookBucket) look(ctx context.Context, s *zkclient.Session, at *site) error {
	if b.onList == nil {
		b.onList = func(zkclient.WatchKind) { at.mark() }
	}
	names, _, err := s.LookAtChildren(ctx, at.path, &b.onList)
	b.denied = nil
	if errors.As(err, new(*zkclient.AccessError)) { // the others can be looked at
		b.denied = err
		at.markLater()
		return nil
	}
	if b.absent = errors.Is(err, zkclient.ErrNoNode); b.absent {
		s.UnwatchChildren(at.path, &b.onList)
		names, err = nil, nil
	}
	b.names = names
	return err
}

func (b *lookBucket) tell(at *site) {
	if bad, isBad := zkclient.LeftOut(b.denied, at.path, ""); isBad {
		at.v.leaveOut(at.path, []zkclient.Unreadable{bad})
		return
	}
	b.isGone = b.absent
	there := make(map[string]bool, len(b.names))
	var left []zkclient.Unreadable
	defer func() { at.v.leaveOut(at.path, left) }()
	for _, name := range b.names {
		path := at.path + "/" + name
		scope, why := ScopeIn(at.v.c.Root(), at.path, name)
		if why != "" {
			left = append(left, zkclient.Misplaced(path, why))
			continue
		}
		there[name] = true
		if lock := b.locks[name]; lock == nil {
			b.locks[name] = at.v.add(path, newLookLock(scope))
		} else if lock.looking || lock.what.(*lookLock).isGone { // it may be there anew
			lock.mark()
		}
	}
	for name, lock := range b.locks {
		if !there[name] {
			delete(b.locks, name)
			lock.what.(*lookLock).tellGone(lock)
			at.v.drop(lock)
		}
	}
}

func (b *lookBucket) forget(s *zkclient.Session, at *site) { s.UnwatchChildren(at.path, &b.onList) }
