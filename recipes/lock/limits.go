package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// maxSharing is how many may hold a lock together. All of them have to fit into
// the one request that takes the lock from them (T7).
const maxSharing = 1000

// maxUnder bounds Request.Under.
const maxUnder = 1000

// roomAfter is how often the first in line checks whether one of too many
// shared holders, which it does not watch, has left.
const roomAfter = time.Second

// QueueFullError is returned to a request that finds too many others in the
// queue. It is withdrawn.
type QueueFullError struct {
	Scope  string
	Length int // how many hold the lock or wait for it
	Ahead  int // how many of them come first
	Limit  int // see Config.QueueLimit
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("lock %q not acquired: its queue is full: %d hold it or wait, %d of them in front, "+
		"and the limit is %d (queue_limit); let fewer wait (acquire_timeout), or spread the work over more scopes",
		e.Scope, e.Length, e.Ahead, e.Limit)
}

// Info returns the kind of the cause.
func (e *QueueFullError) Info() priority.CauseInfo {
	return priority.CauseInfo{Kind: priority.KindQueueFull, Scope: e.Scope}
}

// tooMany returns an error if the queue was too long already when a request came
// to it, or would come: too many stand before it, or so many in all that even
// those who come first must not come, except for an operator's emergency. Those
// who have come after it do not count: they leave.
func (a *attempt) tooMany(children []child, guid string) error {
	limit := a.l.c.Config().QueueLimit
	if len(children) < limit {
		return nil
	}
	me := slices.IndexFunc(children, func(c child) bool { return c.guid == guid })
	all, ahead := 0, 0
	for i, c := range children {
		switch {
		case i == me, me >= 0 && c.place.Sequence-children[me].place.Sequence > 0:
			continue
		case me >= 0 && i < me, me < 0 && !a.req.Priority.Outranks(c.level()):
			ahead++
		}
		all++
	}
	if ahead < limit && (all < limit+limit/8 || a.req.Priority == priority.Emergency) {
		return nil
	}
	return &QueueFullError{Scope: a.l.scope, Length: all, Ahead: ahead, Limit: limit}
}

// admitted is tooMany for one that stands in the queue: once, when it first
// looks around.
func (p *place) admitted(children []child) error {
	if p.counted {
		return nil
	}
	p.counted = true
	return p.a.tooMany(children, p.guid)
}

// awaitRoom waits as first in line beside as many shared holders as there may
// be, by watches on some of them.
func (p *place) awaitRoom(ctx context.Context, alive []child) error {
	some := alive[:min(len(alive), 8)]
	paths := make([]string, len(some))
	for i, c := range some {
		paths[i] = p.a.l.path + "/" + c.name
	}
	p.watchOnly(paths...)
	for _, path := range paths {
		if _, _, err := p.s.Look(ctx, path, &p.others); errors.Is(err, zkclient.ErrNoNode) {
			return errAgain
		} else if err != nil {
			return err
		}
	}
	p.tellQueued(ctx, 1, some)
	return nil
}

// named returns what tells whether one that is there holds the lock.
func (r lockRecord) named() func(c child) bool {
	const few = 8
	if len(r.Holders) <= few {
		return r.holds
	}
	all := make(map[string]bool, len(r.Holders))
	for _, guid := range r.Holders {
		all[guid] = true
	}
	return func(c child) bool { return c.walked || all[c.guid] }
}

// holds reports whether one that is there holds the lock.
func (r lockRecord) holds(c child) bool { return c.walked || slices.Contains(r.Holders, c.guid) }

// planted reports whether a node that is there has the name of one that has
// walked in, and belongs to no session: those that walk in are ephemeral. stat
// may be nil: then the name does not tell. A node that G names holds, whichever
// client made it.
func (r lockRecord) planted(c child, stat *zkclient.Stat) bool {
	return c.walked && stat != nil && !zkclient.IsEphemeral(stat) && !slices.Contains(r.Holders, c.guid)
}

// maxNotes bounds what one takeover writes about those that it evicts.
const maxNotes = 200 << 10

// brief shortens notes about very many that are evicted at once, so that they
// fit: each still tells its victim why, and by which request.
func brief(notes []evictionNote) []evictionNote {
	if len(znode.Encode(notes)) <= maxNotes {
		return notes
	}
	const few = 32 // bytes of a name
	short := slices.Clone(notes)
	for i := range short {
		n := &short[i]
		n.Owner = ""
		if by := beginning(n.By, few); by != n.By {
			n.By = by + "…"
		}
		if n.Override != nil {
			n.Override = &Mark{ID: beginning(n.Override.ID, few)}
		}
	}
	return short
}

// beginning returns as much of a text as takes no more than so many bytes in a
// record, where some characters take six.
func beginning(text string, most int) string {
	if len(text) > most {
		text = znode.Valid(text[:most])
	}
	for len(znode.Encode(text))-len(`""`) > most {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return text
}
