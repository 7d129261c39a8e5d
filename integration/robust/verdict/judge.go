package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// Settings say how to judge.
type Settings struct {
	// Window is the session timeout: for so long after a pause a holder need not
	// have noticed that it has lost, and somebody who is cut off that it was
	// evicted.
	Window time.Duration

	// Margin is how long before the end of its session, at least, a holder learns
	// that it has lost: Config.Margin of the clients. 0: it is not checked.
	Margin time.Duration

	// Noise is how late the machine may make a process that does not count as
	// starved.
	Noise time.Duration

	// Patience is for how long porcupine may think about one scope. Then its
	// verdict is unknown.
	Patience time.Duration
}

// A Violation is a promise that was broken.
type Violation struct {
	Check string // which check has found it
	Scope string
	At    time.Duration
	Text  string
	Holds []*Hold // that show it, as few as possible
}

// Same reports whether both are the same, found at two times.
func (v Violation) Same(o Violation) bool {
	return v.Check == o.Check && v.Scope == o.Scope && v.At == o.At
}

// A Verdict is what a history shows.
type Verdict struct {
	Violations []Violation
	Unknown    []string // scopes that porcupine could not decide about
	Figures    Figures
}

// The names of the checks.
const (
	CheckModel   = "model"    // porcupine: no two conflicting holders, tokens grow
	CheckTold    = "told"     // who lost the lock was told before another was granted
	CheckMargin  = "margin"   // it was told the margin before that
	CheckGrace   = "grace"    // no holder is evicted before the end of its grace period
	CheckEvicted = "evicted"  // an evicted holder learns of it within a session timeout
	CheckRight   = "right"    // no holder is preempted, or evicted, by one that may not
	CheckAnswer  = "answer"   // calls return in time, with a grant or for a reason
	CheckTurn    = "turn"     // the more important go first, and no lock is free while somebody waits
	CheckToken   = "token"    // no two grants have one token, unless both share
	CheckFence   = "fence"    // the resource accepts no smaller token after a greater one
	CheckStale   = "stale"    // no holder is refused by the resource
	CheckReader  = "reader"   // no other request writes to the resource while one holds the lock
	CheckProcess = "process"  // processes neither crash nor fail
	CheckEnd     = "liveness" // everything ends when the faults have
)

// Judge judges a history: events in the order of their stamps. It may be the
// beginning of a longer one.
func Judge(events []history.Event, s Settings) Verdict {
	if len(events) == 0 {
		return Verdict{}
	}
	c := read(events, s.Window)
	scopes := make(map[string][]*Hold)
	for _, h := range c.order {
		scopes[h.Scope] = append(scopes[h.Scope], h)
	}
	v := Verdict{Figures: c.figures(events, scopes)}
	for _, text := range c.cannot {
		v.Violations = append(v.Violations, Violation{Check: CheckProcess, Text: text})
	}
	for _, text := range c.broken {
		v.Violations = append(v.Violations, Violation{Check: CheckEnd, Text: text})
	}
	end := events[len(events)-1].At
	v.Violations = append(v.Violations, c.answers(end)...)
	waiters := c.waiters(end)
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		holds := scopes[scope]
		v.Violations = slices.Concat(v.Violations,
			c.rights(holds), c.turns(holds, waiters[scope]), c.idles(holds, waiters[scope], end))
		switch linearizable(holds, s.Patience) {
		case porcupine.Unknown:
			v.Unknown = append(v.Unknown, scope)
		case porcupine.Illegal:
			few := shrink(holds, s.Patience)
			v.Violations = append(v.Violations, Violation{
				Check: CheckModel, Scope: scope, At: few[len(few)-1].Granted, Holds: few,
				Text: "the history of the lock has no order in which it never has two conflicting holders and its tokens grow",
			})
		case porcupine.Ok:
		}
		v.Violations = slices.Concat(v.Violations,
			told(holds), c.margins(holds, s), graces(holds, c.skews), c.evicted(holds),
			tokens(holds), fence(holds), stale(holds), readers(holds))
	}
	return v
}

// shrink leaves holds out for as long as the rest is impossible all the same.
func shrink(holds []*Hold, patience time.Duration) []*Hold {
	end := time.Now().Add(patience)
	// The impossible part ends where the beginning of the history becomes so.
	at, _ := slices.BinarySearchFunc(holds, porcupine.Illegal, func(h *Hold, _ porcupine.CheckResult) int {
		i := slices.Index(holds, h)
		if linearizable(holds[:i+1], time.Until(end)) == porcupine.Illegal {
			return 1
		}
		return -1
	})
	few := slices.Clone(holds[:min(at+1, len(holds))])
	for size := len(few) / 2; size > 0; size /= 2 {
		for i := 0; i < len(few) && time.Now().Before(end); {
			less := slices.Delete(slices.Clone(few), i, min(i+size, len(few)))
			if len(less) > 0 && linearizable(less, time.Until(end)) == porcupine.Illegal {
				few = less
			} else {
				i += size
			}
		}
	}
	return few
}

