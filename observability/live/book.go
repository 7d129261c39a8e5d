package live

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A book is what is known of one lock: its state as seen last, and its history.
type book struct {
	scope  string
	state  lock.State
	grants int32 // version of the lock node
	gone   bool  // it was collected
	stale  bool  // its view is
	run    int   // of the Board, in which it was told last

	present map[string]*entrant // those who are there, by ID
	ended   []*entrant          // the one that ended first is first
}

// An entrant is a request in the history.
type entrant struct {
	row    Row
	id     string // of its node: of several that have had it one after the other, the row's is another
	joined time.Time
	marks  []Mark
	over   time.Time // when its last spell ended

	contender lock.Contender // as seen last
	holds     bool
	askedBy   string    // owner of its first preemptor
	seenAt    time.Time // of the look that showed it last
	waited    time.Time // up to when its waiting is in the warmth
	book      *book
	dropped   bool // it is kept no more
	guessed   bool // the end of its hold was not seen
}

// What is kept of texts that others have written: they may be long.
const (
	longName = 200
	longText = 1000
	maxMarks = 50 // of one request
)

func newEntrant(b *book, c lock.Contender) *entrant {
	return &entrant{book: b, id: c.ID, joined: c.Joined, row: Row{
		ID: c.ID, Owner: words.Clip(c.Owner, longName), Host: words.Clip(c.Host, longName), PID: c.PID,
		Priority: c.Priority, Mode: c.Mode, Message: words.Clip(c.Message, longText),
	}}
}

// open begins a spell.
func (e *entrant) open(kind SpellKind, from time.Time, token lock.Token) {
	e.row.Spells = append(e.row.Spells, Spell{Kind: kind, From: from.UTC(), Token: token})
}

// current is the spell that goes on; nil: none does.
func (e *entrant) current() *Spell {
	if n := len(e.row.Spells); n > 0 && e.row.Spells[n-1].To.IsZero() {
		return &e.row.Spells[n-1]
	}
	return nil
}

// close ends the spell that goes on. Two servers' clocks may meet in it: it is not
// shorter than nothing.
func (e *entrant) close(at time.Time, end SpellEnd) time.Time {
	s := e.current()
	if s == nil {
		return at
	}
	at = latest(at.UTC(), s.From)
	s.To, s.End = at, end
	e.over = at
	return at
}

func (e *entrant) mark(m Mark) {
	m.At, m.Text = m.At.UTC(), words.Clip(m.Text, longText)
	if len(e.marks) >= maxMarks {
		e.marks = slices.Delete(e.marks, 0, 1)
	}
	e.marks = append(e.marks, m)
}

// leaving returns the reason of its first preemption, as the end of its spell;
// "": it was not preempted.
func (e *entrant) leaving() SpellEnd {
	if s := e.current(); s != nil && s.Kind == SpellLeaving && len(e.row.Spells) > 1 {
		return e.row.Spells[len(e.row.Spells)-2].End
	}
	return ""
}

func endOfAsked(reason priority.Reason) SpellEnd {
	if reason == priority.LeaseExpired {
		return EndLeaseExpired
	}
	return EndPreempted
}

// excludes reports whether a holder cannot have been beside another one.
func (e *entrant) excludes(h lock.Contender) bool {
	companions := e.contender.Hold != "" && e.contender.Hold == h.Hold
	return !companions && (e.row.Mode == priority.Exclusive || h.Mode == priority.Exclusive)
}

// yieldTo corrects holds that were seen to have ended later than the next one had
// begun: when they did was a guess.
func (b *book) yieldTo(next *entrant) {
	since := next.row.Spells[len(next.row.Spells)-1].From
	for _, e := range slices.Backward(b.ended) {
		if since.Sub(e.over) > time.Minute {
			return
		}
		if !e.over.After(since) || e.dropped || !e.guessed || !e.excludes(next.contender) {
			continue
		}
		last := &e.row.Spells[len(e.row.Spells)-1]
		last.To = latest(last.From, since)
		e.over = last.To
	}
}

// overlaps reports whether the request was there between two times.
func (e *entrant) overlaps(from, to time.Time) bool {
	return !e.joined.After(to) && (e.current() != nil || !e.over.Before(from))
}

// timeline is the history between two times.
func (b *book) timeline(from, to time.Time) (rows []Row, marks []Mark) {
	rows, marks = []Row{}, []Mark{}
	var all []*entrant
	for _, e := range b.ended {
		if !e.dropped && e.overlaps(from, to) {
			all = append(all, e)
		}
	}
	for _, e := range b.present {
		if e.overlaps(from, to) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entrant) int {
		return cmp.Or(a.joined.Compare(b.joined), cmp.Compare(a.token(), b.token()), cmp.Compare(a.row.ID, b.row.ID))
	})
	for _, e := range all {
		row := e.row
		row.Spells = slices.DeleteFunc(slices.Clone(e.row.Spells), func(s Spell) bool {
			return s.From.After(to) || !s.To.IsZero() && s.To.Before(from)
		})
		if len(row.Spells) > 0 {
			rows = append(rows, row)
		}
		for _, m := range e.marks {
			if !m.At.Before(from) && !m.At.After(to) {
				marks = append(marks, m)
			}
		}
	}
	slices.SortStableFunc(marks, func(a, b Mark) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(asks(a), asks(b)))
	})
	return rows, marks
}

// token tells of two that joined in the same millisecond who was granted first.
func (e *entrant) token() lock.Token {
	for _, s := range e.row.Spells {
		if s.Token != 0 {
			return s.Token
		}
	}
	return math.MaxInt64
}

// asks is 1 for a preemption: its victim holds the lock by then, even in the same
// millisecond.
func asks(m Mark) int {
	if m.Kind == MarkPreempt {
		return 1
	}
	return 0
}
