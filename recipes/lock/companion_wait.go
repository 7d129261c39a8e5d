package lock

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// What the first waiter has to know of members of a hold: they come and go
// without it, and together they are one holder.

// askedOf returns when a note of this request has come to a holder, whose
// mailbox shows it for the first time. One that has copied it from another
// member was asked with that one: else the grace would begin anew with each
// that joins to clean up. now: unknown.
func (p *place) askedOf(
	h *holding, n askingNote, asks map[string]*standingAsk, now zkclient.Instant,
) zkclient.Instant {
	if h.rec.Hold == "" {
		return now
	}
	at := n.at(h.stat)
	for _, known := range []map[string]*standingAsk{p.asks, asks} {
		for _, ask := range known {
			since, asked := ask.reasons[n.Reason]
			if asked && ask.holder.Hold == h.rec.Hold && ask.notes[n.Reason] == at {
				now = min(now, since)
			}
		}
	}
	return now
}

// notesOf returns the server's time of each note that id has put into the mailbox of
// a member of a hold.
func (r *contenderRecord) notesOf(id string, stat *zkclient.Stat) map[priority.Reason]int64 {
	if r.Hold == "" {
		return nil
	}
	notes := make(map[priority.Reason]int64, len(r.Preempt))
	for _, n := range r.Preempt {
		if n.ID == id {
			notes[n.Reason] = n.at(stat)
		}
	}
	return notes
}

// lengthen gives each member of a hold the longest times that a member has left: what one has extended, all have.
func lengthen(holders []*holding, held []priority.Holder) {
	for i, h := range holders {
		if h.rec.Hold == "" {
			continue
		}
		for j, o := range holders {
			if o.rec.Hold == h.rec.Hold {
				held[i].Remaining = held[i].Longest(held[j].Remaining)
			}
		}
	}
}

// lengthenShown is lengthen for what is shown of a lock.
func lengthenShown(holders []Contender) {
	longest := make(map[string]priority.Remaining)
	for _, h := range holders {
		if h.Hold != "" {
			longest[h.Hold] = h.Longest(longest[h.Hold])
		}
	}
	for i, h := range holders {
		if most, ok := longest[h.Hold]; ok {
			holders[i].Remaining = most
		}
	}
}

// expectResume watches the lock node during the delay of a hold that has ended
// uncleanly. A client that resumes the hold holds the lock, and no other watch
// would fire before the delay is over.
func (p *place) expectResume(ctx context.Context, stat *zkclient.Stat, g lockRecord) error {
	if !slices.ContainsFunc(g.Delays, func(n delayNote) bool { return n.Hold }) {
		return nil
	}
	now, err := p.watchG(ctx)
	if err == nil && now != stat.Version {
		err = errAgain
	}
	return err
}
