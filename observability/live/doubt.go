package live

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// doubts are holds that have gone, and may have been released or lost: an ephemeral
// node vanishes in the same way. Other observations may decide. When a session ends,
// all its nodes go in one transaction; and a request that is granted a lock is in a
// session that has not ended.
type doubts struct {
	open []doubt     // bounded, the oldest first
	left []departure // likewise
}

type doubt struct {
	departure
	e    *entrant
	last lock.Token // it has gone in that transaction, or before
}

// A departure: requests of that session, and none other, have left a lock in a
// transaction, as far as can be told.
type departure struct {
	session int64 // 0: not known
	scope   string
	moved   lock.Token
}

// with reports whether both are the end of one session.
func (d departure) with(o departure) bool {
	return d.session != 0 && d.session == o.session && d.moved != 0 && d.moved == o.moved && d.scope != o.scope
}

// Of more, the oldest are not thought over any more.
const maxDoubts = 1000

func push[T any](all []T, x T) []T {
	if len(all) >= maxDoubts {
		all = slices.Delete(all, 0, maxDoubts/10)
	}
	return append(all, x)
}

// note takes note of a departure. It reports whether it was the end of a session.
func (d *doubts) note(is departure) (ended bool) {
	if is.session == 0 || is.moved == 0 {
		return false
	}
	ended = slices.ContainsFunc(d.left, is.with)
	d.left = push(d.left, is)
	d.open = slices.DeleteFunc(d.open, func(x doubt) bool {
		if is.with(x.departure) {
			x.settle(EndLost)
			return true
		}
		return x.e.dropped
	})
	return ended
}

// add keeps in mind a hold that has gone.
func (d *doubts) add(x doubt) {
	if x.e.contender.Session != 0 {
		d.open = push(d.open, x)
	}
}

// alive: a session was granted a lock in a transaction. What it had until then, it has
// released.
func (d *doubts) alive(session int64, at lock.Token) {
	d.open = slices.DeleteFunc(d.open, func(x doubt) bool {
		if x.e.contender.Session == session && x.last <= at {
			x.settle(EndReleased)
			return true
		}
		return x.e.dropped
	})
}

func (x doubt) settle(end SpellEnd) {
	if spells := x.e.row.Spells; len(spells) > 0 && spells[len(spells)-1].End == EndGone {
		spells[len(spells)-1].End = end
	}
}
