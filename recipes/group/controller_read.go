package group

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// read brings what the controller knows up to date. The participants are
// listed after the assignment was read: one that it names is then missing from
// the list only if it is gone.
func (c *controller) read() error {
	inc := c.inc
	for _, news := range []struct {
		flag *atomic.Bool
		read func() error
	}{{&c.placeNews, c.readPlaces}, {&c.specNews, c.readSpec}, {&c.listNews, c.readList}} {
		if news.flag.Swap(false) {
			if err := news.read(); err != nil {
				news.flag.Store(true)
				return err
			}
		}
	}
	for guid, w := range c.watches {
		if !w.news.Swap(false) {
			continue
		}
		data, stat, err := inc.s.Look(inc.ctx, w.path, &w.w)
		strange := inc.m.ghosts.judge(w.path, stat, err)
		switch {
		case strange && err == nil:
			c.forget(guid)
			continue
		case strange: // it is there, and more is not known
			inc.m.tell(Fault{Err: fmt.Errorf("participant %s: %w", w.path, err)})
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			c.forget(guid)
			continue
		case err != nil:
			w.news.Store(true)
			return err
		}
		rec, err := decodeMember(data)
		if err != nil { // a newer version's: it is there, and more is not known
			inc.m.tell(Fault{Err: fmt.Errorf("participant %s: %w", w.path, err)})
			continue
		}
		p := c.peers[guid]
		if c.round != nil && p.read && stat.Version > 0 {
			c.round.writes++
		}
		p.record, p.read = rec, true
	}
	return nil
}

func (c *controller) readPlaces() error {
	data, stat, err := c.inc.s.Get(c.inc.ctx, c.inc.m.g.assignment())
	if errors.Is(err, zkclient.ErrNoNode) {
		return c.inc.ruined("the group's assignment was deleted")
	}
	if err != nil {
		return err
	}
	a, err := decodeAssignment(data, stat)
	if err != nil {
		return znode.InNode(err, c.inc.m.g.assignment())
	}
	c.learn(a, stat.Version)
	return nil
}

// learn takes note of an assignment, and has the participants listed after it.
func (c *controller) learn(a *groupAssignment, version int32) {
	c.a, c.version = a, version
	c.known.Store(version)
	c.listNews.Store(true)
}

func (c *controller) readSpec() error {
	data, stat, err := c.inc.s.Look(c.inc.ctx, c.inc.m.g.path, &c.specWatch)
	if errors.Is(err, zkclient.ErrNoNode) {
		return c.inc.ruined("the group was deleted")
	}
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return c.inc.ruined("the group was deleted")
	}
	spec, err := decodeSpec(data)
	if err != nil {
		return znode.InNode(err, c.inc.m.g.path)
	}
	spec.complete()
	c.spec, c.specAt = spec, stat.Version
	c.declared = spec.declared()
	return nil
}

func (c *controller) readList() error {
	inc := c.inc
	members := inc.m.g.members()
	nodes, _, err := inc.s.LookAtChildren(inc.ctx, members, &c.listWatch)
	if errors.Is(err, zkclient.ErrNoNode) {
		return inc.ruined("the group was deleted")
	}
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(nodes))
	for _, child := range parseMembers(nodes) {
		if none, _ := inc.m.ghosts.know(child.node); none {
			continue
		}
		there[child.guid] = true
		if c.peers[child.guid] != nil {
			continue
		}
		w := &peerWatch{path: members + "/" + child.node}
		w.w = c.note(&w.news)
		w.news.Store(true)
		c.peers[child.guid], c.watches[child.guid] = &peer{groupChild: child}, w
	}
	for guid := range c.peers {
		if !there[guid] {
			c.forget(guid)
		}
	}
	return nil
}

// forget drops a participant that is gone.
func (c *controller) forget(guid string) {
	if w := c.watches[guid]; w != nil {
		c.inc.s.Unwatch(w.path, &w.w)
	}
	delete(c.watches, guid)
	delete(c.peers, guid)
}
