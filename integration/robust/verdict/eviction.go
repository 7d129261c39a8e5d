package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/priority"
)

// graceSlack is what times of the servers, in whole milliseconds, are off by.
const graceSlack = 5 * time.Millisecond

// early returns by how much a hold was evicted before the end of the grace that
// it was told, and whether it was told any. One that is asked twice, for its
// priority and for its lease, has until the earlier end.
func (h *Hold) early() (by time.Duration, told bool) {
	for _, ask := range h.asked {
		if ask.By == h.taker.Who && ask.At <= h.taker.Granted {
			if left := ask.Deadline - h.taker.Granted; !told || left < by {
				by, told = left, true
			}
		}
	}
	return max(by, 0), told
}

// graces checks that no holder is evicted early. Both count a grace by the
// servers' wall clocks: where these disagree, nothing follows.
func graces(holds []*Hold, skews []span) (found []Violation) {
	for _, h := range holds {
		if h.taker == nil ||
			slices.ContainsFunc(skews, func(s span) bool { return s.from <= h.taker.Granted && s.to >= h.Invoked }) {
			continue
		}
		if by, _ := h.early(); by > graceSlack {
			found = append(found, Violation{
				Check: CheckGrace, Scope: h.Scope, At: h.taker.Granted, Holds: []*Hold{h, h.taker},
				Text: fmt.Sprintf("%s was evicted %s before the end of the grace that it was told", h, by),
			})
		}
	}
	return found
}

// evicted checks that an evicted holder learns of it: by the servers, soon, or, when
// it is cut off, by its own clock, within a session timeout.
func (c *chronicle) evicted(holds []*Hold) (found []Violation) {
	for i, h := range holds {
		by := h.taker
		if by == nil && h.undone { // the next who was told that it holds
			if n := slices.IndexFunc(holds[i+1:], func(o *Hold) bool {
				return h.excludes(o) && o.taker == nil && o.Excuse == None
			}); n >= 0 {
				by = holds[i+1+n]
			}
		}
		if by == nil || h.Excuse != None {
			continue
		}
		end := cmp.Or(h.Ended, h.Loose)
		late, limit := end-by.Granted, h.window
		if c.quiet(h, by.Granted, by.Granted+limit) {
			// it may have been evicted before it heard that it held
			limit = min(limit, h.reaction()+max(0, h.Granted-by.Granted))
		}
		if late <= limit ||
			slices.ContainsFunc(h.spans, func(s span) bool { return s.from <= end && s.to >= by.Granted-h.window }) {
			continue
		}
		found = append(found, Violation{
			Check: CheckEvicted, Scope: h.Scope, At: by.Granted, Holds: []*Hold{h, by},
			Text: fmt.Sprintf("%s was evicted, and still had not been told %s later", h, late),
		})
	}
	return found
}

// outranks reports whether a request may preempt a holder for its priority.
func (h *Hold) outranks(o *Hold) bool {
	return !h.request.Never && h.Priority >= o.Priority+int32(max(1, h.request.Delta))
}

// grace is what a holder has when that request preempts it.
func (h *Hold) grace(by *Hold) time.Duration {
	if by.request.Forceful && by.request.Waiting != nil {
		return min(h.request.Cleanup, *by.request.Waiting)
	}
	return h.request.Cleanup
}

// rights checks that no holder is preempted, or evicted, by one that may not:
// that is not more important, while the lease runs. Leases are counted by the
// servers' wall clocks, and begin no earlier than the call. A request reads that
// clock when it queues, and goes by it for as long as it waits.
func (c *chronicle) rights(holds []*Hold) (found []Violation) {
	skewed := func(h *Hold) bool {
		return slices.ContainsFunc(c.skews, func(s span) bool { return s.to >= h.Invoked })
	}
	for _, h := range holds {
		if h.request == nil || skewed(h) {
			continue
		}
		fail := func(at time.Duration, by *Hold, what string) {
			found = append(found, Violation{Check: CheckRight, Scope: h.Scope, At: at, Holds: []*Hold{h, by}, Text: what})
		}
		for _, ask := range h.everAsks {
			if by := c.holds[ask.By]; by != nil && by.request != nil {
				if what := h.wrongAsk(ask, by, skewed(by)); what != "" {
					fail(ask.At, by, what)
				}
			}
		}
		t := h.taker
		if t == nil || t.request == nil {
			continue
		}
		if !skewed(t) && (!t.request.Forceful || !t.outranks(h)) && t.Granted < h.leaseEnd-graceSlack {
			fail(t.Granted, t, fmt.Sprintf("%s was evicted by %s, which may not", h, t))
		}
		if c.unasked(h, t) {
			fail(t.Granted, t, fmt.Sprintf("%s was evicted by %s, and had not been preempted", h, t))
		}
	}
	return found
}

// wrongAsk says why a request may not preempt a holder then; "" if it may. With
// skewed, the clock that it goes by was wrong.
func (h *Hold) wrongAsk(ask history.Event, by *Hold, skewed bool) string {
	switch lease := ask.Reason == string(priority.LeaseExpired); {
	case lease && !skewed && ask.At < h.leaseEnd-graceSlack:
		return fmt.Sprintf("%s was preempted by %s for its lease, which had %s left", h, by, h.leaseEnd-ask.At)
	case lease:
	case !by.outranks(h):
		return fmt.Sprintf("%s was preempted by %s, which is not more important", h, by)
	case !skewed && ask.At < h.Invoked+h.request.MinRuntime-graceSlack:
		return fmt.Sprintf("%s was preempted by %s within its minimum runtime", h, by)
	}
	return ""
}

// unasked reports whether a holder was never preempted by the request that has evicted
// it, although there was time to tell it: it held, and the grace begins with the asking.
func (c *chronicle) unasked(h, taker *Hold) bool {
	told := slices.ContainsFunc(h.everAsks, func(e history.Event) bool { return e.By == taker.Who })
	since := max(h.Granted, taker.Granted-h.grace(taker))
	holding := h.Ended == 0 || h.Ended >= taker.Granted || h.Why != Released
	return !told && holding && taker.Granted-since >= h.window/30 && c.quiet(h, since, taker.Granted) &&
		c.quiet(taker, since, taker.Granted)
}
