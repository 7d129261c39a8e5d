package zktest

import (
	"fmt"
	"slices"
	"strings"
)

// A Match says what a rule is about: requests, which Op and Any begin, or the
// events of watches, which Event begins. Its methods narrow it down; each
// returns a new Match, and all conditions must hold:
//
//	zktest.Op(zktest.Create).Path("/locks/**").From("A").Nth(1)
//
// A pattern that cannot be read, a number below 1 and a condition that does not
// fit what came before panic, with a text that says why.
type Match struct {
	events bool
	kinds  []string // of requests or events; none: all

	paths      []glob
	containing []OpType
	names      []string
	session    *int64
	where      []func(Request) bool

	nth   int // the first that counts, from 1 on; 0: not said
	times int // how many count; 0: not said
}

// Op matches requests of these kinds. What is inside a transaction is no
// request: see Containing.
func Op(kind OpType, more ...OpType) Match {
	return Match{kinds: texts(append([]OpType{kind}, more...))}
}

// Any matches every request, connects and pings too.
func Any() Match { return Match{} }

// Event matches the events of watches: of these kinds, or all when none is
// named. It has the actions Delay, Hold and DropEvent.
func Event(kinds ...EventType) Match { return Match{events: true, kinds: texts(kinds)} }

// Path narrows to the paths that a pattern describes. "*" stands for any part
// of one element, and "**", as an element, for any number of elements, at the
// end for one at least:
//
//	/locks            the node alone
//	/locks/*          its children
//	/locks/**         everything below it
//	/jobs/**/lock-*   /jobs/lock-1, /jobs/a/lock-1, /jobs/a/b/lock-1 …
//
// A transaction matches when one of its operations has such a path, SetWatches
// when one of the watches has. Paths are those on the wire: with a client's
// chroot, and without the number that ZooKeeper appends to a sequential node.
func (m Match) Path(pattern string) Match {
	g, err := newGlob(pattern)
	if err != nil {
		panic("zktest: Path: " + err.Error())
	}
	m.paths = append(slices.Clip(m.paths), g)
	return m
}

// Containing narrows to transactions (Multi, MultiRead) with an operation of
// one of these kinds, and with Path to those where such an operation has such a
// path.
func (m Match) Containing(kind OpType, more ...OpType) Match {
	m.requestsOnly("Containing")
	m.containing = append(append(slices.Clip(m.containing), kind), more...)
	return m
}

// From narrows to the connections of a dialer or listener, by its name.
func (m Match) From(name string) Match {
	if name == "" {
		panic("zktest: From: the name is empty")
	}
	m.names = append(slices.Clip(m.names), name)
	return m
}

// Session narrows to the connections of a session. A Connect belongs to the
// session that it wants back.
func (m Match) Session(id int64) Match {
	m.session = &id
	return m
}

// Where narrows to requests for which f is true. It may be called by several
// goroutines at a time and may look at the server, but must not wait for what
// the request will do.
func (m Match) Where(f func(Request) bool) Match {
	m.requestsOnly("Where")
	m.where = append(slices.Clip(m.where), f)
	return m
}

// Nth narrows to the n-th match, from 1 on. Each rule counts for itself, and
// counts also what an earlier rule acts upon. With Times(k) it is the first of
// k.
func (m Match) Nth(n int) Match {
	if n < 1 {
		panic(fmt.Sprintf("zktest: Nth(%d): the first is 1", n))
	}
	m.nth = n
	return m
}

// Times limits to n matches. Without Times and Nth there is no limit.
func (m Match) Times(n int) Match {
	if n < 1 {
		panic(fmt.Sprintf("zktest: Times(%d): at least 1", n))
	}
	m.times = n
	return m
}

// String describes the match, such as "create /locks/** from A, 1st".
func (m Match) String() string {
	b := &strings.Builder{}
	switch {
	case len(m.kinds) > 0:
		b.WriteString(strings.Join(m.kinds, "|"))
	case m.events:
		b.WriteString("any event")
	default:
		b.WriteString("any request")
	}
	if len(m.containing) > 0 {
		b.WriteString(" containing " + strings.Join(texts(m.containing), "|"))
	}
	for _, g := range m.paths {
		b.WriteString(" " + g.text)
	}
	for _, name := range m.names {
		b.WriteString(" from " + name)
	}
	if m.session != nil {
		fmt.Fprintf(b, " of session %#x", uint64(*m.session))
	}
	if len(m.where) > 0 {
		b.WriteString(" where …")
	}
	if m.nth > 0 {
		fmt.Fprintf(b, ", number %d", m.nth)
	}
	if m.times > 0 {
		fmt.Fprintf(b, ", %d times", m.times)
	}
	return b.String()
}

// covers tells whether the n-th match counts.
func (m *Match) covers(n int) bool {
	first := max(m.nth, 1)
	return n >= first && (m.last() == 0 || n <= m.last())
}

// last returns the number of the last match that counts; 0 if there is none.
func (m *Match) last() int {
	switch {
	case m.times > 0:
		return max(m.nth, 1) + m.times - 1
	default:
		return m.nth
	}
}

func (m *Match) matchesRequest(q *Request) bool {
	if m.events || !m.matchesConn(string(q.Op), q.Session, q.From) || !m.matchesPaths(q) {
		return false
	}
	for _, f := range m.where {
		if !f(*q) {
			return false
		}
	}
	return true
}

func (m *Match) matchesEvent(kind, path string, session int64, from []string) bool {
	if !m.events || !m.matchesConn(kind, session, from) {
		return false
	}
	for _, g := range m.paths {
		if !g.matches(path) {
			return false
		}
	}
	return true
}

func (m *Match) matchesConn(kind string, session int64, from []string) bool {
	if len(m.kinds) > 0 && !slices.Contains(m.kinds, kind) {
		return false
	}
	if m.session != nil && *m.session != session {
		return false
	}
	for _, name := range m.names {
		if !slices.Contains(from, name) {
			return false
		}
	}
	return true
}

func (m *Match) matchesPaths(q *Request) bool {
	if len(m.containing) > 0 {
		return slices.ContainsFunc(q.Ops, func(op Request) bool {
			return slices.Contains(m.containing, op.Op) && m.matchesAll([]string{op.Path})
		})
	}
	return m.matchesAll(q.paths())
}

// matchesAll tells whether every pattern has a path that it describes.
func (m *Match) matchesAll(paths []string) bool {
	for _, g := range m.paths {
		if !slices.ContainsFunc(paths, g.matches) {
			return false
		}
	}
	return true
}

func (m *Match) requestsOnly(what string) {
	if m.events {
		panic("zktest: " + what + " is about requests, not about events")
	}
}

func texts[T ~string](list []T) []string {
	result := make([]string, 0, len(list))
	for _, s := range list {
		result = append(result, string(s))
	}
	return result
}
