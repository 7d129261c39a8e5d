package opstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Watch calls see with what is posted, as List returns it, and again soon after
// each change, until ctx ends, whose cause it returns, or the client is closed.
// What cannot be trusted, or read, is passed as an error without overrides,
// once until that changes. While ZooKeeper does not answer see is not called.
func (b *OverrideBoard) Watch(ctx context.Context, see func([]PostedOverride, error)) error {
	w := boardWatch{b: b, see: see}
	return b.c.ReadingFor(ctx, false, func(s *zkclient.Session) error { return w.on(ctx, s) })
}

// A boardWatch tells each state of the board once.
type boardWatch struct {
	b    *OverrideBoard
	see  func([]PostedOverride, error)
	told string
}

func (w *boardWatch) on(ctx context.Context, s *zkclient.Session) error {
	bell := zkclient.NewBell()
	forget := func() { s.Unwatch(w.b.path(), bell.Watcher()) }
	defer forget()
	for {
		// What is reported depends on what the client knows of who the operators are.
		refusal := w.b.c.Introduce(ctx, s)
		if refusal != nil && !zkclient.IsRefusal(refusal) {
			return refusal
		}
		sight, err := zkclient.Promptly(ctx, w.b.c, func() (boardSight, error) { return w.b.sight(ctx, s, bell.Watcher()) },
			func(boardSight, error) { forget() })
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
			return err
		case ctx.Err() != nil: // which may come together with an answer
			return context.Cause(ctx)
		}
		if err == nil && len(sight.rec.Posted) > 0 { // else there is no end to watch for
			if err := w.b.c.PrimeTime(ctx, s); err != nil {
				return err
			}
		}
		if err == nil {
			err = sight.doubt
		}
		if err == nil || errors.As(refusal, new(*zkclient.ListsError)) {
			err = cmp.Or(refusal, err)
		}
		w.tell(sight, err)
		most := zkclient.SafetyPoll
		if refusal != nil {
			most = zkclient.RefusalPoll
		}
		if err := bell.WaitFor(ctx, s, most); err != nil {
			return err
		}
	}
}

func (w *boardWatch) tell(sight boardSight, err error) {
	if err != nil {
		if news := "error " + err.Error(); w.told != news {
			w.told = news
			w.see(nil, fmt.Errorf("overrides: %w", err))
		}
		return
	}
	if news := fmt.Sprintf("node %+v", sight.id); w.told != news {
		w.told = news
		w.see(sight.rec.posted(), nil)
	}
}

// boardSight is the node as seen.
type boardSight struct {
	id    nodeVersion
	rec   boardRecord
	doubt error // *UntrustedError, or why it cannot be read

	root    []zkclient.ACLEntry // of the root
	rootErr error               // why that is not to be trusted
}

// nodeVersion tells one state of a node from all others. The zero value: there
// is none.
type nodeVersion struct {
	created, written int64
	data, acl        int32
}

func versionOf(stat *zkclient.Stat) nodeVersion {
	return nodeVersion{stat.Czxid, stat.Mzxid, stat.Version, stat.Aversion}
}

// sight reads the node and who may write it, of one moment. It registers w, if
// given, for what happens to it.
func (b *OverrideBoard) sight(
	ctx context.Context, s *zkclient.Session, w *zkclient.Watcher,
) (sight boardSight, err error) {
	for {
		// The root first: what is put there from then on was put there by one of those.
		sight = boardSight{}
		if sight.root, sight.rootErr = b.c.VouchRoot(ctx, s); isConnection(sight.rootErr) {
			return sight, sight.rootErr
		}
		data, stat, err := b.read(ctx, s, w)
		if errors.Is(err, zkclient.ErrNoNode) {
			return sight, nil
		} else if err != nil {
			return sight, err
		}
		if errors.Is(sight.rootErr, zkclient.ErrNoNode) {
			continue // made meanwhile
		}
		sight.id, sight.doubt = versionOf(stat), sight.rootErr
		if sight.doubt == nil {
			sight.doubt = b.c.VouchNode(ctx, s, sight.root, b.path())
		}
		if isConnection(sight.doubt) {
			return sight, sight.doubt
		}
		now, err := s.Stat(ctx, b.path())
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			continue
		case err != nil:
			return sight, err
		case now.Czxid != stat.Czxid || now.Aversion != stat.Aversion:
			continue
		}
		if sight.rec, err = decodeBoard(data); err != nil && sight.doubt == nil {
			sight.doubt = fmt.Errorf("the list cannot be read: %w", znode.InNode(err, b.path()))
		}
		return sight, nil
	}
}

// isConnection reports whether err says nothing about the data.
func isConnection(err error) bool {
	return err != nil && !zkclient.IsUntrusted(err) && !errors.Is(err, zkclient.ErrNoNode) &&
		!errors.Is(err, zkclient.ErrNoAuth)
}
