package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// adopt is T15, T14 or T16, in the place of the one that is named; or it waits for
// the first of these.
func (k *accession) adopt(ctx context.Context, s *zkclient.Session, v *holdView) (*Grant, error) {
	names := append([]string{k.ref.ID}, k.tried...)
	for _, guid := range names {
		c, there := v.find(guid)
		switch {
		case !there:
			continue
		case !slices.Contains(v.g.Holders, guid):
			return nil, k.await(ctx, s, v, c)
		}
		m, err := k.read(ctx, s, c)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			return nil, errAgain
		case err != nil:
			return nil, err
		case !k.isMember(m):
			return nil, k.notThere(false)
		}
		return k.enter(ctx, s, v, m, guid)
	}
	for _, e := range v.g.Evicted {
		if slices.Contains(k.tried, e.ID) { // that was made, and has held the lock
			return nil, e.loss(k.a.l.scope)
		}
	}
	if k.waits {
		k.waits = false
		if err := k.follow(ctx, s, v); err != nil {
			return nil, err
		}
	}
	x, err := k.member(ctx, s, v)
	if err != nil {
		return nil, err
	}
	for _, guid := range names {
		switch {
		case !slices.Contains(v.g.Holders, guid):
		case x != nil:
			return k.enter(ctx, s, v, x, guid)
		case k.ref.Mode == priority.Exclusive && len(v.alive()) == 0:
			return k.resume(ctx, s, v, guid)
		}
	}
	return nil, k.notThere(x != nil)
}

// await waits until the one that is to be adopted, which was not granted when G was
// read, changes or goes. It returns errAgain then.
func (k *accession) await(ctx context.Context, s *zkclient.Session, v *holdView, c child) error {
	k.waits = true
	wake := make(chan struct{}, 1)
	watch := zkclient.Watcher(func(zkclient.WatchKind) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	path := k.a.l.path + "/" + c.name
	data, stat, err := s.Look(ctx, path, &watch)
	defer s.Unwatch(path, &watch)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return errAgain
	case err != nil:
		return err
	}
	rec, err := decodeContender(data)
	switch {
	case err != nil:
		return znode.InNode(err, path)
	case rec.Hold != k.ref.Hold:
		return k.notThere(false)
	}
	k.seen = stat.EphemeralOwner
	rest := zkclient.SafetyPoll
	switch {
	case rec.Granted && k.told != c.guid: // since G was read
		k.told = c.guid
		return errAgain
	case rec.Granted: // a foreign client has written that there
		rest = time.Second
	case k.a.try():
		k.a.describe(ctx, s)
		return &NotAcquiredError{Scope: k.a.l.scope, Holders: k.a.holders, Delays: k.a.delays}
	}
	k.tellQueued(ctx, s, v, c)
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-ctx.Done():
		if err = context.Cause(ctx); errors.Is(err, call.ErrTimeout) && s.Usable() {
			k.a.describe(s.Client().Closing(), s)
		}
		return err
	case <-s.Over():
		return s.Err()
	}
	return errAgain
}

// tellQueued tells, once, where the one stands that is waited for.
func (k *accession) tellQueued(ctx context.Context, s *zkclient.Session, v *holdView, waiter child) {
	if k.a.queued {
		return
	}
	k.a.queued = true
	position := 1
	for _, c := range v.there {
		if c.guid == waiter.guid {
			break
		}
		if !v.g.holds(c) {
			position++
		}
	}
	k.a.describe(ctx, s)
	k.a.notices.Send(Queued{Position: position, Holders: k.a.holders})
}

// follow looks for the request under another name: one whose priority has changed
// while it waited has moved (T12), in the same session. It returns errAgain if it is
// there.
func (k *accession) follow(ctx context.Context, s *zkclient.Session, v *holdView) error {
	for _, c := range v.there {
		m, err := k.read(ctx, s, c)
		switch {
		case errors.Is(err, zkclient.ErrNoNode), isUnusable(err):
		case err != nil:
			return err
		case m.rec.Hold == k.ref.Hold && (k.seen == 0 || m.stat.EphemeralOwner == k.seen):
			k.ref.ID = c.guid
			return errAgain
		}
	}
	return nil
}

// resume is T16: all members have died, and G is what it was then.
func (k *accession) resume(ctx context.Context, s *zkclient.Session, v *holdView, place string) (*Grant, error) {
	l := k.a.l
	req := k.a.req
	req.Mode = k.ref.Mode
	if err := k.a.vouch(ctx, &req); err != nil {
		return nil, err
	}
	rec := newRecord(l.c, req)
	rec.Granted, rec.Token = true, k.ref.Token
	next := lockRecord{Evicted: v.g.Evicted, Walked: v.g.Walked, Delays: v.g.carry(v.stat, v.there)}
	check := &zkclient.CheckVersionRequest{Path: l.c.Root(), Version: k.a.epoch}
	return k.make(ctx, s, v, check, req.Priority, rec, next, place)
}
