package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Observe takes note of what this process knows beside what can be seen in
// ZooKeeper: how its holds ended, and what happened to its requests beside. It is a
// lockguard.Observer.
func (b *Board) Observe(_ context.Context, event lockguard.Event) {
	about := event.About()
	at := about.At.Add(time.Until(b.o.Now())) // by the servers' clock
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case lockguard.Released:
		b.knowEnd(e.Scope, e.Token, releasedEnd(e))
	case lockguard.Lost:
		b.knowEnd(e.Scope, e.Token, lostEnd(e))
	}
	kind, text := herald(event)
	if kind == "" {
		return
	}
	b.news(Entry{
		At: at, Kind: kind, Scope: about.Scope, ID: b.idOf(about), Owner: clip(about.Owner, longName), Token: about.Token,
		Text: clip(text, longText), Here: true,
	})
	b.ring()
}

var _ lockguard.Observer = (*Board)(nil).Observe

// idOf returns the ID that the request has in ZooKeeper, as far as the token tells.
func (b *Board) idOf(about lockguard.Subject) string {
	if k := b.books[about.Scope]; k != nil && about.Token != 0 {
		for id, e := range k.present {
			if e.holds && e.contender.Token == about.Token {
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
	var preempted *lockguard.PreemptedError
	var over *lockguard.LeaseExpiredError
	switch {
	case e.Cause == nil:
		return knownEnd{EndReleased, "has released it"}
	case errors.As(e.Cause, &preempted):
		return knownEnd{EndPreempted, fmt.Sprintf("has released it, as %s had asked", preempted.By)}
	case errors.As(e.Cause, &over):
		return knownEnd{EndLeaseExpired, "has released it, as its lease was over"}
	}
	return knownEnd{EndReleased, "has released it, interrupted"} // what the cause says is for its log
}

func lostEnd(e lockguard.Lost) knownEnd {
	end := EndLost
	switch {
	case e.Err == nil:
		return knownEnd{EndLost, "has lost it"}
	case e.Err.Reason == recipes.LossTaken || e.Err.Reason == recipes.LossBroken || e.Err.Reason == recipes.LossOverridden:
		end = EndTaken
	case e.Err.Reason == recipes.LossSuperseded:
		return knownEnd{EndReleased, "has it no more: another process has adopted the hold"}
	}
	return knownEnd{end, "has lost it: " + clip(e.Err.Error(), longText)}
}

// knowEnd corrects a spell that has ended, or keeps what is known until it is seen
// that it has.
func (b *Board) knowEnd(scope string, token recipes.Token, known knownEnd) {
	if token == 0 {
		return
	}
	if k := b.books[scope]; k != nil {
		for _, e := range slices.Backward(k.ended) {
			if e.dropped || e.contender.Token != token {
				continue
			}
			if last := len(e.row.Spells) - 1; last >= 0 && e.row.Spells[last].End != EndTaken {
				e.row.Spells[last].End = known.end
			}
			return
		}
	}
	b.knownEnds.put(token, known)
}

// knownEnds are ends that were told before they were seen. It is bounded: what is
// never seen, because it was over too soon, goes when there is more.
type knownEnds struct {
	m     map[recipes.Token]knownEnd
	queue []recipes.Token
}

const maxKnownEnds = 4096

func (k *knownEnds) put(token recipes.Token, end knownEnd) {
	if k.m == nil {
		k.m = map[recipes.Token]knownEnd{}
	}
	if _, again := k.m[token]; !again {
		k.queue = append(k.queue, token)
	}
	k.m[token] = end
	if len(k.queue) > maxKnownEnds {
		delete(k.m, k.queue[0])
		k.queue = k.queue[1:]
	}
}

func (k *knownEnds) take(token recipes.Token) (knownEnd, bool) {
	end, ok := k.m[token]
	return end, ok
}
