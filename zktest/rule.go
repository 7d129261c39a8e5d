package zktest

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A Fault is what On returns: a Match that waits for the name of an action. Each
// action makes it a Rule, once. A Fault that never gets one is reported like a
// rule that never fired.
type Fault struct{ rule *Rule }

// DropRequest cuts the connection instead of passing the request on: it is
// never executed. The client cannot tell this from DropReply.
func (f *Fault) DropRequest() *Rule { return f.act(Rule{name: "DropRequest", verb: dropping}) }

// DropReply lets the request be executed and cuts the connection when its reply
// is about to be sent. What was answered before still arrives.
func (f *Fault) DropReply() *Rule {
	return f.act(Rule{name: "DropReply", verb: dropping, onReply: true})
}

// DropEvent cuts the connection when the event is about to be sent.
func (f *Fault) DropEvent() *Rule {
	return f.act(Rule{name: "DropEvent", verb: dropping, onEvent: true})
}

// Delay passes the request on, or the event, when d is over since it was sent, by
// the process's clock, which Advance does not move.
// What the connection carries behind it, in the same direction, waits too.
func (f *Fault) Delay(d time.Duration) *Rule {
	return f.act(Rule{name: "Delay", verb: delaying, delay: d, onEvent: f.rule.match.events})
}

// DelayReply passes the reply on when d is over since it was sent, and what is
// behind it not before.
func (f *Fault) DelayReply(d time.Duration) *Rule {
	return f.act(Rule{name: "DelayReply", verb: delaying, delay: d, onReply: true})
}

// Hold keeps the request, or the event, and what the connection carries behind
// it in the same direction, until Release. The server does not learn either
// that the client has hung up in the meantime.
func (f *Fault) Hold() *Rule {
	return f.act(Rule{name: "Hold", verb: holding, onEvent: f.rule.match.events})
}

// HoldReply lets the request be executed and keeps its reply, and what is
// behind it, until Release.
func (f *Fault) HoldReply() *Rule {
	return f.act(Rule{name: "HoldReply", verb: holding, onReply: true})
}

// Fail answers the request with an error. The server does not see it, so it does
// not keep the session alive either. A Connect, which knows no errors, is left
// alone.
func (f *Fault) Fail(code Code) *Rule {
	if code == 0 {
		panic("zktest: Fail(0): 0 is no error")
	}
	return f.act(Rule{name: "Fail", verb: failing, code: code})
}

func (f *Fault) act(action Rule) *Rule {
	r := f.rule
	if action.onEvent != r.match.events {
		panic(fmt.Sprintf("zktest: %s does not fit %s", action.name, r.match))
	}
	if action.delay < 0 {
		panic(fmt.Sprintf("zktest: %s(%s) is negative", action.name, action.delay))
	}
	r.faults.enact(r, action)
	return r
}

// A Rule makes a fault happen whenever its Match does. Rules are asked in the
// order in which they were set; the first that matches acts, alone. Its methods
// may be called from any goroutine.
type Rule struct {
	faults  *faults
	match   Match
	where   string // file and line of On
	reached chan struct{}

	// The action does not change once the rule is in force.
	name             string
	verb             verb
	delay            time.Duration
	code             Code
	onReply, onEvent bool

	// These belong to the lock of faults.
	matched, fired int
	over           bool    // acts no more, holds nothing
	removed        bool    // it need not fire
	waiting        []*gate // where it holds or delays, in that order
}

type verb int

const (
	idle verb = iota // no action was named
	dropping
	delaying
	holding
	failing
)

// Fired returns how often the rule has acted. A rule on replies acts when the
// reply is about to be sent.
func (r *Rule) Fired() int {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	return r.fired
}

// Reached is closed when the rule acts for the first time: when the first
// request, reply or event is held, delayed, dropped or failed.
func (r *Rule) Reached() <-chan struct{} { return r.reached }

// Release ends the rule: it lets go what it holds or delays, in the order in
// which it came, and acts no more.
func (r *Rule) Release() { r.faults.endRule(r, false) }

// Remove is Release for a rule that need not have fired: no failure if it
// has not.
func (r *Rule) Remove() { r.faults.endRule(r, true) }

// String describes the rule, such as "DropReply of create /locks/** at
// lock_test.go:31".
func (r *Rule) String() string {
	switch r.verb {
	case delaying:
		return fmt.Sprintf("%s(%s) of %s at %s", r.name, r.delay, r.match, r.where)
	case failing:
		return fmt.Sprintf("%s(%s) of %s at %s", r.name, r.code.String(), r.match, r.where)
	case idle:
		return fmt.Sprintf("On(%s) at %s", r.match, r.where)
	default:
		return fmt.Sprintf("%s of %s at %s", r.name, r.match, r.where)
	}
}

// takes tells whether the rule acts on a request.
func (r *Rule) takes(q *Request) bool {
	if r.verb == failing && q.Op == opType(zkwire.OpConnect) {
		return false
	}
	return r.match.matchesRequest(q)
}

// count counts a match and reports whether the rule acts on it.
func (r *Rule) count() bool {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	if r.over {
		return false
	}
	r.matched++
	if r.matched == r.match.last() {
		r.faults.retire(r)
	}
	return r.match.covers(r.matched)
}

// fire begins to act on what is first in line at a gate. It is false when the
// rule has ended meanwhile.
func (r *Rule) fire(g *gate) bool {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	if r.over {
		return false
	}
	r.fired++
	if r.fired == 1 {
		close(r.reached)
	}
	if r.verb == holding || r.verb == delaying {
		r.waiting = append(r.waiting, g)
	}
	return true
}

// leave forgets a gate that is closed.
func (r *Rule) leave(g *gate) {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	if i := slices.Index(r.waiting, g); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
}

// keeps tells whether what the rule has begun to hold or delay must stay, and
// if so how long: 0 is until the rule ends.
func (r *Rule) keeps(g *gate, since time.Time) (time.Duration, bool) {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	if r.over {
		return 0, false
	}
	if r.verb == holding {
		return 0, true
	}
	if left := time.Until(since.Add(r.delay)); left > 0 {
		return left, true
	}
	if i := slices.Index(r.waiting, g); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
	return 0, false
}
