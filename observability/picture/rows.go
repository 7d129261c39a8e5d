package picture

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A story is what is drawn of a timeline: those requests that fit, and what
// happened between them.
type story struct {
	live.Timeline
	now   time.Time // until when that is drawn which goes on
	rows  []live.Row
	place map[string]int // of the rows, by ID
	more  int            // requests that are left out
	acts  []act          // in the order of time
}

// An act is a mark with what came of it.
type act struct {
	live.Mark
	from, to int // rows; -1: not drawn, or not a request
	number   int // of its note, from 1; 0: it has none

	asked, gone, next time.Time // zero: not known, or not yet
	end               live.SpellEnd
	heir              int // row of the next holder; -1: none that is drawn
}

// tell chooses what is drawn.
func tell(t live.Timeline, now time.Time, limit int) story {
	if !t.To.After(t.From) {
		t.From, t.To = extent(t)
	}
	s := story{Timeline: t, now: t.To, place: map[string]int{}}
	if !now.IsZero() && now.Before(t.To) && now.After(t.From) {
		s.now = now
	}
	var rows []live.Row
	for _, r := range t.Rows {
		if len(s.spells(r)) > 0 {
			rows = append(rows, r)
		}
	}
	s.rows = s.choose(rows, limit)
	s.more = len(rows) - len(s.rows)
	for i, r := range s.rows {
		s.place[r.ID] = i
	}
	for _, m := range t.Marks {
		if !m.At.Before(t.From) && !m.At.After(t.To) {
			s.acts = append(s.acts, s.act(m))
		}
	}
	slices.SortStableFunc(s.acts, func(a, b act) int { return a.At.Compare(b.At) })
	n := 0
	for i := range s.acts {
		if a := &s.acts[i]; a.Kind != live.MarkHandover && (a.from >= 0 || a.to >= 0) {
			n++
			a.number = n
		}
	}
	return s
}

// extent is for a timeline that does not say from when to when it is.
func extent(t live.Timeline) (from, to time.Time) {
	for _, r := range t.Rows {
		for _, p := range r.Spells {
			if from.IsZero() || p.From.Before(from) {
				from = p.From
			}
			for _, end := range []time.Time{p.From, p.To} {
				if end.After(to) {
					to = end
				}
			}
		}
	}
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	return from, to
}

// choose keeps those who are there now, those who had to do with others, and of
// the rest the newest.
func (s *story) choose(rows []live.Row, limit int) []live.Row {
	if len(rows) <= limit {
		return rows
	}
	involved := map[string]bool{}
	for _, m := range s.Marks {
		if m.Kind != live.MarkHandover {
			involved[m.From], involved[m.To] = true, true
		}
	}
	rank := func(i int) int {
		switch spells := s.spells(rows[i]); {
		case goesOn(spells[len(spells)-1]) && spells[len(spells)-1].Kind != live.SpellWaiting:
			return 0
		case involved[rows[i].ID]:
			return 1
		case goesOn(spells[len(spells)-1]):
			return 2
		}
		return 3
	}
	order := make([]int, len(rows))
	ranks := make([]int, len(rows))
	for i := range rows {
		order[i], ranks[i] = i, rank(i)
	}
	slices.SortFunc(order, func(a, b int) int {
		if ranks[a] == 2 && ranks[b] == 2 {
			return cmp.Compare(a, b) // those who wait: who has waited longest
		}
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(b, a))
	})
	order = order[:limit]
	slices.Sort(order)
	chosen := make([]live.Row, limit)
	for i, at := range order {
		chosen[i] = rows[at]
	}
	return chosen
}

// manySpells is how many spells of one request are drawn.
const manySpells = 50

// spells are those of a row that lie in the picture.
func (s *story) spells(r live.Row) []live.Spell {
	var in []live.Spell
	for _, p := range r.Spells {
		if p.From.After(s.now) || !p.To.IsZero() && p.To.Before(s.From) {
			continue
		}
		in = append(in, p)
	}
	return in[max(len(in)-manySpells, 0):]
}

// until is when the drawing of a spell ends.
func (s *story) until(p live.Spell) time.Time {
	if p.To.IsZero() || p.To.After(s.now) {
		return s.now
	}
	return p.To
}

func goesOn(p live.Spell) bool { return p.To.IsZero() }

