package verdict

import (
	"fmt"
	"slices"
	"time"
)

// A Gap is the time from the loss of a hold, as its holder was told, to the next
// conflicting grant, as that one was told. Negative: the grant came first.
type Gap struct {
	Length        time.Duration
	Who, Next     string // the requests
	Client, Scope string
	Told, Granted time.Duration
}

// lossSession is the reason of a loss to a silence of ZooKeeper.
const lossSession Why = "session"

// next returns the first of the later holds that conflicts with this one, as it was
// told; nil: none.
func (h *Hold) next(later []*Hold) *Hold {
	i := slices.IndexFunc(later, func(o *Hold) bool {
		return h.excludes(o) && (o.taker == nil || o.taker.Granted > o.Granted) // it may hear of both at once
	})
	if i < 0 {
		return nil
	}
	return later[i]
}

// gap measures the margin that was left of a hold, if the end of its session was
// what gave the lock to the next one: there is no excuse and no takeover, and no
// request of its own client that could give the lock up went to a server meanwhile.
func (c *chronicle) gap(h *Hold, later []*Hold) (Gap, bool) {
	next := h.next(later)
	switch {
	case h.Why != lossSession || h.Excuse != None || h.taker != nil || h.undone:
		return Gap{}, false
	case next == nil || next.Excuse == Pause && next.Loose <= next.Granted:
		return Gap{}, false
	}
	from, to := min(h.Ended, next.Granted), max(h.Ended, next.Granted)
	if !slices.ContainsFunc(c.silences[h.Client], func(s span) bool { return s.from <= from && s.to >= to }) {
		return Gap{}, false
	}
	return Gap{
		Length: next.Granted - h.Ended, Who: h.Who, Next: next.Who, Client: h.Client, Scope: h.Scope, Told: h.Ended,
		Granted: next.Granted,
	}, true
}

// margins checks that a holder that loses the lock to a silence of ZooKeeper learns
// of that the margin before another is granted. The machine may have notified it
// late, by less than what counts as starved.
func (c *chronicle) margins(holds []*Hold, s Settings) (found []Violation) {
	if s.Margin == 0 {
		return nil
	}
	for i, h := range holds {
		g, ok := c.gap(h, holds[i+1:])
		if !ok || g.Length >= s.Margin-s.Noise {
			continue
		}
		next := h.next(holds[i+1:])
		found = append(found, Violation{
			Check: CheckMargin, Scope: h.Scope, At: next.Granted, Holds: []*Hold{h, next},
			Text: fmt.Sprintf("%s was told that it lost the lock, and %s was granted it %s later: the margin is %s, "+
				"and the machine may take %s of it", h, next, g.Length, s.Margin, s.Noise),
		})
	}
	return found
}
