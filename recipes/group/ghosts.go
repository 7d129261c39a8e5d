package group

import (
	"errors"
	"path"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// ghosts are the nodes among the participants of a group that look like one in
// a list: a node that is not ephemeral is no participant, and one that may not
// be read says nothing. No name of a participant is used again.
type ghosts struct {
	mu sync.Mutex
	m  map[string]bool // whether it is no participant, by the node's name
}

// judge takes note of what a look at a participant's node has shown, and reports
// whether it is a ghost's.
func (g *ghosts) judge(node string, stat *zkclient.Stat, err error) bool {
	none := err == nil && !zkclient.IsEphemeral(stat)
	if !none && !errors.As(err, new(*zkclient.AccessError)) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		g.m = make(map[string]bool)
	}
	g.m[path.Base(node)] = none
	return true
}

// know reports whether a node is known to be a ghost's, and whether it is
// certainly no participant's.
func (g *ghosts) know(name string) (none, strange bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	none, strange = g.m[name]
	return none, strange
}
