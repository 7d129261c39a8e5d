package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// IdleOptions say which scopes CollectIdle removes.
type IdleOptions struct {
	// Older is how long a scope must have been unused to be removed, by the
	// servers' clock. Defaults to DefaultIdle.
	Older time.Duration

	// DryRun removes nothing: Collection.Removed is what would be removed.
	DryRun bool

	// Match, when set, chooses among the scopes; all others stay.
	Match func(scope string) bool
}

// DefaultIdle is how long a scope must have been unused for CollectIdle to
// remove it, unless Older is set.
const DefaultIdle = 7 * 24 * time.Hour

// A Collection is what CollectIdle has done, or would do. Scopes are sorted.
type Collection struct {
	Older        time.Duration
	At           time.Time // the servers' clock at the beginning
	Removed      []IdleScope
	Left         []LeftScope
	Unreadable   []zkclient.Unreadable // scopes, and lists of scopes, that were not looked at; by path
	Transactions int                   // that removed something
}

// An IdleScope is one that no client uses.
type IdleScope struct {
	Scope   string
	Granted time.Time // when it was locked last, by the servers' clock
}

// A LeftScope is one that stays, and why.
type LeftScope struct {
	IdleScope
	Why LeftReason
}

// A LeftReason is why a scope is not removed.
type LeftReason string

// The reasons to leave a scope.
const (
	LeftInUse    LeftReason = "in_use"   // there are nodes below it: it is held, or waited for
	LeftRecent   LeftReason = "recent"   // it was made or locked too lately
	LeftReleased LeftReason = "released" // its last request may have ended too lately
	LeftNews     LeftReason = "news"     // a holder that lost the lock may not have read yet to which request
	LeftUnclean  LeftReason = "unclean"  // it has a lock-delay, which may still run
	LeftNewer    LeftReason = "newer"    // a newer program has written it
	LeftCame     LeftReason = "came"     // a request came just before the removal
	LeftDenied   LeftReason = "denied"   // its bucket's access control list does not allow it
)

// CollectIdle removes the nodes of scopes that were unused for long. A scope
// that is locked again later has its node again, and its tokens go on growing.
// It may run at any time, several at once: a client that comes to a lock as it
// is removed tries again. Each transaction that removes scopes costs every
// client one request at its next look at a lock that it remembers.
//
// Nothing else is removed: what is known of the ticks of jobs, also of those that
// there are no more, stays.
//
// What was done until an error is returned with it:
//
//   - *RequestError: the options make no sense
//   - *AccessError: the client may not write below its root
//   - *UnavailableError: ZooKeeper does not answer
//   - else the cause of ctx
func (c *Client) CollectIdle(ctx context.Context, o IdleOptions) (Collection, error) {
	if o.Older < 0 {
		return Collection{}, &zkclient.RequestError{
			Field:  "older",
			Reason: fmt.Sprintf("%s is negative; write the idle time of scopes to remove, for example 7d", o.Older),
		}
	}
	if o.Older == 0 {
		o.Older = DefaultIdle
	}
	k := &collector{c: c, o: o, settled: make(map[string]bool)}
	_, err := zkclient.Promptly(ctx, c.Client, func() (struct{}, error) {
		return zkclient.InSessions(ctx, c.Client, func(s *zkclient.Session) (struct{}, error) {
			return struct{}{}, k.in(ctx, s)
		})
	}, nil)
	return k.result(), err
}

// A collector is one call of CollectIdle, over several sessions if need be.
type collector struct {
	c *Client
	o IdleOptions

	start   int32 // data version of the root, before the first look at a lock
	raised  int32 // by how much this collector has raised it since
	newest  int64 // a zxid from before the limit: what has happened up to it is old
	limit   int64 // server's time: what is later is young
	unsure  []candidate
	settled map[string]bool // scopes that were reported

	mu         sync.Mutex
	collection Collection
}

// A candidate is the node of a scope as it was looked at.
type candidate struct {
	scope, path string
	stat        *zkclient.Stat
}

func (x candidate) idle() IdleScope {
	return IdleScope{Scope: x.scope, Granted: time.UnixMilli(x.stat.Mtime)}
}

// in goes through all scopes, within one session.
func (k *collector) in(ctx context.Context, s *zkclient.Session) error {
	if err := k.settle(ctx, s); err != nil {
		return err
	}
	if err := k.begin(ctx, s); err != nil {
		return err
	}
	_, root, err := s.Get(ctx, k.c.Root())
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil
	} else if err != nil {
		return err
	}
	k.start, k.raised = root.Version, 0
	k.date(root.Mzxid, root.Mtime)
	all, err := k.lookAround(ctx, s)
	if err != nil {
		return err
	}
	var idle []candidate
	for _, x := range all {
		stays, err := k.stays(ctx, s, x)
		switch {
		case err != nil:
			return err
		case !stays:
			idle = append(idle, x)
		}
	}
	// Two collectors that go the same way would be in each other's way.
	rand.Shuffle(len(idle), func(i, j int) { idle[i], idle[j] = idle[j], idle[i] })
	for len(idle) > 0 {
		n := batchSize(idle)
		if err := k.remove(ctx, s, idle[:n]); err != nil {
			return err
		}
		idle = idle[n:]
	}
	return nil
}

