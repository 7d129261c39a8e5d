package steps

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A referee watches that those who hold a lock may hold it together: of those
// who believe it, and, before each request, by what the server says.
type referee struct {
	s *stage

	mu     sync.Mutex
	inside []*hold
	zxid   int64 // of the last look
	tokens map[string]map[string]recipes.Token
	member map[string]string // the hold of which a contender is a member, by guid
}

func newReferee(s *stage) *referee {
	return &referee{s: s, tokens: make(map[string]map[string]recipes.Token), member: make(map[string]string)}
}

// force tells whether a holder can be out before it can know.
func (r *referee) force(h *hold) bool {
	return r.s.scene.forced || r.s.scene.adopted && !h.told() || h.u.suffer(func(f *fault) bool { return f.expires })
}

// enters is called with each grant.
func (r *referee) enters(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := r.s.z.Tree("/")
	if h.node != "" && !r.holds(there, h) && !h.told() && !r.force(h) {
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
		if r.force(other) && !r.holds(there, other) || r.force(h) && !r.holds(there, h) {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.s.z.Tree("/") {
		if h.node != "" && strings.Contains(n.Path, h.node) {
			r.s.foul("%s has released %s, and its node is there", h.u.name, h.scope)
		}
	}
}

// token is called with each token that a holder is told.
func (r *referee) token(h *hold, token recipes.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.tokens[lockOf(h.scope)][h.guid]; known != 0 && known != token {
		r.s.foul("the token of %s is %d, and it was told %d", h.u.name, known, token)
	}
}

// holds tells whether the server says that a hold is one.
func (r *referee) holds(there []zktest.Node, h *hold) bool {
	for _, n := range there {
		if h.node != "" && strings.Contains(n.Path, h.node) {
			return h.guid == "" || slices.Contains(holdersOf(there, parent(n.Path)), h.guid)
		}
	}
	return false
}

// look compares what the server says with the rules, for priority locks.
func (r *referee) look() {
	zxid := r.s.z.Zxid()
	r.mu.Lock()
	defer r.mu.Unlock()
	if zxid == r.zxid {
		return
	}
	r.zxid = zxid
	there := r.s.z.Tree(root + "/locks")
	alive := make(map[string][]zktest.Node)
	for _, n := range there {
		if n.Stat.EphemeralOwner == 0 {
			continue
		}
		lock := parent(n.Path)
		if slices.Contains(holdersOf(there, lock), guidOf(n.Path)) {
			alive[lock] = append(alive[lock], n)
		}
	}
	for lock, holders := range alive {
		exclusive := false
		for _, n := range holders {
			rec := recordOf(n)
			exclusive = exclusive || rec.Mode != priority.Shared
			if !rec.Granted {
				r.s.foul("%s holds, and its own node does not say so", rec.Owner)
			}
			r.grows(lock, n, rec)
		}
		if len(holders) > 1 && exclusive && !areCompanions(holders) {
			r.s.foul("by the server %s is held by %s and %s", lock, recordOf(holders[0]).Owner, recordOf(holders[1]).Owner)
		}
	}
}

// areCompanions tells whether all of these are members of one hold.
func areCompanions(holders []zktest.Node) bool {
	first := recordOf(holders[0]).Hold
	return first != "" && !slices.ContainsFunc(holders, func(n zktest.Node) bool { return recordOf(n).Hold != first })
}

// grows checks a holder's token: it never changes, and is greater than those
// before, but that companions have one.
func (r *referee) grows(lock string, n zktest.Node, rec contender) {
	lock = lockOf(lock)
	tokens := r.tokens[lock]
	if tokens == nil {
		tokens = make(map[string]recipes.Token)
		r.tokens[lock] = tokens
	}
	token := recipes.Token(n.Stat.Mzxid)
	if rec.Token != 0 {
		token = rec.Token
	}
	id := guidOf(n.Path)
	known, ok := tokens[id]
	switch {
	case ok && known != token:
		r.s.foul("the token of %s was %d and is %d", rec.Owner, known, token)
	case !ok:
		joined := rec.Hold != "" && slices.ContainsFunc(slices.Collect(maps.Keys(tokens)), func(other string) bool {
			return r.member[other] == rec.Hold && tokens[other] == token
		})
		r.member[id] = rec.Hold
		for other, before := range tokens {
			companion := rec.Hold != "" && r.member[other] == rec.Hold
			if before > token && rec.Mode == priority.Shared && joined {
				continue // beside a younger reader
			}
			if before > token || before == token && rec.Mode != priority.Shared && !companion {
				r.s.foul("%s has token %d, after another had %d", rec.Owner, token, before)
			}
		}
		tokens[id] = token
	}
}

// --- nodes, as docs/protocol.md describes them ------------------------------------

type contender struct {
	Owner   string        `json:"owner"`
	Mode    priority.Mode `json:"mode"`
	Granted bool          `json:"granted"`
	Token   recipes.Token `json:"token"`
	Hold    string        `json:"hold"`
}

func recordOf(n zktest.Node) (c contender) {
	_ = json.Unmarshal(n.Data, &c) // a foreign node has no owner
	return c
}

// holdersOf are those whom the lock node names, and those who have walked in: their names say so.
func holdersOf(there []zktest.Node, lock string) []string {
	var g struct {
		Holders []string `json:"holders"`
	}
	for _, n := range there {
		if n.Path == lock {
			_ = json.Unmarshal(n.Data, &g)
		}
	}
	for _, n := range there {
		if parent(n.Path) == lock && strings.HasPrefix(lockOf(n.Path)[min(10, len(lockOf(n.Path))):], "-w-") {
			g.Holders = append(g.Holders, guidOf(n.Path))
		}
	}
	return g.Holders
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

func lockOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// guidOf returns the guid in the path of a contender.
func guidOf(path string) string {
	parts := strings.Split(lockOf(path), "-")
	if len(parts) < 4 {
		return ""
	}
	return parts[2]
}
