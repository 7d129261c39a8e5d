package virtual

import (
	"cmp"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Referee compares what the server says of its priority locks with the rules: of several that hold a lock all are
// readers or members of one hold, each says so in its own node, a token never changes, and tokens grow.
type Referee struct {
	z    *zktest.Server
	root string
	foul func(format string, args ...any)

	mu      sync.Mutex
	zxid    int64 // of the last look
	known   map[string]map[string]Contender
	damaged map[string]bool
}

// NewReferee returns one that reports what is against the rules to foul.
func NewReferee(z *zktest.Server, root string, foul func(format string, args ...any)) *Referee {
	return &Referee{
		z: z, root: root, foul: foul, known: make(map[string]map[string]Contender), damaged: make(map[string]bool),
	}
}

// ExpectDamage says that somebody else writes into the node of a lock.
func (r *Referee) ExpectDamage(scope string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.damaged[scope] = true
}

// Look looks at the server, if anything has changed there.
func (r *Referee) Look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	zxid := r.z.Zxid()
	if zxid == r.zxid {
		return
	}
	r.zxid = zxid
	for _, l := range Locks(r.z, r.root) {
		if l.Err != nil && !r.damaged[l.Scope] {
			r.foul("%s cannot be read: %v", l.Path, l.Err)
		}
		holders := slices.DeleteFunc(slices.Clone(l.Contenders), func(c Contender) bool { return !c.Holds })
		// those that came since the last look, in their order
		slices.SortFunc(holders, func(a, b Contender) int { return cmp.Compare(a.Token, b.Token) })
		for _, c := range holders {
			if !c.Granted {
				r.foul("%s holds %s, and its own node does not say so", c.Owner, l.Scope)
			}
			r.grows(l.Scope, c)
		}
		if len(holders) > 1 && !areReaders(holders) && !areMembers(holders) {
			r.foul("by the server %s is held by %s and %s", l.Scope, holders[0].Owner, holders[1].Owner)
		}
	}
}

func areReaders(holders []Contender) bool {
	return !slices.ContainsFunc(holders, func(c Contender) bool { return c.Mode != priority.Shared })
}

func areMembers(holders []Contender) bool {
	first := holders[0].Hold
	return first != "" && !slices.ContainsFunc(holders, func(c Contender) bool { return c.Hold != first })
}

// grows checks a holder's token: it never changes, and is greater than those before, but that the members of a hold
// have one, and readers that were granted together.
func (r *Referee) grows(scope string, c Contender) {
	known := r.known[scope]
	if known == nil {
		known = make(map[string]Contender)
		r.known[scope] = known
	}
	if before, ok := known[c.ID]; ok {
		if before.Token != c.Token {
			r.foul("the token of %s was %d and is %d", c.Owner, before.Token, c.Token)
		}
		return
	}
	shared, joined := c.Mode == priority.Shared, false
	for _, other := range known {
		joined = joined || c.Hold != "" && other.Hold == c.Hold && other.Token == c.Token
	}
	for _, other := range known {
		member := c.Hold != "" && other.Hold == c.Hold
		if other.Token > c.Token && (!shared || !joined) || other.Token == c.Token && !shared && !member {
			r.foul("%s has token %d, after %s had %d", c.Owner, c.Token, other.Owner, other.Token)
		}
	}
	known[c.ID] = c
}

// Token returns the token that a holder had when it was seen; 0 if it was not.
func (r *Referee) Token(scope, id string) lock.Token {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[scope][id].Token
}
