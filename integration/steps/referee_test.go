package steps

import (
	"slices"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A referee watches that those who hold a lock may hold it together: of those who believe it, and, before each request, by
// what the server says.
type referee struct {
	*virtual.Referee

	s      *stage
	mu     sync.Mutex
	inside []*hold
}

func newReferee(s *stage) *referee {
	return &referee{Referee: virtual.NewReferee(s.z, root, s.foul), s: s}
}

// force tells whether a holder can be out before it can know.
func (r *referee) force(h *hold) bool {
	return r.s.scene.forced || r.s.scene.adopted && !h.told() || h.u.suffer(func(f *fault) bool { return f.expires })
}

// enters is called with each grant.
func (r *referee) enters(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.node != "" && !r.holds(h) && !h.told() && !r.force(h) {
		r.s.foul("%s was granted %s, and the server knows nothing of it", h.u.name, h.scope)
	}
	if h.told() {
		return
	}
	with := 0
	for _, other := range r.inside {
		if other.scope != h.scope || other.told() || h.most == 0 && (other.mode.Admits(h.mode) || h.id != "" && other.id == h.id) {
			continue
		}
		if r.force(other) && !r.holds(other) || r.force(h) && !r.holds(h) {
			continue // it will be told
		}
		if with++; with < h.most {
			continue
		}
		r.s.foul("%s and %s both believe that they hold %s", other.u.name, h.u.name, h.scope)
	}
	r.inside = append(r.inside, h)
}

// told tells whether the hold is over for its owner.
func (h *hold) told() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// shares is called before a downgrade.
func (r *referee) shares(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.mode = priority.Shared
}

// left is called after a release that has succeeded.
func (r *referee) left(h *hold) {
	if h.node != "" && r.node(h.node) != nil {
		r.s.foul("%s has released %s, and its node is there", h.u.name, h.scope)
	}
}

// token is called with each token that a holder gets.
func (r *referee) token(h *hold, token lock.Token) {
	if known := r.Token(h.scope, h.guid); known != 0 && known != token {
		r.s.foul("the token of %s is %d, and it was told %d", h.u.name, known, token)
	}
}

// broken checks that a holder whose lock is broken is gone.
func (r *referee) broken(c lock.Contender) {
	if r.node(c.ID) != nil {
		r.s.foul("the lock of %s is broken, and its node is there", c.Owner)
	}
}

// holds tells whether the server says that a hold is one.
func (r *referee) holds(h *hold) bool {
	if h.node == "" {
		return false
	}
	if h.guid == "" { // of a classic recipe
		return r.node(h.node) != nil
	}
	return slices.ContainsFunc(virtual.Contenders(r.s.z, root), func(c virtual.Contender) bool { return c.ID == h.guid && c.Holds })
}

// node returns the node in whose path there is a text.
func (r *referee) node(part string) *zktest.Node {
	for _, n := range r.s.z.Tree("/") {
		if strings.Contains(n.Path, part) {
			return &n
		}
	}
	return nil
}
