package group

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// arrive makes a node in a session that can carry one, and waits until no other
// one of the name is in front of it.
func (m *Member) arrive() (*incarnation, error) {
	s, err := m.c.Usable(m.stopped)
	if err != nil {
		return nil, err
	}
	inc := newIncarnation(m, s)
	if err := inc.create(); err != nil {
		inc.undo()
		return nil, err
	}
	if err := inc.first(); err != nil {
		inc.undo()
		return nil, err
	}
	if !s.Hold(inc) {
		inc.undo()
		return nil, errGroupLost // the session's deadline has come; it may survive
	}
	m.mu.Lock()
	late := m.leaving
	if !late {
		m.inc = inc
	}
	m.mu.Unlock()
	if late {
		s.Unhold(inc)
		inc.undo()
		return nil, errGroupLost
	}
	return inc, nil
}

// create makes the participant's node under a guid that was never used before.
func (inc *incarnation) create() error {
	m, s := inc.m, inc.s
	for {
		if m.wrecked {
			if err := m.g.restore(m.stopped); err != nil {
				return err
			}
			m.wrecked = false
		}
		path, err := s.Create(m.stopped, m.g.members()+"/"+memberNode(m.escaped, inc.guid), inc.record().encode(),
			zkclient.FlagEphemeral|zkclient.FlagSequence)
		switch {
		case err == nil:
			inc.setPath(path)
			return nil
		case errors.Is(err, zkclient.ErrNoNode): // the group was deleted
			m.wrecked = true
			continue
		case !errors.Is(err, zkclient.ErrAmbiguous):
			return err
		}
		// The next request waits until the server has caught up: a look decides.
		inc.unsure = true
		found, err := inc.find(m.stopped)
		switch {
		case err != nil:
			return err
		case found:
			return nil
		}
		inc.unsure, inc.guid = false, znode.NewGUID()
	}
}

// findContender looks for the own node by its guid.
func (inc *incarnation) find(ctx context.Context) (bool, error) {
	for {
		nodes, _, err := inc.s.List(ctx, inc.m.g.members())
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case err != nil:
			return false, err
		}
		for _, c := range parseMembers(nodes) {
			if c.guid == inc.guid {
				inc.setPath(inc.m.g.members() + "/" + c.node)
				return true, nil
			}
		}
		return false, nil
	}
}

// undo leaves nothing of an incarnation that did not come to be.
func (inc *incarnation) undo() {
	inc.cancel(errGroupLost)
	switch {
	case inc.path != "":
		inc.s.Discard(inc.path)
	case inc.unsure && !inc.s.IsOver():
		inc.m.c.Background(func() {
			if found, err := inc.find(context.Background()); err == nil && found {
				inc.s.Discard(inc.path)
			}
		})
	}
}

// first waits until no participant of the same name is in front.
func (inc *incarnation) first() error {
	m, s := inc.m, inc.s
	wake := make(chan struct{}, 1)
	var w zkclient.Watcher = func(zkclient.WatchKind) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	for {
		nodes, _, err := s.List(m.stopped, m.g.members())
		if errors.Is(err, zkclient.ErrAmbiguous) {
			continue
		}
		if err != nil {
			return err
		}
		rival, there := inc.rival(nodes)
		switch {
		case !there:
			return errGroupLost // deleted from outside
		case rival == "":
			m.rival.Store(nil)
			return nil
		}
		data, stat, err := s.Look(m.stopped, rival, &w)
		if m.ghosts.judge(rival, stat, err) {
			s.Unwatch(rival, &w)
			continue
		}
		if err == nil {
			taken := &NameTakenError{Group: m.g.spec.Name, Name: m.name, Since: time.UnixMilli(stat.Ctime)}
			if rec, err := decodeMember(data); err == nil {
				taken.Host, taken.PID = rec.Host, rec.PID
			}
			m.rival.Store(taken)
			select {
			case <-wake:
			case <-m.stopped.Done():
				err = context.Cause(m.stopped)
			case <-s.Over():
				err = zkclient.ErrSessionOver
			}
		}
		s.Unwatch(rival, &w)
		if err != nil && !errors.Is(err, zkclient.ErrNoNode) && !errors.Is(err, zkclient.ErrAmbiguous) {
			return err
		}
	}
}

// rival returns the node of the last participant of the same name in front of
// this one; "": there is none. there reports whether the own node is among them.
func (inc *incarnation) rival(nodes []string) (rival string, there bool) {
	m := inc.m
	for _, c := range parseMembers(nodes) {
		if c.guid == inc.guid {
			return rival, true
		}
		if _, strange := m.ghosts.know(c.node); c.name == m.name && !strange {
			rival = m.g.members() + "/" + c.node
		}
	}
	return rival, false
}
