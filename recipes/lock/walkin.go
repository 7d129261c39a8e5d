package lock

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A walkIn is a version of the lock node at which readers may walk in (T18): G
// says that it is open, so only shared holders have the lock, and no delay is to be
// minded. They do not write G, so they are not in each other's way either.
type walkIn struct {
	known   bool
	version int32
	epoch   int32 // read before version was
}

// maxWalking is how many requests of one client may be on their way in at once. Each
// that has come in tells how many others have.
const maxWalking = 64

// errWalkIn: no request is there, and readers may walk in.
var errWalkIn = errors.New("readers may walk in")

// A throng is how many may hold a lock, at most: those that were there when sequence was the
// last number of a node, and every node that has come since.
type throng struct {
	there    int
	sequence int32
}

// throngOf counts those of a list.
func throngOf(children []child) throng {
	t := throng{there: len(children)}
	for i, c := range children {
		if i == 0 || c.place.Sequence-t.sequence > 0 {
			t.sequence = c.place.Sequence
		}
	}
	return t
}

// after is how many there are when one more has come, by the name that
// ZooKeeper has given its node. It counts all that were made before it, so none
// is forgotten: where no request was seen the numbers begin at 0, and those
// that have wrapped say that there may be very many.
func (t throng) after(node string) throng {
	c, ok := parseChild(path.Base(node))
	if ok && t.there == 0 && c.place.Sequence < 0 {
		return throng{there: maxSharing, sequence: c.place.Sequence}
	}
	if since := c.place.Sequence - t.sequence; ok && since > 0 {
		return throng{there: t.there + int(since), sequence: c.place.Sequence}
	}
	return t
}

// mayWalk reports whether the request may hold the lock without being named in G:
// nothing of it has to be written there.
func (a *attempt) mayWalk() bool {
	return a.req.Mode == priority.Shared && a.req.LockDelay == 0 && a.req.Hold == "" &&
		a.req.Priority != priority.Emergency
}

// mayOpen reports whether a T1 beside others opens the lock for readers: no
// exclusive request is there, and no delay of another hold bars it.
func (a *attempt) mayOpen(keep lockRecord) bool {
	return a.mayWalk() && len(keep.Delays) == 0 &&
		!slices.ContainsFunc(a.seen, func(c child) bool { return c.mode != priority.Shared })
}

// isBehind reports whether a list showed an exclusive request that comes first:
// it has not shut the lock yet.
func (a *attempt) isBehind() bool {
	return slices.ContainsFunc(a.seen, func(c child) bool {
		return c.mode != priority.Shared && !a.req.Priority.Outranks(c.level())
	})
}

// walksBlind is a T18 without a look, where the lock was open a while ago. It returns errCrowded where a
// look is needed.
func (a *attempt) walksBlind(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	h := a.l.cache.hints.get(a.l.path)
	if !h.open.known || !a.mayWalk() || h.throng.there >= maxSharing {
		return nil, errCrowded
	}
	return a.walk(ctx, s, h.open)
}

// walk is T18: it takes a shared lock that is open. It returns errCrowded when it is not open at
// that version any more, and errAgain when scopes were removed, the terms may have changed, or
// too many of this client are on their way in: a look takes as long as they do.
func (a *attempt) walk(ctx context.Context, s *zkclient.Session, at walkIn) (*Grant, error) {
	l := a.l
	if a.outdated() || !l.admit() {
		return nil, errAgain
	}
	rec := newRecord(l.c, a.req)
	rec.Granted = true
	guid := znode.NewGUID()
	sent := s.Now()
	r, failed, err := s.Multi(ctx,
		&zkclient.CheckVersionRequest{Path: l.c.Root(), Version: at.epoch},
		&zkclient.CreateRequest{
			Path: l.path + "/" + walkerName(a.req.Priority, guid), Data: rec.encode(), Acl: l.c.ACL(),
			Flags: zkclient.FlagEphemeral | zkclient.FlagSequence,
		},
		&zkclient.CheckVersionRequest{
			Path:    l.path,
			Version: at.version, // planted-bug walk-in-without-version: Version: -1,
		})
	l.cache.hints.update(l.path, func(h *hint) {
		h.walking = max(0, h.walking-1)
		switch {
		case err == nil:
			h.open, h.throng = at, h.throng.after(r[1].String)
		case h.open == at && !errors.Is(err, zkclient.ErrAmbiguous):
			h.open = walkIn{}
		}
	})
	switch {
	case err == nil:
		return a.granted(&Grant{
			lock: l, s: s, guid: guid, path: r[1].String, notices: a.notices,
			stamp: zkclient.ServerStamp{Sent: sent, Replied: s.Now()},
			at:    dataVersion{0, true}, version: -1, epoch: at.epoch, walkedIn: at,
		})
	case errors.Is(err, zkclient.ErrBadVersion) && failed == 0:
		l.cache.epoch.CompareAndSwap(at.epoch, -1)
		return nil, errAgain
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		return nil, errCrowded
	case errors.Is(err, zkclient.ErrAmbiguous):
		own, lost := findContender(ctx, s, l.path, guid)
		if lost != nil {
			a.undo(s, guid)
			return nil, lost
		}
		if own == "" {
			return nil, errCrowded // not executed, or evicted since
		}
		return a.adopt(ctx, s, guid, own, sent)
	}
	return nil, err
}

// admit counts one more that is on its way in, unless there are too many.
func (l *PriorityLock) admit() (admitted bool) {
	l.cache.hints.update(l.path, func(h *hint) {
		if admitted = h.walking < maxWalking; admitted {
			h.walking++
		}
	})
	return admitted
}

// walkOut removes the node of one that walked in, if the lock is open as it
// was: then no waiter that has listed waits for this node. It returns
// zkclient.ErrBadVersion when it is not. A parcel that was sent already stays sent.
func (g *Grant) walkOut(ctx context.Context, sent *zkclient.Parcel) error {
	var failed int
	var err error
	if sent != nil {
		_, failed, err = g.s.Outcome(sent)
	} else {
		_, failed, err = g.s.Multi(ctx, g.walkingOut()...)
	}
	if failed == 1 && errors.Is(err, zkclient.ErrNoNode) {
		return zkclient.ErrBadVersion
	}
	return err
}

func (g *Grant) walkingOut() []any {
	return []any{
		&zkclient.DeleteRequest{Path: g.path, Version: -1},
		&zkclient.CheckVersionRequest{Path: g.lock.path, Version: g.walkedIn.version},
	}
}

// shut ends that readers may walk in: all who list the requests after that see
// those that have. It returns errAgain when that is so.
func (l *PriorityLock) shut(ctx context.Context, s *zkclient.Session, version int32) error {
	_, err := l.rewrite(ctx, s, version, func(data []byte) (lockRecord, error) {
		g, err := decodeLock(data)
		g.Open, g.Walked = false, true
		return g, znode.InNode(err, l.path)
	})
	return err
}
