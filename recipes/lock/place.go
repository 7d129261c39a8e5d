package lock

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A place is a request in the queue, from the creation of its node to the
// grant or its removal.
type place struct {
	a    *attempt
	s    *zkclient.Session
	guid string
	path string // of the node
	name string
	rec  contenderRecord

	joined  zkclient.Instant // the create was answered
	version int32            // of the node's data
	stamp   zkclient.ServerStamp
	known   bool // the node was read: version and stamp are set

	wake    chan struct{}
	granted atomic.Bool // the node was written: that is a grant, unless rewritten
	gone    atomic.Bool // the node was deleted
	stale   atomic.Bool // the watch on the node must be armed again

	rewritten atomic.Bool // the node may have been written by the request itself
	unsettled *revision   // a rewriting whose reply was lost
	moved     *place      // where the request stands now
	former    func(context.Context)

	own     zkclient.Watcher
	others  zkclient.Watcher
	watched map[string]struct{} // paths that others watches

	asks     map[string]*standingAsk // by the holder's guid
	authors  map[string]struct{}     // of notes whose requests were looked for
	seizure  *seizure                // a takeover whose reply was lost
	first    bool                    // was first at the last look
	told     bool                    // Queued was sent
	scouted  *scout                  // the look that is under way was sent together
	trust    *trust                  // others were in front a moment ago: no need to look right away
	heir     *heir                   // the waiter that it will grant when it has held the lock
	calm     bool                    // the rest is over, and nothing has happened since
	seen     bool                    // has glanced
	odd      bool                    // foreign nodes were reported
	promoted string                  // guid of one in front that was found granted
	beaten   bool                    // another took the lock although this request is first
	knocked  bool                    // knock raised the version of the lock node
	counted  bool                    // the queue was not too long when it joined
	follows  string                  // path of the one right in front, if it is watched and nothing has happened since
	polled   bool                    // that was so for as long as there was to wait
	front    string                  // path of the one right in front as last seen, which is watched
	stirred  string                  // the same, when something has happened since
	sawG     bool                    // has watched the lock node
	baffled  zkclient.Instant        // since then the holder says nothing; 0: it does
	adopted  bool                    // its creation was a T1, so it may hold from the beginning
	sights   map[string]sight        // by the guid of a holder that has gone uncleanly
}

// standingAsk is what this request has asked of one holder.
type standingAsk struct {
	holder  Contender
	path    string
	reasons map[priority.Reason]zkclient.Instant // when the request was certain to be there
	notes   map[priority.Reason]int64            // server's time of the notes; of members of a hold alone
}

func newPlace(a *attempt, s *zkclient.Session, guid, path string, sent, joined zkclient.Instant) *place {
	p := &place{
		a: a, s: s, guid: guid, path: path, name: path[len(a.l.path)+1:], joined: joined,
		wake: make(chan struct{}, 1), watched: make(map[string]struct{}), asks: make(map[string]*standingAsk),
	}
	p.stamp.Sent = sent
	p.rec = newRecord(a.l.c, a.req)
	p.stale.Store(true)
	p.own = func(k zkclient.WatchKind) {
		switch k {
		case zkclient.WatchChanged:
			if !p.rewritten.Load() { // else the node tells
				p.granted.Store(true)
			}
		case zkclient.WatchDeleted:
			p.gone.Store(true)
		case zkclient.WatchLost:
		}
		p.stale.Store(true)
		p.poke()
	}
	p.others = func(zkclient.WatchKind) { p.poke() }
	return p
}

func (p *place) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *place) learn(stat *zkclient.Stat) {
	p.version = stat.Version
	if !p.known {
		p.known = true
		p.stamp.At, p.stamp.Replied = stat.Ctime, p.joined
	}
}

// mend writes the own node anew after another program has overwritten it.
func (p *place) mend(ctx context.Context, seen *zkclient.Stat) error {
	p.a.l.c.Log().Warn("the request's node is overwritten: writing it anew", "node", p.path)
	p.rewritten.Store(true) // before its event can come
	p.stale.Store(true)
	stat, err := p.s.Set(ctx, p.path, p.rec.encode(), seen.Version)
	switch {
	case err == nil:
		p.version = stat.Version
		return nil
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		return errAgain
	}
	return err
}

// evicted says why the request's node is gone: by an administrator's hand, or
// because it was granted and taken over before this process heard of either.
func (p *place) evicted(ctx context.Context) error {
	g := p.newGrant()
	loss := g.whyGone(ctx)
	if p.s.IsOver() {
		return p.s.Err()
	}
	if loss.Reason != LossDeleted {
		return loss
	}
	return &EvictedError{Scope: p.a.l.scope}
}

func (p *place) sequence() int32 {
	c, _ := parseChild(p.name)
	return c.place.Sequence
}

func (p *place) read(ctx context.Context, c child) (Contender, error) {
	data, stat, err := p.s.Get(ctx, p.a.l.path+"/"+c.name)
	if err != nil {
		return Contender{}, err
	}
	rec, err := decodeContender(data)
	return rec.contender(c, stat), err
}

// tellQueued sends Queued once a wait turns out to be more than a short one.
func (p *place) tellQueued(ctx context.Context, position int, alive []child) {
	if p.told || p.a.req.Notify == nil {
		return
	}
	p.told = true
	var holders []Contender
	for _, c := range alive {
		if h, err := p.read(ctx, c); err == nil {
			holders = append(holders, h)
		}
	}
	p.a.holders = holders
	p.a.notices.Send(Queued{Position: position, Holders: holders})
}

// watchOnly drops the watches on others than these.
func (p *place) watchOnly(paths ...string) {
	for path := range p.watched {
		if !slices.Contains(paths, path) {
			p.s.Unwatch(path, &p.others)
			delete(p.watched, path)
		}
	}
	for _, path := range paths {
		p.watched[path] = struct{}{}
	}
}

// forget ends this request's interest in events.
func (p *place) forget() {
	p.watchOnly()
	p.s.Unwatch(p.path, &p.own)
}

func (p *place) newGrant() *Grant {
	return &Grant{
		lock: p.a.l, s: p.s, req: p.a.req, guid: p.guid, path: p.path, epoch: p.a.epoch, mode: p.a.req.Mode, stamp: p.stamp,
		notices: p.a.notices,
	}
}
