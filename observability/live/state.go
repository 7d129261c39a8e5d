package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The states of a request. Commands, pages and the API use the same words.
const (
	Holding    = "holding"     // it has the lock
	CleaningUp = "cleaning up" // it has the lock and was preempted
	Waiting    = "waiting"     // others have the lock, or are before it in the queue
	Delayed    = "delayed"     // only the lock-delay after an unclean end is in its way
	Frozen     = "frozen"      // an override keeps it out of the queue
)

// A Request is what a request for a lock does now.
type Request struct {
	State string `json:"state"` // holding, cleaning up, waiting, delayed or frozen
	ID    string `json:"id"`
	Scope string `json:"scope"`
	Owner string `json:"owner"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`

	Since time.Time `json:"since"` // of the grant, of the wait, or of the freeze
	// cleaning up: the end of the grace period; delayed: of the lock-delay; frozen: of the override; null: none is known
	Until *time.Time `json:"until"`
	// whom it waits for directly, holders first; of many, the first; cleaning up: its preemptor
	For []Blocker `json:"for"`
	// frozen: which keeps it out; else for which it was made, or which has changed it
	Override *lock.Mark `json:"override"`
}

// A Blocker is one that a request waits for.
type Blocker struct {
	ID    string `json:"id"`
	Owner string `json:"owner"`
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Holds bool   `json:"holds"` // false: it waits itself, before the request, or has gone uncleanly
}

// Requests says what every request does: the one place where that is decided.
// locks are explained (NewLocks, a Snapshot), frozen those that wait outside.
func Requests(locks []Lock, frozen []lock.FrozenRequest) []Request {
	var all []Request
	for i := range locks {
		l := &locks[i]
		for j := range l.Holders {
			all = append(all, newHolding(l, &l.Holders[j]))
		}
		if len(l.Waiters) == 0 {
			continue
		}
		known := l.blockers()
		for j := range l.Waiters {
			all = append(all, newWaiting(l, &l.Waiters[j], known))
		}
	}
	for _, r := range frozen {
		all = append(all, NewFrozen(r))
	}
	return all
}

func requestOf(l *Lock, c *Contender, state string, since time.Time) Request {
	return Request{
		State: state, ID: c.ID, Scope: l.Scope, Owner: c.Owner, Host: c.Host, PID: c.PID, Since: since, For: []Blocker{},
		Override: c.Override,
	}
}

func newHolding(l *Lock, h *Holder) Request {
	r := requestOf(l, &h.Contender, h.State, h.Since)
	for _, by := range h.PreemptedBy {
		r.For = append(r.For, Blocker{ID: by.ID, Owner: by.Owner})
		if r.Until == nil || by.Until.Before(*r.Until) {
			r.Until = new(by.Until)
		}
		if r.State == CleaningUp && (len(r.For) == 1 || by.Since.Before(r.Since)) {
			r.Since = by.Since
		}
	}
	return r
}

func newWaiting(l *Lock, w *Waiter, known map[string]Blocker) Request {
	r := requestOf(l, &w.Contender, w.State, w.WaitingSince)
	for _, id := range w.Blockers {
		if b, ok := known[id]; ok {
			r.For = append(r.For, b)
		}
	}
	if r.State == Delayed {
		for _, d := range l.Delays {
			if d.Mode.Admits(w.Mode) {
				continue
			}
			r.For = append(r.For, Blocker{ID: d.ID, Owner: d.Owner})
			if d.Until != nil && (r.Until == nil || d.Until.After(*r.Until)) {
				r.Until = d.Until
			}
		}
	}
	return r
}

// NewFrozen is a request that an override keeps out.
func NewFrozen(f lock.FrozenRequest) Request {
	return Request{
		State: Frozen, ID: f.ID, Scope: f.Scope, Owner: f.Owner, Host: f.Host, PID: f.PID, Since: f.Since.UTC(),
		Until: Optional(f.Until), For: []Blocker{}, Override: &f.Override,
	}
}

