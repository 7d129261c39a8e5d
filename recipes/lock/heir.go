package lock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// heir is the waiter that a releasing holder grants, with all that the hand-over
// writes: it was read before, so that a release need not.
type heir struct {
	guid, path string
	data       []byte // as granted
	version    int32
	notes      []delayNote      // that its lock-delay writes
	seen       zkclient.Instant // when the list that shows it was asked for
	evicted    []evictionNote   // to be handed on
	followed   bool             // it is shared, and so is the one right behind it: they are granted together
}

// freshFor is how long an heir may be granted without another look. A more
// important request that has come since waits for as long, and for one more
// hold.
const freshFor = 5 * time.Millisecond

func (h *heir) fresh(now zkclient.Instant) bool { return h != nil && now.Sub(h.seen) <= freshFor }

// errAgain: what was read is no longer so.
var errAgain = errors.New("decide again")

// A succession is what a leaving holder finds.
type succession struct {
	heirs    []*heir        // the waiters that it grants: the first, and if shared, the shared ones right behind it
	others   bool           // another request is there, though there may be no heir
	together bool           // others hold the lock as well: no waiter is granted
	version  int32          // of the lock node, at which this is so; -1: it cannot change while the holder holds
	evicted  []evictionNote // to be handed on: the evicted may not have heard of it
	rest     *lockRecord    // G without the holder; nil: unknown
}

// maxHeirs bounds a hand-over. Further shared waiters see the last of them
// granted, and follow by themselves.
const maxHeirs = 64

// maxHeirsBytes bounds it where requests are large, so that it fits into one
// request to ZooKeeper: the first of them always does.
const maxHeirsBytes = 512 << 10

// successors finds out which waiters the holder would grant now. The nodes are
// not read again if they are of the one that is known; most bounds how many. It
// returns zkclient.ErrNoNode when the holder itself is gone.
func (g *Grant) successors(ctx context.Context, known *heir, most int) (succession, error) {
	return g.successorsAmong(ctx, known, most, func() (company, error) { return contendersAt(ctx, g.s, g.lock.path) })
}

// successorsAmong is successors with a list of its own.
func (g *Grant) successorsAmong(
	ctx context.Context, known *heir, most int, list func() (company, error),
) (succession, error) {
	next := g.unseen()
	var held lockRecord
	var heldAt *zkclient.Stat
	if g.several() {
		// Before the children are listed: one that is not seen there and
		// comes to hold raises the version.
		data, stat, err := g.s.Get(ctx, g.lock.path)
		if err != nil {
			return next, err
		}
		record, err := decodeLock(data)
		if err != nil { // unknown who else holds: the waiters find out
			next.others, next.rest = true, nil
			return next, nil //nolint:nilerr // so no waiter is granted
		}
		if record.Open { // others may walk in: a waiter shuts it and lists, G stays as it is
			next.others, next.rest = true, nil
			return next, nil
		}
		held, heldAt, next.version, next.evicted = record, stat, stat.Version, record.news(stat.Mtime)
	}
	seen := g.s.Now()
	there, err := list()
	if err != nil {
		return next, err
	}
	children, me, stat, err := g.lock.around(there, g.guid)
	if err != nil {
		return next, err
	}
	if next.version < 0 && len(next.evicted) == 0 { // the predecessor that handed the lock over has handed them on
		if next.evicted, err = g.lock.news(ctx, g.s, stat, g.soleLength()); err != nil {
			return next, err
		}
		next.rest = &lockRecord{Evicted: next.evicted}
	}
	waiters := slices.Concat(children[:me], children[me+1:])
	if heldAt != nil {
		next.rest = new(held.without(g.guid, heldAt, waiters))
	}
	next.others = len(waiters) > 0
	next.together = slices.ContainsFunc(waiters, held.holds)
	if next.together {
		return next, nil
	}
	waiters = g.lock.cache.strangers.drop(g.lock.path, slices.Clone(waiters))
	for {
		if len(waiters) > 0 && len(barring(next.rest.Delays, waiters[0].mode, nil)) > 0 {
			return next, nil // in a delay no waiter is granted: the first waiter sees to that
		}
		heirs, strange, err := g.read(ctx, waiters, known, seen, most)
		if len(strange) > 0 {
			waiters = slices.DeleteFunc(waiters, func(c child) bool { return slices.Contains(strange, c.guid) })
			continue
		}
		for _, h := range heirs {
			h.evicted = next.evicted
		}
		next.heirs = heirs
		return next, err
	}
}

// read makes heirs of the first waiter and, if that is shared, of those shared
// ones right behind it, unless it returns the guids of strangers among them. With
// an error there is none, and without one perhaps.
func (g *Grant) read(
	ctx context.Context, waiters []child, known *heir, seen zkclient.Instant, most int,
) (all []*heir, strange []string, err error) {
	run := 0
	for run < min(len(waiters), most) &&
		(run == 0 || waiters[0].mode == priority.Shared && waiters[run].mode == priority.Shared) {
		run++
	}
	heirs := make([]*heir, run)
	errs := make([]error, run)
	var reads errgroup.Group
	reads.SetLimit(16)
	for i, c := range waiters[:run] {
		reads.Go(func() error {
			heirs[i], errs[i] = g.lock.inherit(ctx, g.s, c, known, seen)
			return nil
		})
	}
	_ = reads.Wait()
	for i, err := range errs {
		if errors.Is(err, errStranger) {
			strange = append(strange, waiters[i].guid)
		}
	}
	if len(strange) > 0 {
		return nil, strange, nil
	}
	bytes := 0
	for i, err := range errs {
		switch {
		case i > 0 && (errors.Is(err, errAgain) || heirs[i] == nil && err == nil):
			return all, nil, nil
		case err != nil:
			return nil, nil, err
		case heirs[i] == nil:
			return all, nil, nil
		}
		if bytes += len(heirs[i].data) + len(heirs[i].path); i > 0 && bytes > maxHeirsBytes {
			return all, nil, nil
		}
		heirs[i].followed = shareBoth(waiters[i:])
		all = append(all, heirs[i])
	}
	return all, nil, nil
}

