package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// taking is T1 at a version of the lock node, beside the holders of keep.
type taking struct {
	s       *zkclient.Session
	version int32
	keep    lockRecord
	rec     contenderRecord
	data    []byte // rec

	guid   string // another one for each time that it is sent
	at     zkclient.Instant
	check  zkclient.CheckVersionRequest
	create zkclient.CreateRequest
	set    zkclient.SetDataRequest
	sent   *zkclient.Parcel // is on its way; nil: nothing is
}

func (a *attempt) taking(s *zkclient.Session, version int32, keep lockRecord) *taking {
	t := &taking{s: s, version: version, keep: keep, rec: newRecord(a.l.c, a.req)}
	t.rec.Granted = true
	t.data = t.rec.encode()
	return t
}

func (t *taking) operations(a *attempt) []any {
	l := a.l
	t.guid = znode.NewGUID()
	record := soleHolder(t.guid)
	if own := t.rec.delayNotes(t.guid); len(own)+len(t.keep.Evicted) > 0 || t.keep.occupied() {
		record = t.keep.with(t.guid, own).encode()
	}
	t.check = zkclient.CheckVersionRequest{Path: l.c.Root(), Version: a.epoch}
	t.create = zkclient.CreateRequest{
		Path: l.path + "/" + contenderName(a.req.Priority, a.req.Mode, t.guid), Data: t.data, Acl: l.c.ACL(),
		Flags: zkclient.FlagEphemeral | zkclient.FlagSequence,
	}
	t.set = zkclient.SetDataRequest{Path: l.path, Data: record, Version: t.version}
	// planted-bug grab-without-version: t.set.Version = -1
	t.at = t.s.Now()
	return []any{&t.check, &t.create, &t.set}
}

// post sends it, if that does not block.
func (t *taking) post(a *attempt) bool {
	ops := t.operations(a)
	if zkclient.Fits(ops...) == nil {
		t.sent = t.s.Post(zkwire.OpMulti, ops, true)
	}
	return t.sent != nil
}

// outcome sends it, unless that is done, and waits for what comes of it.
func (t *taking) outcome(ctx context.Context, a *attempt) ([]zkclient.MultiResponse, int, error) {
	if p := t.sent; p != nil {
		t.sent = nil
		return t.s.Outcome(p)
	}
	return t.s.Multi(ctx, t.operations(a)...)
}

// take is T1: it takes the lock if nothing has been granted since a version, and
// no lock node was removed since a.epoch. It returns errAgain when the terms may have changed.
func (a *attempt) take(ctx context.Context, t *taking) (*Grant, error) {
	l, s := a.l, t.s
	for {
		if t.sent == nil && a.outdated() {
			return nil, errAgain
		}
		r, failed, err := t.outcome(ctx, a)
		guid, keep := t.guid, t.keep
		switch {
		case err == nil:
			stamp := zkclient.ServerStamp{At: r[2].Stat.Mtime, Sent: t.at, Replied: s.Now()}
			g := &Grant{
				lock: l, s: s, guid: guid, path: r[1].String, stamp: stamp, notices: a.notices,
				token: Token(r[2].Stat.Mzxid), at: dataVersion{0, true}, version: r[2].Stat.Version, epoch: a.epoch,
				evicted: keep.Evicted,
			}
			if keep.occupied() {
				g.version = -1 // at which the lock is not idle when this one leaves
			}
			if keep.Open {
				l.cache.hints.update(l.path, func(h *hint) {
					h.open, h.throng = walkIn{known: true, version: r[2].Stat.Version, epoch: a.epoch}, h.throng.after(r[1].String)
				})
			}
			return a.granted(g)
		case errors.Is(err, zkclient.ErrBadVersion) && failed == 0:
			// Scopes were removed meanwhile, this one maybe among them: what version
			// says may be old. No node of this client need be there.
			l.cache.epoch.CompareAndSwap(a.epoch, -1)
			l.cache.hints.update(l.path, func(h *hint) { h.idle = false })
			return nil, errAgain
		case errors.Is(err, zkclient.ErrBadVersion):
			return nil, errCrowded
		case errors.Is(err, zkclient.ErrNoNode) && len(keep.Holders) > 0:
			return nil, errCrowded
		case errors.Is(err, zkclient.ErrNoNode):
			if err := s.Ensure(ctx, l.path); err != nil && !errors.Is(err, zkclient.ErrAmbiguous) {
				return nil, err
			}
			t.version = 0
		case errors.Is(err, zkclient.ErrAmbiguous):
			own, lost := findContender(ctx, s, l.path, guid)
			if lost != nil {
				a.undo(s, guid)
				return nil, lost
			}
			if own == "" {
				return nil, errCrowded // not executed, or evicted since
			}
			return a.adopt(ctx, s, guid, own, t.at)
		default:
			return nil, err
		}
	}
}

// adopt makes a grant of a node whose creation was not acknowledged.
func (a *attempt) adopt(
	ctx context.Context, s *zkclient.Session, guid, path string, sent zkclient.Instant,
) (*Grant, error) {
	p := newPlace(a, s, guid, path, sent, s.Now())
	p.adopted = true
	return p.stay(ctx) // finds itself in G
}