// FrozenFor returns the requests for a lock that are frozen.
func FrozenFor(scope string, all []lock.FrozenRequest) []Request {
	var found []Request
	for _, f := range all {
		if f.Scope == scope {
			found = append(found, NewFrozen(f))
		}
	}
	return found
}

func (v *Lock) blockers() map[string]Blocker {
	known := make(map[string]Blocker, len(v.Holders)+len(v.Waiters))
	for _, h := range v.Holders {
		known[h.ID] = Blocker{h.ID, h.Owner, h.Host, h.PID, true}
	}
	for _, w := range v.Waiters {
		known[w.ID] = Blocker{w.ID, w.Owner, w.Host, w.PID, false}
	}
	return known
}

// HolderState is the state of a holder.
func HolderState(h lock.Contender) string {
	if len(h.PreemptedBy) > 0 {
		return CleaningUp
	}
	return Holding
}

// WaiterState is the state of a waiter of the lock.
func WaiterState(s lock.State, w lock.Contender) string {
	inTheWay := func(o lock.Contender) bool { return !w.Mode.Admits(o.Mode) }
	if slices.ContainsFunc(s.Holders, inTheWay) || s.Delay(w.Mode) <= 0 {
		return Waiting
	}
	for _, o := range s.Waiters {
		if o.Position >= w.Position {
			break
		}
		if inTheWay(o) {
			return Waiting
		}
	}
	return Delayed
}

// Words says what keeps a request from its lock, after its state:
// "for cluster/disk, held by backup".
func (r Request) Words(now time.Time) string { return r.words(now, true) }

// AbsoluteWords is Words without how far off a time is, for what is read later.
func (r Request) AbsoluteWords(now time.Time) string { return r.words(now, false) }

func (r Request) words(now time.Time, relative bool) string {
	switch r.State {
	case Frozen:
		text := "out of " + r.Scope
		if o := r.Override; o != nil {
			text += " by override " + o.ID + " of " + o.By
		}
		if r.Until != nil {
			text += " until " + r.until(now, relative)
		}
		if o := r.Override; o != nil && o.Reason != "" {
			text += ": " + o.Reason
		}
		return text
	case Delayed:
		text := "for " + r.Scope + ": lock-delay after the unclean end of " + few(r.owners(r.For))
		if r.Until != nil {
			text += ", until about " + r.until(now, relative)
		}
		return text
	case CleaningUp:
		text := "under " + r.Scope + ": preempted by " + few(r.owners(r.For))
		if r.Until != nil {
			text += ", grace period until " + r.until(now, relative)
		}
		return text
	case Holding:
		return "under " + r.Scope
	}
	var holders, ahead []Blocker
	for _, b := range r.For {
		if b.Holds {
			holders = append(holders, b)
		} else {
			ahead = append(ahead, b)
		}
	}
	text := "for " + r.Scope
	if len(holders) > 0 {
		text += ", held by " + few(r.owners(holders))
	}
	if len(ahead) > 0 {
		text += ", behind " + few(r.owners(ahead))
	}
	return text
}

func (r Request) until(now time.Time, relative bool) string {
	if !relative {
		return Short(*r.Until, now)
	}
	return Short(*r.Until, now) + " (" + Relative(r.Until.Round(time.Second), now.Round(time.Second)) + ")"
}

// owners names each once, with its host where that is known.
func (r Request) owners(all []Blocker) []string {
	var names []string
	for _, b := range all {
		name := b.Owner
		if b.Host != "" {
			name += " on " + b.Host
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{"unknown"}
	}
	return names
}

// sortRequests puts those that wait longest first.
func sortRequests(all []Request) {
	slices.SortStableFunc(all, func(a, b Request) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
}

// RunState is what a run does, given its requests: what keeps it from working
// goes first.
func RunState(requests []Request) (state string, decides *Request) {
	sorted := slices.Clone(requests)
	sortRequests(sorted)
	for _, state := range []string{Frozen, Delayed, Waiting, CleaningUp} {
		for i := range sorted {
			if sorted[i].State == state {
				return state, &sorted[i]
			}
		}
	}
	return Running, nil
}

// Running is the state of a run that waits for nothing.
const Running = "running"
