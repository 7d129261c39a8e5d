package recipes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// This file checks the protocol in shared mode, not the code: an explicit-state
// model of T1 to T10, of moves (T12) and of an operator's break as
// docs/protocol.md has them, every interleaving of a few requests, each of which
// reads, is overtaken, and acts on what it has read. A request that moves is two
// of the model: what it was, and what it becomes, with a name of its own.
// Watches are left out: a waiter may look again at any time. Without one of the
// guards it finds two that hold; that is tested, too.

const (
	modelSize = 4 // requests at most

	unborn uint8 = iota // what a request becomes if it moves
	newcomer
	newcomerHasG
	newcomerHasList
	joined
	joinedHasG
	joinedHasList
	holds
	leavesHasG
	leavesHasList
	sharesHasG
	movesIn // has created what it becomes, and has yet to leave; without a guard
	done
)

// modelGuards are the guards that can be taken away.
type modelGuards struct {
	t1, t3, t4, t7, t10, ownNode, versionBeforeList bool

	moveVersion bool // a move is under the version of the own node
	moveAtOnce  bool // it is one transaction
	breakV      bool // a break is under v
}

var allGuards = modelGuards{true, true, true, true, true, true, true, true, true, true}

// modelRequest is what a request is, for good.
type modelRequest struct {
	shared, forceful, downgrades bool
	priority                     uint8
	becomes                      int // the request that it may become; 0: it does not move
}

// modelState is the server and what everybody has read.
type modelState struct {
	v       uint8
	g       uint8 // bits of requests
	seq     uint8
	expired uint8 // sessions that may still expire
	granted uint8 // who ever was
	nodes   [modelSize]modelNode
	locals  [modelSize]modelLocal
	breaker modelLocal // an operator; done without one
}

type modelNode struct {
	there, granted, shared bool
	version, seq           uint8
}

type modelLocal struct {
	pc       uint8
	v, g     uint8 // as read
	list     uint8
	modes    uint8 // holders that were read as shared
	versions [modelSize]uint8
}

type model struct {
	requests []modelRequest
	guards   modelGuards
	breaks   bool // an operator breaks the lock of some holder
}

// before is the order of the queue.
func (m model) before(s *modelState, a, b int) bool {
	if m.requests[a].priority != m.requests[b].priority {
		return m.requests[a].priority > m.requests[b].priority
	}
	return s.nodes[a].seq < s.nodes[b].seq
}

// list is who is there.
func (m model) list(s *modelState) (list uint8) {
	for i := range m.requests {
		if s.nodes[i].there {
			list |= 1 << i
		}
	}
	return list
}

// wrong says what must never be.
func (m model) wrong(s *modelState) string {
	for i, r := range m.requests {
		if both := uint8(1<<i | 1<<r.becomes); r.becomes != 0 && s.granted&both == both {
			return fmt.Sprintf("%d was granted twice, as %d, too", i, r.becomes)
		}
	}
	holders, exclusive := 0, false
	for i, n := range s.nodes {
		if !n.there {
			continue
		}
		named := s.g&(1<<i) != 0
		if named {
			holders++
			exclusive = exclusive || !n.shared
		}
		if n.granted && !named {
			return fmt.Sprintf("%d was granted and G forgot it", i)
		}
		if pc := s.locals[i].pc; pc >= holds && pc < done && !named {
			return fmt.Sprintf("%d believes to hold and does not", i)
		}
	}
	if holders > 1 && exclusive {
		return fmt.Sprintf("held by %b", s.g)
	}
	return ""
}

