package live

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// ends closes the spells of those who are there no more.
func (t *turn) ends() {
	there := make(map[string]bool, len(t.is.Holders)+len(t.is.Waiters))
	for _, c := range t.is.Holders {
		there[c.ID] = true
	}
	for _, c := range t.is.Waiters {
		there[c.ID] = true
	}
	var gone []*entrant
	for id, e := range t.k.present {
		if !there[id] {
			gone = append(gone, e)
		}
	}
	slices.SortFunc(gone, func(a, b *entrant) int {
		return cmp.Or(a.joined.Compare(b.joined), cmp.Compare(a.row.ID, b.row.ID))
	})
	for _, e := range gone {
		if e.holds {
			t.holdersGone++
		}
	}
	t.departed = departure{t.oneSession(gone), t.k.scope, t.look.Moved}
	t.over = t.b.doubts.note(t.departed)
	for _, e := range gone {
		if e.holds {
			t.holderGone(e)
		} else {
			t.waiterGone(e)
		}
		delete(t.k.present, e.id)
		t.b.keep(e)
	}
	for _, e := range t.unseen {
		t.k.yieldTo(e)
	}
}

// oneSession returns the session of all who have gone; 0: of several, or somebody
// has come as well.
func (t *turn) oneSession(gone []*entrant) int64 {
	fresh := func(c lock.Contender) bool { return t.k.present[c.ID] == nil }
	if len(gone) == 0 || slices.ContainsFunc(t.is.Holders, fresh) || slices.ContainsFunc(t.is.Waiters, fresh) {
		return 0
	}
	one := gone[0].contender.Session
	if slices.ContainsFunc(gone, func(e *entrant) bool { return e.contender.Session != one }) {
		return 0
	}
	return one
}

// waiterGone: it has left, unless it was granted and evicted between two looks.
func (t *turn) waiterGone(e *entrant) {
	if x, ok := t.eviction(e.id); ok {
		at := e.close(t.endOf(x), EndGranted)
		t.b.warm(e, at)
		e.holds = true
		e.open(SpellHolding, at, 0)
		t.taken(e, x)
		t.unseen = append(t.unseen, e)
		return
	}
	end := EndLeft
	if t.unsure() {
		end = EndUnknown
	}
	at := e.close(t.now, end)
	t.b.warm(e, at)
	t.say(e, Entry{
		At: at, Kind: EntryLeft, Text: fmt.Sprintf("%s left the queue after %s", e.row.Owner, Human(at.Sub(e.joined))),
	})
}

// unsure reports whether a request that is missing now may have gone long ago: the
// board did not watch, or the lock could not be read.
func (t *turn) unsure() bool {
	return t.b.blind != nil || t.b.idle != nil || unreadable(t.k.state)
}

// unreadable reports whether it cannot be seen who is there.
func unreadable(s lock.State) bool {
	return s.Damage != "" && len(s.Holders)+len(s.Waiters) == 0
}

func (t *turn) eviction(id string) (lock.Eviction, bool) {
	i := slices.IndexFunc(t.is.Evicted, func(x lock.Eviction) bool { return x.ID == id })
	if i < 0 {
		return lock.Eviction{}, false
	}
	return t.is.Evicted[i], true
}

func (t *turn) endOf(x lock.Eviction) time.Time {
	for _, h := range t.is.Holders {
		if h.Owner == x.By && x.Reason != "" && t.k.holder(h.ID) == nil {
			return h.Since
		}
	}
	if x.At.IsZero() {
		return t.now
	}
	return x.At
}

// taken: the lock was taken from a holder.
func (t *turn) taken(e *entrant, x lock.Eviction) {
	at := t.endOf(x)
	by := ""
	for _, h := range t.is.Holders {
		if h.Owner == x.By && t.k.holder(h.ID) == nil {
			by = h.ID
		}
	}
	text := Words{State: lock.State{At: t.seen()}, Absolute: true}.Eviction(x)
	switch x.Reason {
	case "":
		at = e.close(at, EndTaken)
		e.mark(Mark{At: at, Kind: MarkBreak, To: e.row.ID, Text: text})
		t.say(e, Entry{At: at, Kind: EntryBreak, By: words.Clip(x.By, longName), Text: text})
	case lock.Superseded:
		at = e.close(at, EndReleased)
		e.mark(Mark{At: at, Kind: MarkHandover, From: e.row.ID, To: by, Text: text})
		t.say(e, Entry{At: at, Kind: EntryReleased, By: words.Clip(x.By, longName), ByID: by, Text: text})
	default:
		at = e.close(at, EndTaken)
		e.mark(Mark{At: at, Kind: MarkTakeover, From: by, To: e.row.ID, Text: text})
		t.say(e, Entry{At: at, Kind: EntryTakeover, By: words.Clip(x.By, longName), ByID: by, Text: text})
	}
}

