package live

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A turn is what has happened to a lock between two looks, as the tree tells it.
// The caller holds Board.mu.
type turn struct {
	b    *Board
	k    *book
	is   lock.State
	look lock.Sighting
	now  time.Time // of the servers
	tell bool      // what happens is news; else it was so when the first look came

	heir   *lock.Contender // who was granted last, if that is new
	direct bool            // the lock had no holder in between
	handed bool            // in a transaction in which another request left; a later arrival or departure hides that
	after  []Entry         // told when all ends are

	unseen []*entrant // they have held it between two looks

	holdersGone int
	departed    departure
	over        bool // that was the end of a session
}

// turn brings a book up to date.
func (b *Board) turn(look lock.Sighting, now time.Time) {
	k := b.books[look.State.Scope]
	if k == nil {
		k = &book{scope: look.State.Scope, present: map[string]*entrant{}}
		b.books[look.State.Scope] = k
	}
	t := &turn{b: b, k: k, is: look.State, look: look, now: now, tell: b.knows}
	wasDamaged := k.state.Damage
	t.findHeir()
	if look.Gone || !unreadable(t.is) { // else they are what was seen last
		t.ends()
	}
	for _, h := range t.is.Holders {
		t.holder(h)
	}
	for _, w := range t.is.Waiters {
		t.waiter(w)
	}
	for _, e := range t.after {
		b.news(e)
	}
	k.state, k.grants, k.gone, k.stale, k.run = look.State, look.Version, look.Gone, true, b.run
	if look.State.Damage != "" && wasDamaged == "" {
		b.news(Entry{At: now, Kind: EntryDamaged, Scope: k.scope, Text: words.Clip(look.State.Damage, longText)})
	}
	b.close(k)
	if look.Gone && t.tell {
		b.news(Entry{
			At: now, Kind: EntryCollected, Scope: k.scope, Text: "the lock was unused for long: it is no longer listed",
		})
	}
}

// seen is when the state was looked at.
func (t *turn) seen() time.Time {
	if t.is.At.IsZero() {
		return t.now
	}
	return t.is.At
}

// note tells something about a request.
func (t *turn) note(e *entrant, x Entry) Entry {
	x.Scope, x.ID, x.Owner = t.k.scope, e.row.ID, e.row.Owner
	if x.Token == 0 && e.holds {
		x.Token = e.contender.Token
	}
	x.Text = words.Clip(x.Text, longText)
	return x
}

func (t *turn) say(e *entrant, x Entry) {
	if t.tell {
		t.b.news(t.note(e, x))
	}
}

// sayLater is say after all ends of this turn.
func (t *turn) sayLater(e *entrant, x Entry) {
	if t.tell {
		t.after = append(t.after, t.note(e, x))
	}
}

// holder returns the entrant of one who held already; nil: it did not.
func (k *book) holder(id string) *entrant {
	if e := k.present[id]; e != nil && e.holds {
		return e
	}
	return nil
}

// findHeir finds out who has the lock now.
func (t *turn) findHeir() {
	for i, h := range t.is.Holders {
		if t.k.holder(h.ID) == nil && (t.heir == nil || h.Token > t.heir.Token) {
			t.heir = &t.is.Holders[i]
		}
	}
	t.direct = t.heir != nil && t.look.Version-t.k.grants == 1
	t.handed = t.direct && t.look.Moved == t.heir.Token && t.heir.Joined.Before(t.heir.Since) && !t.hasTaken(*t.heir)
}

// hasTaken reports whether one has the lock by a takeover: it was not handed over.
func (t *turn) hasTaken(heir lock.Contender) bool {
	return slices.ContainsFunc(t.is.Evicted, func(x lock.Eviction) bool {
		return x.By == heir.Owner && x.Reason != "" &&
			!slices.ContainsFunc(t.k.state.Evicted, func(o lock.Eviction) bool { return o.ID == x.ID })
	})
}

// holder takes note of one that holds.
func (t *turn) holder(h lock.Contender) {
	e := t.k.present[h.ID]
	if e != nil && e.holds && e.contender.Token != 0 && h.Token > e.contender.Token {
		t.passedOn(e, h)
		e = t.k.present[h.ID]
	}
	if e == nil {
		e = newEntrant(t.k, h)
		t.k.present[h.ID] = e
		if h.Since.After(h.Joined) {
			e.open(SpellWaiting, h.Joined, 0)
		}
	}
	if !e.holds {
		t.granted(e, h)
	}
	if h.Mode != e.row.Mode {
		e.row.Mode = h.Mode
		t.say(e, Entry{At: t.now, Kind: EntryDowngraded, Text: e.row.Owner + " holds it in shared mode from now on"})
	}
	t.asks(e, h)
	if was := e.contender; e.holds && !e.seenAt.IsZero() && was.Token == h.Token {
		t.lease(e, was, h)
	}
	e.contender, e.seenAt = h, t.seen()
}

// passedOn: the node of a holder is another's, of the same process, in one
// transaction. When that one has joined is not known.
func (t *turn) passedOn(e *entrant, h lock.Contender) {
	end := EndReleased
	if asked := e.leaving(); asked != "" {
		end = asked
	}
	at := e.close(h.Since, end)
	h.Joined = h.Since
	next := newEntrant(t.k, h)
	next.row.ID += "-" + h.Token.String()
	e.mark(Mark{
		At: at, Kind: MarkHandover, From: e.row.ID, To: next.row.ID,
		Text: fmt.Sprintf("%s hands it over to %s, in its process", e.row.Owner, next.row.Owner),
	})
	t.say(e, Entry{
		At: at, Kind: EntryReleased, By: next.row.Owner, ByID: next.row.ID,
		Text: fmt.Sprintf("%s has released it; held for %s", e.row.Owner, Human(at.Sub(e.contender.Since))),
	})
	t.b.keep(e)
	t.k.present[h.ID] = next
}

