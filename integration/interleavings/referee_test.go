package interleavings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A referee watches that at most one holds each lock, or several readers: of
// those who believe it, and by what the server says. It looks at the server whenever somebody
// starts or stops to hold and, on the embedded one, before each request.
type referee struct {
	w *world

	mu       sync.Mutex
	inside   map[string][]*user // who believes to hold, by scope
	scopes   map[*user]string
	cutOff   map[*user]bool  // requests that may be granted in a session that is over, and not know it
	forgiven map[string]bool // guids of those who may not know yet that they are out
	damaged  map[string]bool // scopes that somebody else writes to
	tokens   map[string]map[string]recipes.Token
	fouls    []string
}

func newReferee(w *world) *referee {
	r := &referee{
		w: w, inside: make(map[string][]*user), scopes: make(map[*user]string),
		forgiven: make(map[string]bool), damaged: make(map[string]bool), cutOff: make(map[*user]bool), tokens: make(map[string]map[string]recipes.Token),
	}
	if w.z != nil {
		eye := w.On(zktest.Any().Where(func(zktest.Request) bool { r.look(users); return false })).Delay(0)
		w.Cleanup(eye.Remove)
	}
	return r
}

func (r *referee) foul(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.fouls, text) {
		r.fouls = append(r.fouls, text)
		r.w.story.tell("referee", "FOUL: %s", text)
	}
}

// enters is called when a request has returned with a grant.
func (r *referee) enters(u *user, scope string) {
	r.look(scope)
	r.mu.Lock()
	defer r.mu.Unlock()
	u.mu.Lock()
	lost := u.lost
	u.mu.Unlock()
	if lost {
		return // told already
	}
	for _, other := range r.inside[scope] {
		if !r.forgiven[other.grant.ID()] && !r.cutOff[other] && !u.mode.Admits(other.mode) {
			r.foul("%s and %s both believe that they hold %s", other.owner, u.owner, scope)
		}
	}
	r.inside[scope] = append(r.inside[scope], u)
	r.scopes[u] = scope
}

// shares is called before a downgrade.
func (r *referee) shares(u *user) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.mode = priority.Shared
}

// leaves is called before a release, and with a loss.
func (r *referee) leaves(u *user, released bool) {
	r.mu.Lock()
	scope := r.scopes[u]
	r.inside[scope] = slices.DeleteFunc(r.inside[scope], func(other *user) bool { return other == u })
	u.mu.Lock()
	u.ended = true
	u.lost = u.lost || !released
	u.mu.Unlock()
	r.mu.Unlock()
	if scope != "" && released { // a loss is told on the client's own goroutine: it must not wait
		r.look(scope)
	}
}

// forgive names holders that lose the lock by force: until they hear of it, the
// next one may hold beside them.
func (r *referee) forgive(guids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, guid := range guids {
		r.forgiven[guid] = true
	}
}

// forgiveWhoAsks names the requests of a client whose session is about to be
// closed by somebody else: one that is granted just then cannot be told before.
func (r *referee) forgiveWhoAsks(pending []*user) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range pending {
		r.cutOff[u] = true
	}
}

// expectDamage says that somebody else writes into the node of a lock.
func (r *referee) expectDamage(scope string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.damaged[scope] = true
}

// look checks the lock node: at most one of those that it names is there, its
// token never changes, and tokens grow from holder to holder. Readers may be
// many.
func (r *referee) look(scope string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	node, children := r.w.admin.lock(r.w.root, scope)
	if node == nil {
		return
	}
	var g lockData
	if len(node.Data) > 0 {
		if err := json.Unmarshal(node.Data, &g); err != nil && r.damaged[scope] {
			return // until somebody puts it right
		} else if err != nil {
			r.foul("%s cannot be read: %v", node.Path, err)
		}
	}
	tokens := r.tokens[scope]
	if tokens == nil {
		tokens = make(map[string]recipes.Token)
		r.tokens[scope] = tokens
	}
	var alive []string
	exclusive := false
	for _, n := range children {
		id := guid(n.Path)
		if !g.holds(n) {
			continue
		}
		who := record(n).Owner
		alive = append(alive, who)
		exclusive = exclusive || record(n).Mode != priority.Shared
		if !record(n).Granted {
			r.foul("%s holds %s and its own node does not say so", who, scope)
		}
		token := tokenOf(n)
		switch known, ok := tokens[id]; {
		case ok && known != token:
			r.foul("the token of %s was %d and is %d", who, known, token)
		case !ok:
			for other, before := range tokens {
				if before >= token && record(n).Mode != priority.Shared {
					r.foul("%s has token %d, after %s had %d", who, token, other, before)
				}
			}
			tokens[id] = token
		}
	}
	for _, u := range r.inside[scope] {
		if slices.ContainsFunc(children, func(n zktest.Node) bool { return guid(n.Path) == u.grant.ID() && !g.holds(n) }) {
			r.foul("%s holds %s, and G does not name it", u.owner, scope)
		}
	}
	if len(alive) > 1 && exclusive {
		r.foul("by the server %s is held by %s", scope, strings.Join(alive, " and "))
	}
}

// concludes fails the test for what was against the rules.
func (r *referee) concludes(askers []*user) {
	r.look(users)
	r.mu.Lock()
	defer r.mu.Unlock()
	for scope, inside := range r.inside {
		for _, u := range inside {
			r.foul("%s was never told that it has lost %s", u.owner, scope)
		}
	}
	for _, u := range askers {
		told := u.told()
		for i, h := range told {
			if _, lost := h.Notice.(recipes.Lost); lost && i != len(told)-1 {
				r.foul("%s was told %T after its loss", u.owner, told[len(told)-1].Notice)
			}
		}
	}
	if len(r.fouls) > 0 {
		r.w.explain()
		require.Empty(r.w, r.fouls)
	}
}