// holderGone tells how a hold ended, by what the tree tells of it.
func (t *turn) holderGone(e *entrant) {
	if x, ok := t.eviction(e.id); ok {
		t.taken(e, x)
		return
	}
	// of several, one has handed it over
	heir, handed := t.heir, t.handed && (e.row.Mode == priority.Exclusive || t.holdersGone == 1)
	end, why, at := t.endOfHold(e, handed)
	before, last := t.beforeNext(e)
	at = e.close(earliest(at, before), end)
	e.guessed = !handed
	kind := EntryReleased
	switch end {
	case EndLost:
		kind = EntryLost
	case EndGone:
		kind = EntryGone
		t.b.doubts.add(doubt{departure: t.departed, e: e, last: last})
	case EndUnknown:
		kind = EntryGone
	case EndGranted, EndLeft, EndReleased, EndPreempted, EndLeaseExpired, EndTaken:
	}
	x := Entry{At: at, Kind: kind, Text: fmt.Sprintf("%s %s; held for %s",
		e.row.Owner, why, Human(at.Sub(e.contender.Since)))}
	if handed {
		e.mark(Mark{At: at, Kind: MarkHandover, From: e.row.ID, To: heir.ID, Text: fmt.Sprintf("%s hands over to %s",
			e.row.Owner, heir.Owner)})
		x.By, x.ByID = words.Clip(heir.Owner, longName), heir.ID
	}
	t.say(e, x)
}

// endOfHold returns how a hold ended, in words too, and when. handed: its holder has handed
// the lock over.
func (t *turn) endOfHold(e *entrant, handed bool) (end SpellEnd, why string, at time.Time) {
	at = t.now
	if handed {
		at = t.heir.Since
	}
	end, why = EndGone, "no longer holds it: it released it, or its session ended"
	known, isKnown := t.b.knownEnds.take(holdOf(e))
	i := slices.IndexFunc(t.is.Delays, func(d lock.Delay) bool { return d.ID == e.id })
	switch {
	case i >= 0:
		end, why = EndLost, "ended without releasing it"
		if d := t.is.Delays[i]; !d.Since.IsZero() {
			at = earliest(at, d.Since)
		}
	case isKnown:
		end, why = known.end, known.why
	case t.direct && !handed && t.abandoned(*t.heir, e):
		end, why, at = EndLost, "ended without releasing it", t.heir.Since
	case t.unsure() && !handed:
		end, why = EndUnknown, "no longer holds it; its end was not observed"
	case e.leaving() != "":
		end, why = e.leaving(), fmt.Sprintf("released it, preempted by %s", e.askedBy)
	case handed, t.noNote(e):
		end, why = EndReleased, "has released it"
	case t.over:
		end, why = EndLost, "ended without releasing it: its session has ended"
	}
	return end, why, at
}

// noNote reports whether a holder has left no note of a lock-delay, as it would have
// if it had gone without releasing the lock: one that lasts until somebody looks.
func (t *turn) noNote(e *entrant) bool {
	const lasting = 2 * time.Second
	return e.contender.LockDelay >= lasting && t.heir == nil
}

// beforeNext returns the latest end of a hold whose end was not seen: when the next
// hold began that excludes it. last is the last transaction in which it can have
// ended.
func (t *turn) beforeNext(e *entrant) (at time.Time, last lock.Token) {
	at, last = t.now, t.look.Moved
	for _, h := range t.is.Holders {
		if t.k.holder(h.ID) == nil && e.excludes(h) {
			at, last = earliest(at, h.Since), min(last, h.Token)
		}
	}
	return at, last
}

// abandoned reports whether a waiter found the lock without its holder, who would
// have given it the lock: it was in the queue for long.
func (t *turn) abandoned(heir lock.Contender, e *entrant) bool {
	const long = time.Second
	return e.row.Mode == priority.Exclusive && t.look.Moved < heir.Token && heir.Since.Sub(heir.Joined) > long &&
		heir.Joined.After(e.contender.Since)
}