// next calls f with each state that one step leads to.
func (m model) next(s modelState, visit func(modelState)) {
	f := func(t modelState) {
		for i := range m.requests {
			if t.nodes[i].granted {
				t.granted |= 1 << i
			}
		}
		visit(t)
	}
	m.breaking(s, f)
	for i, r := range m.requests {
		me := uint8(1) << i
		l := s.locals[i]
		step := func(change func(t *modelState, l *modelLocal)) {
			t := s
			change(&t, &t.locals[i])
			if !t.nodes[i].there && t.locals[i].pc >= joined && t.locals[i].pc < done && m.guards.ownNode {
				t.locals[i] = modelLocal{pc: done} // it finds out at its next step
			}
			f(t)
		}
		readG := func(then uint8) {
			step(func(t *modelState, l *modelLocal) {
				l.v, l.g, l.pc = t.v, t.g, then
				if !m.guards.versionBeforeList {
					l.list = m.list(t) // from before
				}
			})
		}
		readList := func(then uint8) {
			step(func(t *modelState, l *modelLocal) {
				l.pc = then
				l.list, l.modes = m.list(t), 0
				for j, n := range t.nodes {
					l.versions[j] = n.version
					if n.shared {
						l.modes |= 1 << j
					}
				}
				if !m.guards.versionBeforeList {
					l.v = t.v
				}
			})
		}
		if s.nodes[i].there && s.expired > 0 {
			step(func(t *modelState, l *modelLocal) {
				t.expired--
				t.nodes[i].there = false
				if m.guards.ownNode {
					*l = modelLocal{pc: done}
				}
			})
		}
		switch l.pc {
		case newcomer:
			readG(newcomerHasG)
		case newcomerHasG:
			readList(newcomerHasList)
		case newcomerHasList:
			alive := l.list & l.g
			switch {
			case l.list == 0, r.shared && l.list == alive && l.modes&alive == alive: // T1
				step(func(t *modelState, l *modelLocal) {
					if m.guards.t1 && t.v != l.v {
						*l = modelLocal{pc: newcomer}
						return
					}
					t.seq++
					t.nodes[i] = modelNode{there: true, granted: true, shared: r.shared, seq: t.seq}
					t.g, t.v = alive|me, t.v+1
					*l = modelLocal{pc: holds}
				})
			}
			if l.list != 0 { // T2, which may also follow a T1 that failed
				step(func(t *modelState, l *modelLocal) {
					t.seq++
					t.nodes[i] = modelNode{there: true, shared: r.shared, seq: t.seq}
					*l = modelLocal{pc: joined}
				})
			}
		case joined:
			readG(joinedHasG)
			step(func(t *modelState, l *modelLocal) { // T8
				if t.g&me != 0 {
					*l = modelLocal{pc: holds}
					return
				}
				t.nodes[i].there = false
				*l = modelLocal{pc: done}
			})
		case joinedHasG:
			readList(joinedHasList)
		case joinedHasList:
			m.decide(&s, i, step)
			if r.becomes != 0 && l.versions[i] == 0 { // read, and not granted
				m.move(i, step)
			}
		case movesIn:
			step(func(t *modelState, l *modelLocal) {
				t.nodes[i].there = false
				*l = modelLocal{pc: done}
			})
		case holds:
			if s.nodes[i].shared || r.shared {
				readG(leavesHasG)
			} else {
				step(func(_ *modelState, l *modelLocal) { l.pc = leavesHasG })
				if r.downgrades {
					readG(sharesHasG)
				}
			}
		case sharesHasG: // T10
			step(func(t *modelState, l *modelLocal) {
				if t.v == l.v || !m.guards.t10 {
					t.nodes[i].shared = true
					t.nodes[i].version++
					t.v++
				}
				*l = modelLocal{pc: holds}
			})
		case leavesHasG:
			readList(leavesHasList)
		case leavesHasList:
			m.leave(&s, i, step)
		}
	}
}

// decide is what a waiter does with what it has read.
func (m model) decide(s *modelState, i int, step func(func(*modelState, *modelLocal))) {
	l, r, me := s.locals[i], m.requests[i], uint8(1)<<i
	again := func(l *modelLocal) { *l = modelLocal{pc: joined} }
	if l.g&me != 0 {
		step(func(_ *modelState, l *modelLocal) { *l = modelLocal{pc: holds} })
		return
	}
	alive := l.list & l.g
	for j := range m.requests {
		if bit := uint8(1) << j; j != i && l.list&bit != 0 && alive&bit == 0 && m.before(s, j, i) {
			step(func(_ *modelState, l *modelLocal) { again(l) }) // it waits
			return
		}
	}
	outranksAll := true
	for j := range m.requests {
		if alive&(1<<j) != 0 && m.requests[j].priority >= r.priority {
			outranksAll = false
		}
	}
	switch {
	case alive == 0, r.shared && l.modes&alive == alive: // T3
		step(func(t *modelState, l *modelLocal) {
			if m.guards.t3 && t.v != l.v || m.guards.ownNode && (!t.nodes[i].there || t.nodes[i].version != l.versions[i]) {
				again(l)
				return
			}
			t.nodes[i].granted = true
			t.nodes[i].version++
			t.g, t.v = alive|me, t.v+1
			*l = modelLocal{pc: holds}
		})
	case r.forceful && outranksAll: // T7, the grace being over
		step(func(t *modelState, l *modelLocal) {
			if m.guards.t7 && t.v != l.v || m.guards.ownNode && (!t.nodes[i].there || t.nodes[i].version != l.versions[i]) || alive&^m.list(t) != 0 {
				again(l)
				return
			}
			for j := range m.requests {
				if alive&(1<<j) != 0 {
					t.nodes[j].there = false
					t.locals[j] = modelLocal{pc: done}
				}
			}
			t.nodes[i].granted = true
			t.nodes[i].version++
			t.g, t.v = me, t.v+1
			*l = modelLocal{pc: holds}
		})
	default:
		step(func(_ *modelState, l *modelLocal) { again(l) })
	}
}

