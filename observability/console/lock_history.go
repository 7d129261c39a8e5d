package console

import (
	"html/template"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A spellRow is a time in which somebody had the lock.
type spellRow struct {
	Owner, Host string
	ID          string
	Token       lock.Token
	From, To    template.HTML
	Held        string
	Waited      string
	End         live.SpellEnd
}

// A delta is one preemption and its end.
type delta struct {
	At       template.HTML
	From, To string // owners
	Reason   string
	Left     string // until the holder had gone; "" while it has not
	End      live.SpellEnd
	Next     string // until the next one had the lock
	NextBy   string
	Since    template.HTML // while it goes on
}

// history are those who had the lock, the newest first.
func (v *visit) history(t live.Timeline) []spellRow {
	const most = 50
	var all []spellRow
	var begun []time.Time
	for _, r := range t.Rows {
		row := spellRow{Owner: r.Owner, Host: r.Host, ID: r.ID}
		var from, to time.Time
		waited := time.Duration(-1)
		held := false
		for _, s := range r.Spells {
			if s.Kind == live.SpellWaiting && !s.To.IsZero() {
				waited = s.To.Sub(s.From)
			}
			if s.Kind == live.SpellWaiting {
				continue
			}
			if !held {
				from, held = s.From, true
			}
			row.Token, row.End, to = s.Token, s.End, s.To
		}
		if !held {
			continue
		}
		row.From, row.To = v.Clock(from), v.Clock(to)
		if to.IsZero() {
			row.To, to = "now", v.now
		}
		row.Held = human(to.Sub(from))
		if waited >= 0 {
			row.Waited = human(waited)
		}
		all = append(all, row)
		begun = append(begun, from)
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return begun[b].Compare(begun[a]) })
	sorted := make([]spellRow, 0, min(most, len(all)))
	for _, i := range order[:min(most, len(order))] {
		sorted = append(sorted, all[i])
	}
	return sorted
}

// deltas are the preemptions, the newest first: how long the holder took, and
// how long it was until the next one had the lock.
func (v *visit) deltas(t live.Timeline) []delta {
	const most = 20
	rows := map[string]*live.Row{}
	for i := range t.Rows {
		rows[t.Rows[i].ID] = &t.Rows[i]
	}
	var all []delta
	for i := len(t.Marks) - 1; i >= 0 && len(all) < most; i-- {
		mark := t.Marks[i]
		if mark.Kind != live.MarkPreempt {
			continue
		}
		d := delta{At: v.Clock(mark.At), Reason: mark.Text}
		if from := rows[mark.From]; from != nil {
			d.From = from.Owner
		}
		victim := rows[mark.To]
		if victim == nil {
			continue
		}
		d.To = victim.Owner
		gone := goneAfter(victim, mark.At)
		if gone == nil || gone.To.IsZero() {
			d.Since = v.Ago(mark.At)
			all = append(all, d)
			continue
		}
		d.Left, d.End = human(gone.To.Sub(mark.At)), gone.End
		if next, at := heldNext(t.Rows, victim.ID, gone.To); next != nil {
			d.Next, d.NextBy = human(at.Sub(gone.To)), next.Owner
		}
		all = append(all, d)
	}
	return all
}

// goneAfter is the last spell of a holder that goes on at some time, nil if there
// is none.
func goneAfter(r *live.Row, at time.Time) *live.Spell {
	var last *live.Spell
	for i := range r.Spells {
		s := &r.Spells[i]
		if s.Kind != live.SpellWaiting && (s.To.IsZero() || !s.To.Before(at)) {
			last = s
		}
	}
	return last
}

// heldNext is who has a lock next after somebody has gone.
func heldNext(rows []live.Row, gone string, after time.Time) (next *live.Row, at time.Time) {
	for i := range rows {
		r := &rows[i]
		if r.ID == gone {
			continue
		}
		for _, s := range r.Spells {
			if s.Kind == live.SpellHolding && !s.From.Before(after) && (next == nil || s.From.Before(at)) {
				next, at = r, s.From
			}
		}
	}
	return next, at
}
