package live

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	// leastPause is the least time between two snapshots, mostPause the longest for
	// large trees, whose snapshots take a while to make.
	leastPause = 50 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// show makes snapshots when something has changed, until ctx ends, and a last one
// then.
func (b *Board) show(ctx context.Context) {
	views := map[string]Lock{}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-b.wake:
		case <-timer.C: // a delay is over
		case <-ctx.Done():
			b.publish(views)
			return
		}
		began := time.Now()
		next := b.publish(views)
		select {
		case <-time.After(min(max(leastPause, 4*time.Since(began)), mostPause)):
		case <-ctx.Done():
			continue
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// publish makes a snapshot. views are the locks as shown last; what has changed
// is explained anew. It returns when the next one is due though nothing happens;
// 0: it is not.
func (b *Board) publish(views map[string]Lock) (next time.Duration) {
	now := b.o.Now()
	b.mu.Lock()
	books := slices.DeleteFunc(sorted(b.books), func(k *book) bool { return k.gone })
	states := make([]lock.State, len(books))
	stale := make([]bool, len(books))
	for i, k := range books {
		if delayOver(k.state, now) {
			k.state, k.stale = withoutOver(k.state, now), true
		}
		states[i], stale[i], k.stale = k.state, k.stale, false
		for _, d := range states[i].Delays {
			if left := d.Until.Sub(now); !d.Until.IsZero() && (next == 0 || left < next) {
				next = left
			}
		}
	}
	s := &Snapshot{
		At: now.UTC(), Version: b.Now().Version + 1, Complete: b.complete, Blind: cmp.Or(b.blind, b.idle),
		Unreadable: b.unreadable,
	}
	b.mu.Unlock()

	g := newWaits(states)
	s.Locks = make([]Lock, len(states))
	there := make(map[string]bool, len(states))
	for i, state := range states {
		there[state.Scope] = true
		v, ok := views[state.Scope]
		if !ok || stale[i] {
			v = Explain(state)
			views[state.Scope] = v
		}
		g.finish(&v)
		s.Locks[i] = v.AsOf(now)
	}
	for scope := range views {
		if !there[scope] {
			delete(views, scope)
		}
	}
	s.Waits = g.graph()
	s.Totals = totalsOf(s.Locks, len(s.Waits.Circles))

	b.mu.Lock()
	defer b.mu.Unlock()
	b.tidy(now)
	if left := b.tellCircles(g, now); left > 0 && (next == 0 || left < next) {
		next = left
	}
	s.Entries = b.stream.last
	b.now.Store(s)
	close(b.changed)
	b.changed = make(chan struct{})
	return next
}

func delayOver(s lock.State, now time.Time) bool {
	return slices.ContainsFunc(s.Delays, func(d lock.Delay) bool { return !d.Until.IsZero() && !d.Until.After(now) })
}

// withoutOver is a state without delays that are over: nothing in the tree
// changes when they are.
func withoutOver(s lock.State, now time.Time) lock.State {
	s.Delays = slices.DeleteFunc(slices.Clone(s.Delays), func(d lock.Delay) bool {
		return !d.Until.IsZero() && !d.Until.After(now)
	})
	return s
}

// A circle is a deadlock that a snapshot shows.
type circle struct {
	since time.Time
	told  bool
}

// sureAfter is how long a deadlock lasts before it is reported. Locks are read one
// after the other: their states of different moments may form a circle that never
// existed. A change of any of them is seen sooner than that.
const sureAfter = time.Second

// tellCircles tells of deadlocks that were not there before. It returns when the next
// one is sure; 0: there is none.
func (b *Board) tellCircles(g waits, now time.Time) (next time.Duration) {
	there := map[string]circle{}
	for _, c := range g.Circles() {
		if !c.Deadlock() {
			continue
		}
		ids := make([]string, len(c.Edges))
		names := make([]string, 0, len(c.Edges))
		for i, e := range c.Edges {
			ids[i] = e.From.ID
			if !e.From.Holds {
				names = append(names, e.From.Owner+" for "+e.From.Scope)
			}
		}
		slices.Sort(ids)
		key := strings.Join(ids, " ")
		seen, again := b.circles[key]
		blind := b.blind != nil || b.idle != nil
		if !again || blind {
			seen.since = time.Now()
		}
		switch left := sureAfter - time.Since(seen.since); {
		case seen.told, blind:
		case left > 0:
			if next == 0 || left < next {
				next = left
			}
		default:
			seen.told = true
			b.news(Entry{
				At: now, Kind: EntryDeadlock, Scope: c.Cut.Scope, ID: c.Cut.ID, Owner: words.Clip(c.Cut.Owner, longName),
				Token: c.Cut.Token, Text: words.Clip(
					"they wait for each other: "+strings.Join(names, ", ")+"; to end it: "+BreakCommand(c.Cut), longText),
			})
		}
		there[key] = seen
	}
	b.circles = there
	return next
}
