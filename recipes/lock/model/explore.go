package model

import (
	"fmt"
	"hash/maphash"
	"time"
)

// Limits bound an exploration. The zero value bounds nothing.
type Limits struct {
	States int // so many at most
}

// A Report is what an exploration has found.
type Report struct {
	Config    string
	Without   Protocol
	States    int
	Depth     int // of the last one, in steps
	Took      time.Duration
	Complete  bool     // every state was visited
	Violation string   // "": none
	Kind      string   // safety or liveness
	Trace     []string // the shortest way to it
}

// Explore visits every state of the configuration.
func (c *Config) Explore(limits Limits) Report { return c.ExploreAs(Protocol{}, limits) }

// ExploreAs does so for a protocol that lacks guards. It stops at the
// first violation.
//
// States are distinguished by a hash of 64 bits: of ten million, two are taken
// for one with a probability of three in a million.
//
//nolint:funlen // the search loop
//go:norace
func (c *Config) ExploreAs(p Protocol, limits Limits) Report {
	begin := time.Now()
	r := Report{Config: c.Name, Without: p}
	if err := c.validate(); err != nil {
		r.Violation = err.Error()
		return r
	}
	x := newExplorer(c, p)
	seen := newSet()
	level, next := []state{*x.start()}, []state(nil)
	ids, nextIDs := []uint32{0}, []uint32(nil)
	seen.add(&level[0])
	parents, steps := []uint32{0}, []uint8{0}

	var from uint32
	var nth uint8
	found := func(what, kind string, way []step) {
		r.Violation, r.Kind = what, kind
		r.Trace = c.trace(p, way)
	}
	back := func(id uint32, last ...step) []step {
		var way []step
		for ; id != 0; id = parents[id] {
			way = append(way, step(steps[id]))
		}
		for i, j := 0, len(way)-1; i < j; i, j = i+1, j-1 {
			way[i], way[j] = way[j], way[i]
		}
		return append(way, last...)
	}
	x.emit = func(t *state, _ action) {
		k := nth
		nth++
		switch {
		case r.Violation != "":
		case x.wrong != "":
			found(x.wrong, "safety", back(from, step(k)))
		case seen.add(t):
			next = append(next, *t)
			nextIDs = append(nextIDs, uint32(len(parents)))
			parents, steps = append(parents, from), append(steps, k)
		}
	}
	for len(level) > 0 && r.Violation == "" {
		for i := range level {
			from, nth = ids[i], 0
			if !x.next(&level[i]) && r.Violation == "" {
				if what := x.stuck(&level[i]); what != "" {
					found(what, "liveness", back(from))
				}
			}
			if r.Violation != "" || limits.States > 0 && len(parents) >= limits.States {
				break
			}
		}
		if limits.States > 0 && len(parents) >= limits.States {
			break
		}
		if len(next) > 0 {
			r.Depth++
		}
		level, next = next, level[:0]
		ids, nextIDs = nextIDs, ids[:0]
	}
	r.States, r.Took = len(parents), time.Since(begin)
	r.Complete = len(level) == 0 && r.Violation == ""
	return r
}

// step is which of the steps that a state allows.
type step uint8

// trace tells the way in words.
func (c *Config) trace(p Protocol, way []step) []string {
	x := newExplorer(c, p)
	s := x.start()
	var words []string
	for _, want := range way {
		nth, at := step(0), *s
		x.emit = func(t *state, a action) {
			if nth == want {
				*s = *t
				words = append(words, fmt.Sprintf("%-60s %s", a, t.head().describe()))
			}
			nth++
		}
		x.next(&at)
	}
	return words
}

// describe shows what a server shows.
//
//go:norace
func (h *snapshot) describe() string {
	if h.lives == 0 {
		return fmt.Sprintf("epoch=%d no L", h.epoch)
	}
	text := fmt.Sprintf("v=%d G={%s}", h.v, names(h.g))
	if h.d != 0 {
		text += fmt.Sprintf(" delays={%s}", names(h.d))
	}
	return text + fmt.Sprintf(" there={%s}", names(h.list()))
}

func names(set uint8) (text string) {
	for i := range maxRequests {
		if set&(1<<i) != 0 {
			text += requestName(i)
		}
	}
	return text
}

// A set remembers hashes, in a table that is at most three quarters full.
type set struct {
	seed  maphash.Seed
	table []uint64
	n     int
}

func newSet() *set { return &set{seed: maphash.MakeSeed(), table: make([]uint64, 1<<12)} }

// add reports whether a state is new.
//
//go:norace
func (s *set) add(t *state) bool {
	h := max(maphash.Comparable(s.seed, *t), 1)
	if !s.put(h) {
		return false
	}
	if s.n++; s.n*4 > len(s.table)*3 {
		old := s.table
		s.table = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				s.put(h)
			}
		}
	}
	return true
}

//go:norace
func (s *set) put(h uint64) bool {
	mask := uint64(len(s.table) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		switch s.table[at] {
		case 0:
			s.table[at] = h
			return true
		case h:
			return false
		}
	}
}
