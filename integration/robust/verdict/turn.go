package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Times of the checks of the queue. They are generous: what is looked for goes on
// for as long as the queue lasts, or until clients read again on their own, which
// they do once a minute.
const (
	settled  = 500 * time.Millisecond // a hand-over under way when somebody joined the queue, or to several at a time
	leaving  = time.Second            // a request that fails leaves the queue before its call returns
	overlook = 3                      // that many may go first: in the race for a free lock each may lose
	idle     = 20 * time.Second       // a lock that is free, and somebody waits
)

// sorted returns all requests, granted or not, in the order of their calls.
func (c *chronicle) sorted() []*Hold {
	return slices.SortedFunc(maps.Values(c.holds), func(a, b *Hold) int {
		return cmp.Or(cmp.Compare(a.Invoked, b.Invoked), cmp.Compare(a.Who, b.Who))
	})
}

// waiter is a request that certainly stood in the queue, from one time to another.
type waiter struct {
	*Hold
	from, to time.Duration
}

// waiters returns those by scope.
func (c *chronicle) waiters(end time.Duration) map[string][]waiter {
	all := make(map[string][]waiter)
	for _, h := range c.sorted() {
		w := waiter{Hold: h, from: h.queued, to: cmp.Or(h.Granted, h.answered-leaving, c.killed[h.Client], end)}
		if h.answered == 0 && h.Granted == 0 {
			w.to = cmp.Or(c.killed[h.Client], end)
		}
		if h.queued != 0 && w.to > w.from {
			all[h.Scope] = append(all[h.Scope], w)
		}
	}
	return all
}

// turns checks that the lock goes to the more important first. Those who are less
// so may hold it already, or win a race for it when it is free; but not one after
// the other while the same request waits, connected.
func (c *chronicle) turns(holds []*Hold, waiters []waiter) (found []Violation) {
	for _, w := range waiters {
		var first []*Hold
		for _, h := range holds {
			if h.Priority < w.Priority && h.Granted > w.from+settled && h.Granted < w.to-settled &&
				c.quiet(h, h.Granted-settled, h.Granted) {
				first = append(first, h)
			}
		}
		if len(first) <= overlook || !c.quiet(w.Hold, w.from, w.to) {
			continue
		}
		found = append(found, Violation{
			Check: CheckTurn, Scope: w.Scope, At: first[0].Granted, Holds: append([]*Hold{w.Hold}, first...),
			Text: fmt.Sprintf("%s stood in the queue, and %d less important ones were granted the lock", w.Hold, len(first)),
		})
	}
	return found
}

// idles checks that no lock stays free while somebody waits, unless the servers
// were in trouble meanwhile. Somebody may hold it that was cut off before it heard
// of that, until its session ends.
func (c *chronicle) idles(holds []*Hold, waiters []waiter, end time.Duration) (found []Violation) {
	for _, w := range waiters {
		var busy []span
		for _, h := range holds {
			busy = append(busy, span{from: h.Granted, to: cmp.Or(h.Ended, end)})
		}
		busy = append(slices.Concat(busy, c.faults[""], c.faults[w.Client], w.spans), span{from: w.to, to: w.to})
		slices.SortFunc(busy, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		free := w.from
		for _, s := range busy {
			if gap := min(s.from, w.to) - free; gap > idle {
				found = append(found, Violation{
					Check: CheckTurn, Scope: w.Scope, At: free, Holds: []*Hold{w.Hold},
					Text: fmt.Sprintf("%s stood in the queue, and the lock was free for %s", w.Hold, gap),
				})
				break
			}
			free = max(free, s.to)
		}
	}
	return found
}