// move is T12: the old node goes and the new one comes, unless the old one was
// written to since it was read.
func (m model) move(i int, step func(func(*modelState, *modelLocal))) {
	k := m.requests[i].becomes
	step(func(t *modelState, l *modelLocal) {
		if !t.nodes[i].there || m.guards.moveVersion && t.nodes[i].version != l.versions[i] {
			*l = modelLocal{pc: joined}
			return
		}
		t.seq++
		t.nodes[k] = modelNode{there: true, shared: m.requests[k].shared, seq: t.seq}
		t.locals[k] = modelLocal{pc: joined}
		if !m.guards.moveAtOnce {
			*l = modelLocal{pc: movesIn}
			return
		}
		t.nodes[i].there = false
		*l = modelLocal{pc: done}
	})
}

// breaking is what an operator does who breaks the lock of a holder: it reads
// G, then who is there, then removes that one's node and its name in G.
func (m model) breaking(s modelState, f func(modelState)) {
	b := s.breaker
	switch b.pc {
	case newcomer:
		b.v, b.g, b.pc = s.v, s.g, newcomerHasG
	case newcomerHasG:
		b.list, b.pc = m.list(&s), newcomerHasList
	case newcomerHasList:
		for j := range m.requests {
			bit := uint8(1) << j
			if b.list&b.g&bit == 0 {
				continue
			}
			t := s
			if t.nodes[j].there && (!m.guards.breakV || t.v == b.v) {
				t.nodes[j].there = false
				t.locals[j] = modelLocal{pc: done}
				t.g, t.v = b.g&^bit, t.v+1
				t.breaker = modelLocal{pc: done}
			} else {
				t.breaker = modelLocal{pc: newcomer} // it looks again
			}
			f(t)
		}
		b = modelLocal{pc: newcomer} // or nobody is there yet
	default:
		return
	}
	s.breaker = b
	f(s)
}

// leave is what a holder does with what it has read.
func (m model) leave(s *modelState, i int, step func(func(*modelState, *modelLocal))) {
	l, me := s.locals[i], uint8(1)<<i
	inShared := s.nodes[i].shared
	waiters := l.list &^ me
	if inShared {
		if waiters&l.g != 0 {
			waiters = 0 // others hold: T5
		}
	}
	var heirs uint8
	for waiters != 0 {
		first := -1
		for j := range m.requests {
			if waiters&(1<<j) != 0 && (first < 0 || m.before(s, j, first)) {
				first = j
			}
		}
		shared := m.requests[first].shared
		if heirs != 0 && !shared {
			break
		}
		heirs |= 1 << first
		waiters &^= 1 << first
		if !shared {
			break
		}
	}
	step(func(t *modelState, l *modelLocal) {
		if heirs == 0 { // T5
			t.nodes[i].there = false
			*l = modelLocal{pc: done}
			return
		}
		ok := t.nodes[i].there && (!inShared || !m.guards.t4 || t.v == l.v)
		for j := range m.requests {
			if heirs&(1<<j) != 0 && (!t.nodes[j].there || t.nodes[j].version != l.versions[j]) {
				ok = false
			}
		}
		if !ok {
			*l = modelLocal{pc: holds}
			return
		}
		t.nodes[i].there = false
		for j := range m.requests {
			if heirs&(1<<j) != 0 {
				t.nodes[j].granted = true
				t.nodes[j].version++
			}
		}
		t.g, t.v = heirs, t.v+1
		*l = modelLocal{pc: done}
	})
}

// explore visits every state, and returns how many there are and what is wrong
// in the first bad one.
func (m model) explore(expiries uint8) (states int, wrong string) {
	first := modelState{expired: expiries, breaker: modelLocal{pc: done}}
	if m.breaks {
		first.breaker.pc = newcomer
	}
	for i := len(m.requests); i < modelSize; i++ {
		first.locals[i].pc = done
	}
	for i := range m.requests {
		first.locals[i].pc = newcomer
	}
	for _, r := range m.requests {
		if r.becomes != 0 {
			first.locals[r.becomes].pc = unborn
		}
	}
	seen := map[modelState]struct{}{first: {}}
	queue := []modelState{first}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		m.next(s, func(t modelState) {
			if wrong != "" {
				return
			}
			if _, known := seen[t]; known {
				return
			}
			seen[t] = struct{}{}
			if wrong = m.wrong(&t); wrong != "" {
				return
			}
			queue = append(queue, t)
		})
		if wrong != "" {
			return len(seen), wrong
		}
	}
	return len(seen), ""
}