func (s *story) row(id string) int {
	if i, ok := s.place[id]; ok && id != "" {
		return i
	}
	return -1
}

// act finds out what came of a mark: when the one who was asked heard of it,
// when it had gone, and who had the lock next, and when.
func (s *story) act(m live.Mark) act {
	a := act{Mark: m, from: s.row(m.From), to: s.row(m.To), heir: -1}
	if m.Kind == live.MarkHandover || a.to < 0 {
		return a
	}
	for _, p := range s.rows[a.to].Spells {
		if p.Kind == live.SpellWaiting || !p.To.IsZero() && p.To.Before(m.At) {
			continue
		}
		if p.Kind == live.SpellLeaving && a.asked.IsZero() {
			a.asked = p.From
		}
		a.gone, a.end = p.To, p.End
	}
	if a.gone.IsZero() {
		return a
	}
	for i, r := range s.rows {
		if i == a.to {
			continue
		}
		for _, p := range r.Spells {
			// Servers' times: the same transaction ends one and begins the other.
			if p.Kind != live.SpellWaiting && !p.From.Before(a.gone) && (a.heir < 0 || p.From.Before(a.next)) {
				a.heir, a.next = i, p.From
				break
			}
		}
	}
	return a
}

func (s *story) name(row int, id string) string {
	switch {
	case row >= 0:
		return lettering.Line(s.rows[row].Owner)
	case id != "":
		return "another request"
	}
	return "an operator"
}

// words says what happened, for a note and for those who cannot see the picture.
func (s *story) words(a act) string {
	from, to := s.name(a.from, a.From), s.name(a.to, a.To)
	var text string
	switch a.Kind {
	case live.MarkPreempt:
		text = from + " preempts " + to
		if a.from >= 0 && a.to >= 0 {
			if high, low := s.rows[a.from].Priority, s.rows[a.to].Priority; high.Outranks(low) {
				text += " (priority " + level(high) + " over " + level(low) + ")"
			}
		}
	case live.MarkTakeover:
		text = from + " takes the lock from " + to
	case live.MarkBreak:
		text = from + " breaks the lock of " + to
	case live.MarkHandover:
		return from + " hands the lock to " + to
	default:
		text = lettering.Line(a.Text)
	}
	if d := a.asked.Sub(a.At); !a.asked.IsZero() && d >= time.Millisecond {
		text += " · noticed after " + span(d)
	}
	switch {
	case a.gone.IsZero() && a.to >= 0:
		return text + " · " + to + " still holds after " + span(s.now.Sub(a.At))
	case a.to < 0:
		return text
	}
	if a.Kind == live.MarkPreempt {
		text += " · " + departure(a.end) + " after " + span(a.gone.Sub(a.At))
	}
	if a.heir >= 0 {
		text += " · " + lettering.Line(s.rows[a.heir].Owner) + " holds "
		if d := a.next.Sub(a.gone); d >= time.Millisecond {
			text += span(d) + " later"
		} else {
			text += "at once"
		}
	}
	return text
}

// departure says how a preempted holder has gone.
func departure(end live.SpellEnd) string {
	switch end {
	case live.EndTaken:
		return "evicted"
	case live.EndLost:
		return "lost"
	case live.EndUnknown, live.EndGone:
		return "gone"
	default:
		return "released"
	}
}

func level(l priority.Level) string {
	if l == priority.Emergency {
		return "emergency"
	}
	return number(float64(l))
}

// summary says in a few words what the picture shows.
func (s *story) summary() string {
	holds, waits, asked := 0, 0, 0
	for _, r := range s.rows {
		spells := s.spells(r)
		if last := spells[len(spells)-1]; goesOn(last) {
			switch last.Kind {
			case live.SpellWaiting:
				waits++
			case live.SpellHolding, live.SpellLeaving:
				holds++
			}
		}
	}
	for _, a := range s.acts {
		if a.Kind == live.MarkPreempt {
			asked++
		}
	}
	text := words.CountOf(len(s.rows)+s.more, "request", "requests")
	if asked > 0 {
		text += ", " + words.CountOf(asked, "preemption", "preemptions")
	}
	text += "; at the end " + words.CountOf(holds, "holds", "hold") + " and " + words.CountOf(waits, "waits", "wait")
	return text
}