// lookAround looks at the node of each scope.
func (k *collector) lookAround(ctx context.Context, s *zkclient.Session) ([]candidate, error) {
	buckets, _, err := s.List(ctx, k.c.Root()+"/locks")
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all []candidate
	for _, bucket := range buckets {
		path := k.c.Root() + "/locks/" + bucket
		names, _, err := s.List(ctx, path)
		if bad, isBad := zkclient.LeftOut(err, path, ""); isBad {
			k.unreadable(bad)
			continue
		} else if errors.Is(err, zkclient.ErrNoNode) {
			continue
		} else if err != nil {
			return nil, err
		}
		var found []candidate
		for _, name := range names {
			scope, ok := znode.UnescapeScope(name)
			if ok && !k.settled[scope] && lockPath(k.c.Root(), name) == path+"/"+name &&
				(k.o.Match == nil || k.o.Match(scope)) {
				found = append(found, candidate{scope: scope, path: path + "/" + name})
			}
		}
		if found, err = k.look(ctx, s, found); err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// look looks at nodes, and returns those that are there.
func (k *collector) look(ctx context.Context, s *zkclient.Session, at []candidate) ([]candidate, error) {
	var looks errgroup.Group
	looks.SetLimit(16)
	for i := range at {
		looks.Go(func() error {
			stat, err := s.Stat(ctx, at[i].path)
			if errors.Is(err, zkclient.ErrNoNode) {
				stat, err = nil, nil
			}
			at[i].stat = stat
			return err
		})
	}
	if err := looks.Wait(); err != nil {
		return nil, err
	}
	there := slices.DeleteFunc(at, func(x candidate) bool { return x.stat == nil })
	for _, x := range there {
		k.date(x.stat.Mzxid, x.stat.Mtime)
		k.date(x.stat.Czxid, x.stat.Ctime)
	}
	return there, nil
}

// date takes note of when a transaction was.
func (k *collector) date(zxid, at int64) {
	if at <= k.limit {
		k.newest = max(k.newest, zxid)
	}
}

// stays reports whether a scope is not to be removed, and takes note of why.
func (k *collector) stays(ctx context.Context, s *zkclient.Session, x candidate) (bool, error) {
	why, err := k.judge(ctx, s, x)
	bad, isBad := zkclient.LeftOut(err, x.path, x.scope)
	switch {
	case errors.Is(err, zkclient.ErrNoNode): // it has gone
		return true, nil
	case isBad:
		k.unreadable(bad)
		return true, nil
	case err == nil && why != "":
		k.left(x, why)
	}
	return why != "", err
}

// judge returns why a scope has to stay; "": no client uses it.
func (k *collector) judge(ctx context.Context, s *zkclient.Session, x candidate) (LeftReason, error) {
	switch {
	case x.stat.NumChildren > 0:
		return LeftInUse, nil
	case max(x.stat.Mtime, x.stat.Ctime) > k.limit:
		return LeftRecent, nil
	case x.stat.Pzxid > k.newest:
		return LeftReleased, nil
	case int(x.stat.DataLength) <= soleHolderLength:
		return "", nil
	}
	data, stat, err := s.Get(ctx, x.path)
	if err != nil {
		return "", err
	}
	if stat.Version != x.stat.Version {
		return LeftCame, nil
	}
	g, err := decodeLock(data)
	switch {
	case znode.IsNewer(err):
		return LeftNewer, nil
	case err != nil:
		return "", nil //nolint:nilerr // no client can use it as it is
	}
	if len(g.news(k.collection.At.UnixMilli())) > 0 {
		return LeftNews, nil
	}
	if g.Delays = g.carry(stat, nil); len(g.Delays) > 0 {
		return LeftUnclean, k.notice(ctx, s, x, g)
	}
	return "", nil
}

// notice writes that an unclean end was noticed, or how late it is by now, so that
// the scope can be removed one of the next times.
func (k *collector) notice(ctx context.Context, s *zkclient.Session, x candidate, g lockRecord) error {
	if k.o.DryRun {
		return nil
	}
	_, _, err := s.Multi(ctx,
		&zkclient.CheckVersionRequest{Path: k.c.Root(), Version: k.start},
		&zkclient.SetDataRequest{Path: x.path, Data: g.encode(), Version: x.stat.Version})
	if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, zkclient.ErrSessionOver) {
		return err
	}
	return nil // else a request came, or it is not allowed: it stays as it is
}

func (k *collector) left(x candidate, why LeftReason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settled[x.scope] = true
	k.collection.Left = append(k.collection.Left, LeftScope{IdleScope: x.idle(), Why: why})
}

// unreadable takes note of what could not be looked at, once.
func (k *collector) unreadable(bad zkclient.Unreadable) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.collection.Unreadable, bad) {
		k.collection.Unreadable = append(k.collection.Unreadable, bad)
	}
}

func (k *collector) removed(transactions int, gone ...candidate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.collection.Transactions += transactions
	for _, x := range gone {
		k.settled[x.scope] = true
		k.collection.Removed = append(k.collection.Removed, x.idle())
	}
}

// result returns what was done so far.
func (k *collector) result() Collection {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.collection
	r.Older = k.o.Older
	r.Removed, r.Left, r.Unreadable = slices.Clone(r.Removed), slices.Clone(r.Left),
		zkclient.ByPath(slices.Clone(r.Unreadable))
	slices.SortFunc(r.Removed, func(a, b IdleScope) int { return strings.Compare(a.Scope, b.Scope) })
	slices.SortFunc(r.Left, func(a, b LeftScope) int { return strings.Compare(a.Scope, b.Scope) })
	return r
}