func (t *turn) granted(e *entrant, h lock.Contender) {
	since := h.Since
	if e.current() != nil {
		since = e.close(h.Since, EndGranted)
		t.b.warm(e, since)
	}
	e.holds, e.contender, e.seenAt = true, h, time.Time{}
	e.row.Priority, e.row.Mode = h.Priority, h.Mode
	e.open(SpellHolding, since, h.Token)
	t.k.yieldTo(e)
	t.b.doubts.alive(h.Session, h.Token)
	text := fmt.Sprintf("%s has the lock", e.row.Owner)
	if waited := since.Sub(e.joined); waited >= time.Millisecond {
		text += " after " + Human(waited)
	}
	t.sayLater(e, Entry{At: since, Kind: EntryGranted, Token: h.Token, Text: text})
}

// asks compares who preempts a holder.
func (t *turn) asks(e *entrant, h lock.Contender) {
	had := map[string]bool{}
	if !e.seenAt.IsZero() {
		for _, n := range e.contender.PreemptedBy {
			had[n.ID+string(n.Reason)] = true
		}
	}
	say := Words{State: t.is, Absolute: true}
	say.State.At = t.seen()
	for _, n := range h.PreemptedBy {
		key := n.ID + string(n.Reason)
		n.ID = words.Clip(n.ID, longName) // any client may have written it
		if had[key] {
			delete(had, key)
			continue
		}
		if s := e.current(); s != nil && s.Kind == SpellHolding {
			e.askedBy = words.Clip(n.Owner, longName)
			at := e.close(n.At, endOfAsked(n.Reason))
			e.over = time.Time{}
			e.open(SpellLeaving, at, h.Token)
		}
		text := e.row.Owner + " is " + say.Asked(h, n)
		kind := EntryPreempted
		if n.Reason == priority.LeaseExpired {
			kind = EntryLeaseExpired
		}
		e.mark(Mark{At: n.At, Kind: MarkPreempt, From: n.ID, To: e.row.ID, Text: text})
		t.sayLater(e, Entry{At: n.At, Kind: kind, By: words.Clip(n.Owner, longName), ByID: n.ID, Text: text})
	}
	if len(had) > 0 && len(h.PreemptedBy) == 0 {
		t.sayLater(e,
			Entry{At: t.now, Kind: EntryWithdrawn, Text: fmt.Sprintf("the preemption of %s was withdrawn", e.row.Owner)})
	}
}

// lease compares until when a holder has the lock.
func (t *turn) lease(e *entrant, was, is lock.Contender) {
	const noise = 500 * time.Millisecond
	ended, ends := e.seenAt.Add(was.LeaseLeft), t.seen().Add(is.LeaseLeft)
	if is.LeaseTimeout != was.LeaseTimeout || is.LeaseLeft > 0 && ends.Sub(ended) > noise {
		t.sayLater(e, Entry{At: t.now, Kind: EntryExtended, Text: fmt.Sprintf("%s has a new lease of %s, until %s",
			e.row.Owner, Human(is.LeaseTimeout), Short(ends, t.seen()))})
	}
}

// waiter takes note of one in the queue.
func (t *turn) waiter(w lock.Contender) {
	e := t.k.present[w.ID]
	switch {
	case e == nil:
		e = newEntrant(t.k, w)
		t.k.present[w.ID] = e
		e.open(SpellWaiting, w.Joined, 0)
		t.sayLater(e,
			Entry{At: w.Joined, Kind: EntryWaiting, Text: fmt.Sprintf("%s waits, %s", w.Owner, LevelWords(w.Priority))})
	case e.holds: // somebody has overwritten the lock node
		e.holds = false
		e.waited = e.close(t.now, EndUnknown)
		e.open(SpellWaiting, e.waited, 0)
	case !sameRequest(e.contender, w):
		t.sayLater(e, Entry{
			At: t.now, Kind: EntryRevised, Text: fmt.Sprintf("%s has new terms%s", w.Owner, markWords(w.Override)),
		})
	}
	e.contender, e.seenAt = w, t.seen()
}

func markWords(o *lock.Mark) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf(", for override %s of %s: %s", o.ID, o.By, o.Reason)
}

// sameRequest reports whether a waiter asks for the same as before.
func sameRequest(a, b lock.Contender) bool {
	same := func(a, b *time.Duration) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	return a.Forceful == b.Forceful && a.Patient == b.Patient && a.LeaseTimeout == b.LeaseTimeout &&
		a.CleanupTimeout == b.CleanupTimeout &&
		same(a.WaitingTimeout, b.WaitingTimeout) && (a.Override == nil) == (b.Override == nil) && (a.Override == nil ||
		*a.Override == *b.Override)
}

// sorted returns the books in the order of their scopes.
func sorted(books map[string]*book) []*book {
	all := make([]*book, 0, len(books))
	for _, scope := range slices.Sorted(maps.Keys(books)) {
		all = append(all, books[scope])
	}
	return all
}
