package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// An act is what porcupine sees: one step in the life of a hold.
type act struct {
	what   step
	who    string
	shared bool
	token  int64
	evicts []string
}

type step uint8

const (
	granted step = iota
	softened
	ended
)

// state is that of the lock of one scope. It is never changed, but replaced.
type state struct {
	holders []holder // by name
	last    int64    // the greatest token of a grant; 0: none is known
	shared  bool     // that was a shared one's
}

type holder struct {
	who    string
	shared bool
}

// model is a lock with fencing tokens: see the documentation of the package.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return &state{} },
		Step: func(s, in, _ any) (bool, any) { return s.(*state).step(in.(act)) },
		Equal: func(a, b any) bool {
			x, y := a.(*state), b.(*state)
			return x.last == y.last && x.shared == y.shared && slices.Equal(x.holders, y.holders)
		},
		DescribeOperation: func(in, _ any) string { return in.(act).String() },
		DescribeState:     func(s any) string { return s.(*state).String() },
	}
}

// step returns the state after an act, or false if it cannot be.
func (s *state) step(a act) (bool, any) {
	switch a.what {
	case softened:
		next := *s
		next.holders = slices.Clone(s.holders)
		for i := range next.holders {
			if next.holders[i].who == a.who {
				next.holders[i].shared = true
			}
		}
		return true, &next
	case ended:
		next := *s
		next.holders = slices.DeleteFunc(slices.Clone(s.holders), func(h holder) bool { return h.who == a.who })
		return len(next.holders) < len(s.holders), &next // not before it was granted
	case granted:
	}
	next := *s
	next.holders = nil
	for _, h := range s.holders {
		if slices.Contains(a.evicts, h.who) {
			continue
		}
		if !h.shared || !a.shared {
			return false, s
		}
		next.holders = append(next.holders, h)
	}
	if a.token != 0 {
		if a.token < s.last || a.token == s.last && (!a.shared || !s.shared) {
			return false, s
		}
		next.last, next.shared = a.token, a.shared
	}
	next.holders = append(next.holders, holder{a.who, a.shared})
	slices.SortFunc(next.holders, func(x, y holder) int { return strings.Compare(x.who, y.who) })
	return true, &next
}

func (a act) String() string {
	switch a.what {
	case softened:
		return a.who + " shares"
	case ended:
		return a.who + " ends"
	case granted:
	}
	mode := "exclusive"
	if a.shared {
		mode = "shared"
	}
	text := fmt.Sprintf("%s %s, token %d", a.who, mode, a.token)
	if len(a.evicts) > 0 {
		text += ", evicts " + strings.Join(a.evicts, ", ")
	}
	return text
}

func (s *state) String() string {
	if len(s.holders) == 0 {
		return fmt.Sprintf("free, last token %d", s.last)
	}
	var who []string
	for _, h := range s.holders {
		mode := " (x)"
		if h.shared {
			mode = " (s)"
		}
		who = append(who, h.who+mode)
	}
	return fmt.Sprintf("%s, last token %d", strings.Join(who, " "), s.last)
}

// operations are the acts of the holds of one scope.
func operations(holds []*Hold) []porcupine.Operation {
	in := make(map[string]bool, len(holds))
	for _, h := range holds {
		in[h.Who] = true
	}
	var ops []porcupine.Operation
	add := func(client int, a act, from, to time.Duration) {
		ops = append(ops, porcupine.Operation{ClientId: client, Input: a, Call: int64(from), Return: int64(max(from, to))})
	}
	clients := make(map[string]int)
	for _, h := range holds {
		player := h.Who[:max(0, strings.LastIndexByte(h.Who, '.'))]
		if _, known := clients[player]; !known {
			clients[player] = len(clients)
		}
		n := clients[player]
		add(n, act{what: granted, who: h.Who, shared: h.Shared, token: h.Token, evicts: h.Evicts}, h.Invoked, h.Granted)
		if h.Softening != 0 {
			add(n, act{what: softened, who: h.Who}, h.Softening, h.Softening)
		}
		if h.Ended != 0 && (h.taker == nil || !in[h.taker.Who]) {
			add(n, act{what: ended, who: h.Who}, max(h.Loose, h.Invoked), h.Ended)
		}
	}
	return ops
}

// linearizable asks porcupine whether the holds of a scope can have been.
func linearizable(holds []*Hold, patience time.Duration) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(), operations(holds), patience)
}