// shareBoth reports whether the first two of these are shared.
func shareBoth(waiters []child) bool {
	return len(waiters) > 1 && waiters[0].mode == priority.Shared && waiters[1].mode == priority.Shared
}

// unseen is what a holder knows of its succession when it has not looked.
func (g *Grant) unseen() succession {
	next := succession{version: -1, evicted: g.evicted}
	if !g.several() { // else others may be in G
		next.rest = &lockRecord{Evicted: g.evicted}
	}
	return next
}

// soleLength is how long the lock node is if it says nothing but that this grant
// holds the lock.
func (g *Grant) soleLength() int {
	rec := newRecord(g.lock.c, g.req)
	if own := rec.delayNotes(g.guid); own != nil {
		return len(lockRecord{}.with(g.guid, own).encode())
	}
	return soleHolderLength
}

// queueAround lists the contenders in order, and tells which of them is guid;
// zkclient.ErrNoNode: none. The stat is the lock node's, of the same snapshot.
func (l *PriorityLock) queueAround(
	ctx context.Context, s *zkclient.Session, guid string,
) (children []child, me int, stat *zkclient.Stat, err error) {
	there, err := contendersAt(ctx, s, l.path)
	if err != nil {
		return nil, 0, nil, err
	}
	return l.around(there, guid)
}

// around is queueAround with a list.
func (l *PriorityLock) around(there company, guid string) (children []child, me int, stat *zkclient.Stat, err error) {
	children, stat = there.children, there.stat
	me = slices.IndexFunc(children, func(c child) bool { return c.guid == guid })
	if me < 0 {
		return nil, 0, nil, zkclient.ErrNoNode
	}
	l.cache.hints.update(l.path, func(h *hint) {
		h.waiting, h.waitingAt, h.blind = len(children)-1, time.Now(), 0
		h.lowest = children[len(children)-1].level() // at most: of the holder itself, too
	})
	return children, me, stat, nil
}

// news is what a grant keeps of the lock node: what those who were evicted a
// moment ago may not have read yet. It costs nothing where there is none: the node
// is as long as usual.
func (l *PriorityLock) news(
	ctx context.Context, s *zkclient.Session, seen *zkclient.Stat, usual int,
) ([]evictionNote, error) {
	if int(seen.DataLength) <= usual {
		return nil, nil
	}
	data, _, err := s.Get(ctx, l.path)
	if err != nil {
		return nil, err
	}
	g, err := decodeLock(data)
	if err != nil && !znode.IsNewer(err) {
		return nil, nil // overwritten, and about to be written again
	}
	return g.news(seen.Mtime), znode.InNode(err, l.path)
}

// inherit makes an heir of a waiter, seen in a list that was asked for then. It
// returns errAgain when the waiter is gone, errStranger when it is to be passed
// over, and no heir when a newer program's request has to grant itself.
func (l *PriorityLock) inherit(
	ctx context.Context, s *zkclient.Session, c child, known *heir, seen zkclient.Instant,
) (*heir, error) {
	if known != nil && known.guid == c.guid { // its version says whether it was written to
		again := *known
		again.seen = seen
		return &again, nil
	}
	next := &heir{guid: c.guid, path: l.path + "/" + c.name, seen: seen}
	if r, ok := l.cache.requests.get(c.guid); ok && known != suspect {
		next.data, next.notes = r.granted, r.rec.delayNotes(c.guid)
		return next, nil // of version 0: as it was created
	}
	data, stat, err := s.Get(ctx, next.path)
	if why := whyStranger(data, stat, err); why != "" {
		l.pass(c.name, why)
		return nil, errStranger
	} else if errors.Is(err, zkclient.ErrNoNode) {
		return nil, errAgain
	} else if err != nil {
		return nil, err
	}
	rec, err := decodeContender(data)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is newer: no heir
	}
	rec.Granted = true
	next.data, next.version, next.notes = rec.encode(), stat.Version, rec.delayNotes(c.guid)
	if stat.Version == 0 {
		l.cache.requests.put(c.guid, data, knownRequest{next.data, rec})
	}
	return next, nil
}

// suspect stands for a known heir that could not be granted: the node of the
// next one found has to be read.
var suspect = new(heir)

// requestCache remembers what was read of waiters, for those who come again
// with the same request: a waiter's guid carries a digest of the data that its
// node was created with, so a holder that has read the same data before can
// grant it without another read. The version, 0, proves that the node was not
// written since.
type requestCache struct {
	mu sync.Mutex
	m  map[string]knownRequest // by digest
}

type knownRequest struct {
	granted []byte // data as granted
	rec     contenderRecord
}

// maxRequests bounds a cache: when it is full it starts afresh.
const maxRequests = 256

func (r *requestCache) get(guid string) (known knownRequest, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok = r.m[digest(guid)]
	return known, ok
}

// put takes note of created data, unless guid says nothing about them.
func (r *requestCache) put(guid string, created []byte, known knownRequest) {
	sum := sha256.Sum256(created)
	if hex.EncodeToString(sum[:])[:znode.GUIDLength/2] != digest(guid) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil || len(r.m) >= maxRequests {
		r.m = make(map[string]knownRequest)
	}
	r.m[digest(guid)] = known
}
