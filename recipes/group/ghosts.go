package group

import (
	"errors"
	"path"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// ghosts are the nodes among the participants of a group that look like one in a
// list: what is not ephemeral is nobody, and what may not be read says nothing.
// No name of a participant is used again.
type ghosts struct {
	mu sync.Mutex
	m  map[string]bool // whether it is nobody, by the node's name
}

// judge takes note of what a look at a participant's node has shown, and reports
// whether it is a ghost's.
func (g *ghosts) judge(node string, stat *zkclient.Stat, err error) bool {
	nobody := err == nil && !zkclient.IsEphemeral(stat)
	if !nobody && !errors.As(err, new(*zkclient.AccessError)) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		g.m = make(map[string]bool)
	}
	g.m[path.Base(node)] = nobody
	return true
}

// know reports whether a node is known to be a ghost's, and nobody's.
func (g *ghosts) know(name string) (nobody, strange bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	nobody, strange = g.m[name]
	return nobody, strange
}