// excludes reports whether the two cannot hold at the time at which o, the later
// one, was told that it does.
func (h *Hold) excludes(o *Hold) bool {
	shares := h.Shared || h.Softening != 0 && h.Softening <= o.Granted
	return !shares || !o.Shared
}

// told checks the promise that has no search in it: a holder that loses the lock
// learns of it before another is granted. Excuses apart; and takeovers, which
// the victim may hear of at any time, even with its grant: the model accounts
// for them.
func told(holds []*Hold) (found []Violation) {
	for i, h := range holds {
		if h.taker != nil {
			continue
		}
		for _, o := range holds[i+1:] {
			if h.Ended != 0 && o.Granted >= h.Loose {
				break
			}
			if !h.excludes(o) || o.taker != nil || o.Excuse != None && o.Loose <= o.Granted {
				continue
			}
			text := fmt.Sprintf("%s was granted while %s went on", o, h)
			if h.Ended != 0 {
				text = fmt.Sprintf("%s was granted %s before %s ended (%s)", o, h.Ended-o.Granted, h, h.Why)
			}
			found = append(found, Violation{Check: CheckTold, Scope: h.Scope, At: o.Granted, Text: text, Holds: []*Hold{h, o}})
			break
		}
	}
	return found
}

func tokens(holds []*Hold) (found []Violation) {
	by := make(map[int64]*Hold)
	for _, h := range holds {
		if h.Token == 0 {
			continue
		}
		if o := by[h.Token]; o != nil && (!o.Shared || !h.Shared) {
			found = append(found, Violation{
				Check: CheckToken, Scope: h.Scope, At: h.Granted, Text: fmt.Sprintf("%s has the token of %s", h, o),
				Holds: []*Hold{o, h},
			})
		}
		by[h.Token] = h
	}
	return found
}

// fence checks that the resource has done its part: the other checks count on
// it.
func fence(holds []*Hold) (found []Violation) {
	type write struct {
		history.Event
		by *Hold
	}
	var writes []write
	for _, h := range holds {
		for _, e := range h.uses {
			if e.Kind == history.Wrote {
				writes = append(writes, write{e, h})
			}
		}
	}
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(a.Count, b.Count) })
	for i := 1; i < len(writes); i++ {
		if a, b := writes[i-1], writes[i]; b.Token < a.Token || a.Count == b.Count {
			found = append(found, Violation{
				Check: CheckFence, Scope: b.by.Scope, At: b.At, Holds: []*Hold{a.by, b.by},
				Text: fmt.Sprintf("write %d with token %d was accepted after write %d with token %d",
					b.Count, b.Token, a.Count, a.Token),
			})
		}
	}
	return found
}

// stale checks that no holder is refused: tokens grow in the order of the
// grants, and no other request writes meanwhile.
func stale(holds []*Hold) (found []Violation) {
	for _, h := range holds {
		for _, e := range h.uses {
			if e.Kind != history.Refused || e.Late || !h.sure(e) {
				continue
			}
			found = append(found, Violation{
				Check: CheckStale, Scope: h.Scope, At: e.At,
				Text: fmt.Sprintf("%s was refused by the resource while it held the lock", h), Holds: []*Hold{h},
			})
			break
		}
	}
	return found
}

// readers checks that no other request writes while one holds the lock: a reader
// sees one state of the resource, and a writer sees its own writes alone.
func readers(holds []*Hold) (found []Violation) {
	for _, h := range holds {
		uses := slices.SortedFunc(slices.Values(h.uses), func(a, b history.Event) int {
			return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(a.At, b.At))
		})
		var last history.Event
		for _, e := range uses {
			if e.Kind != history.Read && e.Kind != history.Wrote {
				continue
			}
			if e.Late || !h.sure(e) {
				last = history.Event{}
				continue
			}
			own := int64(0)
			if e.Kind == history.Wrote {
				own = 1
			}
			if others := e.Count - last.Count - own; last.At != 0 && others > 0 {
				found = append(found, Violation{
					Check: CheckReader, Scope: h.Scope, At: e.At, Holds: []*Hold{h},
					Text: fmt.Sprintf("there were %d writes of others to the resource while %s held the lock", others, h),
				})
				break
			}
			last = e
		}
	}
	return found
}

// sure reports whether the hold certainly was one during a use of the resource:
// it had not ended, no other had taken it, and there was no excuse.
func (h *Hold) sure(use history.Event) bool {
	switch {
	case h.taker != nil && h.taker.Invoked < use.At:
		return false
	case h.Ended != 0 && use.At >= min(h.Ended, h.Loose):
		return false
	}
	return !slices.ContainsFunc(h.spans, func(s span) bool {
		after := h.reaction()
		if s.what == Expired {
			after += h.window
		}
		return s.from <= use.At && s.to >= use.From-after
	})
}
