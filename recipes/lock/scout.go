package lock

import (
	"context"
	"sync"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A scout reads ahead for a request that may have to preempt a holder: G, the
// list and the nodes that may be holders are read together with the own node,
// in one round trip instead of four. In which order they are answered does not
// matter: G and the list are of one version or are read anew, and what a holder
// says is used under the version of its node.
type scout struct {
	all sync.WaitGroup

	g     zkclient.NodeData
	gErr  error
	there company
	err   error // of the list

	holders map[string]*glimpse // by path; those who may hold
}

// A glimpse is one read of a node that is watched since.
type glimpse struct {
	node zkclient.NodeData
	err  error
}

// maxScouted is how many are looked at who may hold the lock.
const maxScouted = 4

// scouts reports whether the first look is better sent together: the request
// outranks one that it saw before it joined.
func (a *attempt) scouts() bool { return a.below && a.req.Mode == priority.Exclusive }

// scout sends what the place is going to ask.
func (p *place) scout(ctx context.Context) {
	s, path := p.s, p.a.l.path
	looks := &scout{holders: make(map[string]*glimpse, len(p.a.suspects))}
	looks.all.Go(func() { looks.g.Data, looks.g.Stat, looks.gErr = s.Get(ctx, path) })
	looks.all.Go(func() { looks.there, looks.err = contendersAt(ctx, s, path) })
	for _, c := range p.a.suspects {
		node := path + "/" + c.name
		seen := new(glimpse)
		looks.holders[node] = seen
		p.watched[node] = struct{}{}
		looks.all.Go(func() { seen.node.Data, seen.node.Stat, seen.err = s.Look(ctx, node, &p.others) })
	}
	p.a.suspects = nil // they are known well enough once
	p.scouted = looks
}

// recall waits for what is under way: nothing may be watched after the place has
// been left.
func (p *place) recall() {
	p.scouted.all.Wait()
	p.scouted = nil
}

// report returns G and the list, if they are of one version.
func (p *place) report() (zkclient.NodeData, company, bool) {
	if p.scouted == nil {
		return zkclient.NodeData{}, company{}, false
	}
	p.scouted.all.Wait()
	if l := p.scouted; l.gErr == nil && l.err == nil && l.g.Stat.Version == l.there.stat.Version {
		return l.g, l.there, true
	}
	return zkclient.NodeData{}, company{}, false
}

// lookAtHolder reads what a holder says and watches it, unless the scout has.
func (p *place) lookAtHolder(ctx context.Context, path string) (zkclient.NodeData, error) {
	if p.scouted != nil {
		p.scouted.all.Wait()
		if seen := p.scouted.holders[path]; seen != nil && seen.err == nil {
			return seen.node, nil
		}
	}
	data, stat, err := p.s.Look(ctx, path, &p.others)
	return zkclient.NodeData{Data: data, Stat: stat}, err
}
