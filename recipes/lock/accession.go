package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Superseded is the reason of an Eviction by one that has adopted the hold.
const Superseded priority.Reason = "superseded"

// An accession is one call of Join or Adopt: how a contender becomes a member of a
// hold that others have begun.
type accession struct {
	a      *attempt
	ref    Reference
	adopts bool

	tried []string // guids of own nodes whose creation has an unknown outcome
	waits bool     // the one that is to be adopted has been seen waiting
	seen  int64    // its session; 0: not known
	told  string   // guid of one whose node has said that it is granted
}

// run carries the call out, in one session after the other. What was made in one
// that has ended is a member like any other, or dead.
func (k *accession) run(ctx context.Context) (*Grant, error) {
	c := k.a.l.c
	s, err := c.Admit(ctx)
	for err == nil {
		var g *Grant
		if g, err = k.in(ctx, s); err == nil {
			return g, nil
		}
		if isFinal(err) || !errors.Is(err, zkclient.ErrSessionOver) || c.IsClosing() {
			break
		}
		s, err = c.Usable(ctx)
	}
	return nil, k.a.explain(err)
}

// in carries it out within one session. It begins with what all others have done
// by now: a Reference comes past ZooKeeper, and a server that lags would show nothing
// of what it names.
func (k *accession) in(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	err := s.Sync(ctx, k.a.l.path)
	if err != nil && !errors.Is(err, zkclient.ErrAmbiguous) { // else the session does it, with the next connection
		return nil, err
	}
	for {
		g, err := k.look(ctx, s)
		if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, errAgain) {
			continue // reads decide, as soon as there is a connection
		}
		return g, err
	}
}

// look looks who is at the lock, and does what is to be done. It returns errAgain
// when that has changed meanwhile.
func (k *accession) look(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	l := k.a.l
	// In this order: a version means nothing after a removal, and a list that is
	// older than G could show a holder as alive that G no longer knows.
	epoch, err := l.cache.rootEpoch(ctx, s)
	if err != nil {
		return nil, err
	}
	k.a.epoch = epoch
	data, stat, err := s.Get(ctx, l.path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, k.notThere(false)
	} else if err != nil {
		return nil, err
	}
	v := holdView{stat: stat}
	if v.g, err = l.grants(ctx, s, data, stat.Version); err != nil {
		return nil, err
	}
	there, err := contendersAt(ctx, s, l.path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, errAgain
	} else if err != nil {
		return nil, err
	}
	if there.stat.Version != stat.Version {
		return nil, errAgain // one granted and gone in between would be nowhere
	}
	v.there = there.children
	if k.adopts {
		return k.adopt(ctx, s, &v)
	}
	return k.join(ctx, s, &v)
}

// join is T14, through any present member.
func (k *accession) join(ctx context.Context, s *zkclient.Session, v *holdView) (*Grant, error) {
	m, err := k.member(ctx, s, v)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, k.notThere(false)
	}
	return k.enter(ctx, s, v, m, "")
}

// member finds a living member of the hold, the one that is named if it is there;
// nil: there is none.
func (k *accession) member(ctx context.Context, s *zkclient.Session, v *holdView) (*holding, error) {
	alive := v.alive()
	if i := slices.IndexFunc(alive, func(c child) bool { return c.guid == k.ref.ID }); i > 0 {
		alive[0], alive[i] = alive[i], alive[0] // of many shared ones, no other has to be read
	}
	for _, c := range alive {
		m, err := k.read(ctx, s, c)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			return nil, errAgain
		case isUnusable(err) && c.guid != k.ref.ID: // it is no companion that could be joined
		case err != nil:
			return nil, err
		case k.isMember(m):
			return m, nil
		}
	}
	return nil, nil //nolint:nilnil // there need be none
}

// read reads what a member says.
func (k *accession) read(ctx context.Context, s *zkclient.Session, c child) (*holding, error) {
	h := &holding{child: c, path: k.a.l.path + "/" + c.name}
	data, stat, err := s.Get(ctx, h.path)
	if err != nil {
		return nil, err
	}
	h.stat = stat
	h.rec, err = decodeContender(data)
	return h, znode.InNode(err, h.path)
}

// isMember reports whether a holder is a member of the hold that is meant: an id
// may have been used again for a later one.
func (k *accession) isMember(h *holding) bool {
	return h.rec.Hold == k.ref.Hold && h.rec.Granted && (k.ref.Token == 0 || h.rec.token(h.stat) == k.ref.Token)
}

func (k *accession) notThere(held bool) error {
	return &NotThereError{Reference: k.ref, Held: held}
}
