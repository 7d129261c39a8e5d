package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Observe takes note of what this process knows beside what can be seen in
// ZooKeeper: how its holds ended, and what happened to its requests beside. It is a
// lockguard.Observer.
func (b *Board) Observe(_ context.Context, event lockguard.Event) {
	about := event.Subject
	at := about.At.Add(time.Until(b.o.Now())) // by the servers' clock
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.Notice.(type) {
	case lockguard.Released:
		b.knowEnd(event.Subject, releasedEnd(e))
	case lockguard.Lost:
		b.knowEnd(event.Subject, lostEnd(e))
	}
	kind, text := herald(event)
	if kind == "" {
		return
	}
	b.news(Entry{
		At: at, Kind: kind, Scope: about.Scope, ID: b.idOf(about), Owner: words.Clip(about.Owner, longName),
		Token: about.Token, Text: words.Clip(text, longText), Here: true,
	})
	b.ring()
}

var _ lockguard.Observer = (*Board)(nil).Observe

// idOf returns the ID that the request has in ZooKeeper, as far as the token tells.
func (b *Board) idOf(about lockguard.Subject) string {
	if k := b.books[about.Scope]; k != nil && about.Token != 0 {
		for id, e := range k.present {
			if e.holds && holdOf(e) == holdIn(about) {
				return id
			}
		}
	}
	return ""
}

// knownEnd is how a hold of this process ended, as its own events tell.
type knownEnd struct {
	end SpellEnd
	why string
}

func releasedEnd(e lockguard.Released) knownEnd {
	switch c := priority.PreemptionOf(e.Cause); {
	case e.Cause == nil:
		return knownEnd{EndReleased, "has released it"}
	case c.Kind == priority.KindPreempted:
		return knownEnd{EndPreempted, fmt.Sprintf("released it, preempted by %s", c.By)}
	case c.Kind == priority.KindLeaseExpired:
		return knownEnd{EndLeaseExpired, "has released it, as its lease was over"}
	}
	return knownEnd{EndReleased, "has released it, interrupted"} // what the cause says is for its log
}

func lostEnd(e lockguard.Lost) knownEnd {
	end := EndLost
	switch {
	case e.Err == nil:
		return knownEnd{EndLost, "has lost it"}
	case e.Err.Reason == lock.LossTaken || e.Err.Reason == lock.LossBroken || e.Err.Reason == lock.LossOverridden:
		end = EndTaken
	case e.Err.Reason == lock.LossSuperseded:
		return knownEnd{EndReleased, "no longer holds it: another process has adopted the hold"}
	}
	return knownEnd{end, "has lost it: " + words.Clip(e.Err.Error(), longText)}
}

// A hold is what a hold of this process is known by in ZooKeeper. A token is not
// enough: several shared holders, or several locks, may be granted in one transaction.
type hold struct {
	scope string
	token lock.Token
	owner string
}

func holdIn(about lockguard.Subject) hold {
	return hold{about.Scope, about.Token, words.Clip(about.Owner, longName)}
}

func holdOf(e *entrant) hold { return hold{e.book.scope, e.contender.Token, e.row.Owner} }

// knowEnd corrects a spell that has ended, or keeps what is known until it is seen
// that it has.
func (b *Board) knowEnd(about lockguard.Subject, known knownEnd) {
	if about.Token == 0 {
		return
	}
	if k := b.books[about.Scope]; k != nil {
		for _, e := range slices.Backward(k.ended) {
			if e.dropped || holdOf(e) != holdIn(about) {
				continue
			}
			if last := len(e.row.Spells) - 1; last >= 0 && e.row.Spells[last].End != EndTaken {
				e.row.Spells[last].End = known.end
			}
			return
		}
	}
	b.knownEnds.put(holdIn(about), known)
}

// knownEnds are ends that were told before they were seen. It is bounded: what is
// never seen, because it was over too soon, goes when there is more.
type knownEnds struct {
	m     map[hold]knownEnd
	queue []hold
}

const maxKnownEnds = 4096

func (k *knownEnds) put(h hold, end knownEnd) {
	if k.m == nil {
		k.m = map[hold]knownEnd{}
	}
	if _, again := k.m[h]; !again {
		k.queue = append(k.queue, h)
	}
	k.m[h] = end
	if len(k.queue) > maxKnownEnds {
		delete(k.m, k.queue[0])
		k.queue = k.queue[1:]
	}
}

func (k *knownEnds) take(h hold) (knownEnd, bool) {
	end, ok := k.m[h]
	return end, ok
}
