package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/views"
)

// writeGroups writes one line for each group.
func writeGroups(w io.Writer, groups []views.Group, wide bool) {
	head := []any{"GROUP", "STRATEGY", "LOCKS", "HELD", "MEMBERS", "CONTROLLER", "MOVED", "MOVED IN ALL"}
	if wide {
		head = append(head, "HOLDERS", "PLANS", "PROBLEM")
	}
	row(w, head...)
	for _, g := range groups {
		controller := "-"
		if g.Controller != nil {
			controller = *g.Controller
		}
		cells := []any{g.Name, g.Strategy, len(g.Locks), g.Held, len(g.Members), controller, g.Moved, g.MovedTotal}
		if wide {
			cells = append(cells, g.Holders, g.Generation, cmp.Or(firstLine(g.StrategyError), "-"))
		}
		row(w, cells...)
	}
}

// writeGroup writes who holds which lock, and what is known about those who
// are there.
func writeGroup(w io.Writer, g views.Group, wide bool) {
	if wide {
		row(w, "lockName", "acquired By", "state", "token", "planned")
	} else {
		row(w, "lockName", "acquired By")
	}
	for _, l := range g.Locks {
		names, tokens := make([]string, len(l.Holders)), make([]string, len(l.Holders))
		for i, h := range l.Holders {
			names[i], tokens[i] = h.Name, h.Token.String()
			if h.Releasing {
				names[i] += " (releasing)"
			}
		}
		cells := []any{l.Lock, orDash(names)}
		if wide {
			cells = append(cells, l.State, orDash(tokens), orDash(l.Planned))
		}
		row(w, cells...)
	}

	line(w, "")
	if len(g.Members) == 0 {
		line(w, "no members; lockkeeper group join joins")
	} else {
		if wide {
			row(w, "participant", "locks", "state", "host", "pid", "since", "id")
		} else {
			row(w, "participant", "locks", "state")
		}
		for _, m := range g.Members {
			state := m.State
			if m.Controller {
				state += ", decides"
			}
			cells := []any{m.Name, m.Locks, state}
			if wide {
				cells = append(cells, m.Host, m.PID, clock(m.Since), m.ID)
			}
			row(w, cells...)
		}
	}

	line(w, "\n%d of %s held; %d moved by plan %d, %d in all plans; strategy %s",
		g.Held, words.Count(len(g.Locks), "lock"), g.Moved, g.Generation, g.MovedTotal, g.Strategy)
	if g.StrategyError != "" {
		line(w, "the strategy gave no plan, all stays as it is: %s", firstLine(g.StrategyError))
	}
}

func orDash(names []string) string { return cmp.Or(strings.Join(names, ", "), "-") }

func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if more && strings.TrimSpace(rest) != "" {
		first = fmt.Sprint(first, " …")
	}
	return first
}