func TestSharedModeHasNoBadInterleaving(t *testing.T) {
	t.Parallel()
	reader, writer := modelRequest{shared: true, priority: 1}, modelRequest{priority: 1}
	urgentReader, urgentWriter := modelRequest{shared: true, priority: 2}, modelRequest{priority: 2, forceful: true}
	sharer := modelRequest{priority: 1, downgrades: true}
	for name, requests := range map[string][]modelRequest{
		"readers and a writer":             {reader, reader, writer},
		"readers and one that takes over":  {reader, reader, urgentWriter},
		"a reader that passes the writer":  {reader, writer, urgentReader},
		"a writer that shares":             {sharer, reader, writer},
		"a writer that shares is taken":    {sharer, reader, urgentWriter},
		"two writers, an important reader": {writer, urgentWriter, urgentReader},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, wrong := model{requests, allGuards, false}.explore(1)
			require.Empty(t, wrong)
			t.Logf("%d states", states)
		})
	}
}

// The same with a request that moves, up or down, and with an operator who breaks
// somebody's lock.
func TestMovesAndBreaksHaveNoBadInterleaving(t *testing.T) {
	t.Parallel()
	for name, m := range movesAndBreaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, wrong := m.explore(1)
			require.Empty(t, wrong)
			t.Logf("%d states", states)
		})
	}
}

var movesAndBreaks = func() map[string]model {
	reader, writer := modelRequest{shared: true, priority: 1}, modelRequest{priority: 1}
	urgentReader, urgentWriter := modelRequest{shared: true, priority: 2}, modelRequest{priority: 2, forceful: true}
	raised := func(r modelRequest, as int) modelRequest {
		r.becomes = as
		return r
	}
	return map[string]model{
		"a writer that is raised":              {[]modelRequest{writer, raised(writer, 3), reader, urgentWriter}, allGuards, false},
		"a reader that is raised":              {[]modelRequest{raised(reader, 3), writer, reader, urgentReader}, allGuards, false},
		"a reader that is lowered":             {[]modelRequest{raised(urgentReader, 3), reader, writer, reader}, allGuards, false},
		"one that takes over is lowered":       {[]modelRequest{raised(urgentWriter, 3), reader, writer, writer}, allGuards, false},
		"readers, and a writer that is raised": {[]modelRequest{reader, reader, raised(writer, 3), urgentWriter}, allGuards, false},
		"a break among readers":                {[]modelRequest{reader, reader, writer}, allGuards, true},
		"a break among writers":                {[]modelRequest{writer, writer, urgentWriter}, allGuards, true},
		"a break beside one that is raised":    {[]modelRequest{reader, raised(writer, 2), urgentWriter}, allGuards, true},
	}
}()

func TestMovesAndBreaksWithoutAGuardGoWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model  string
		remove func(*modelGuards)
	}{
		"the version in a move":     {"a writer that is raised", func(g *modelGuards) { g.moveVersion = false }},
		"one transaction of a move": {"a reader that is lowered", func(g *modelGuards) { g.moveAtOnce = false }},
		"v in a break":              {"a break among readers", func(g *modelGuards) { g.breakV = false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := movesAndBreaks[c.model]
			c.remove(&m.guards)
			_, wrong := m.explore(1)
			require.NotEmpty(t, wrong)
			t.Log(wrong)
		})
	}
}

// The model has teeth: without a guard it finds what the guard is for.
func TestSharedModeWithoutAGuardGoesWrong(t *testing.T) {
	t.Parallel()
	requests := []modelRequest{
		{shared: true, priority: 1},
		{shared: true, priority: 2},
		{priority: 2, forceful: true},
	}
	for name, remove := range map[string]func(*modelGuards){
		"v in T1":                 func(g *modelGuards) { g.t1 = false },
		"v in T3":                 func(g *modelGuards) { g.t3 = false },
		"v in the T4 of a reader": func(g *modelGuards) { g.t4 = false },
		"v in T7":                 func(g *modelGuards) { g.t7 = false },
		"v before the list":       func(g *modelGuards) { g.versionBeforeList = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guards := allGuards
			remove(&guards)
			_, wrong := model{requests, guards, false}.explore(1)
			require.NotEmpty(t, strings.TrimSpace(wrong))
		})
	}
}
