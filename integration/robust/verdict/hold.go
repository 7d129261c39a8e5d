package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// A Hold is a lock that somebody was told to hold, from Granted to Ended.
type Hold struct {
	Who, Client, Scope string
	Shared             bool // from the beginning
	Guarded            bool
	Terms              string
	Priority           int32
	Token              int64 // 0: it was never known

	Invoked   time.Duration // Acquire was called
	Granted   time.Duration // it has returned
	Softening time.Duration // Downgrade was called; 0: never
	Ended     time.Duration // the holder was told, or gave up; 0: it goes on
	Why       Why           // it ended
	By        string        // who has taken it, as the holder was told

	// Loose is from when on the lock may have been somebody else's although the
	// holder did not know, by no fault of the product: it did not run, or
	// others have closed its session. Ended where there is no excuse, the end of
	// the history where the hold goes on.
	Loose  time.Duration
	Excuse Excuse

	Evicts  []string // who was evicted for this grant
	taker   *Hold    // by whom it was evicted
	seized  bool     // somebody said that it had taken over from it
	undone  bool     // by an attempt that died before its client learned that it held
	request *history.Request

	queued   time.Duration   // it was told that it stands in the queue, for the last time; 0: never
	answered time.Duration   // the call has returned, without a grant
	answer   history.Event   // that
	released history.Event   // what became of the release
	leaseEnd time.Duration   // no lease ends before that; 0: not known
	seizures []history.Event // Took
	requeued time.Duration   // when its last attempt began, if that is not the first; 0: it is
	spans    []span          // of its process
	window   time.Duration
	asked    []history.Event // that stand
	everAsks []history.Event
	uses     []history.Event
}

// Why a hold has ended.
type Why string

// The ways in which a hold ends.
const (
	Open     Why = ""         // it has not
	Released Why = "released" // the holder gave it back
	Killed   Why = "killed"   // the process was killed
	// The rest are reasons for a loss, as the holder was told: "session", "taken" ...
)

// Excuse is why a holder may have believed too long.
type Excuse string

// The excuses.
const (
	None    Excuse = ""
	Pause   Excuse = "paused"  // the process was stopped, or starved
	Expired Excuse = "expired" // others closed its session
)

// span is a time in which something was out of order with a process.
type span struct {
	from, to time.Duration
	what     Excuse
}

// A chronicle is a history, by requests.
type chronicle struct {
	holds    map[string]*Hold // by Who; also those that were not granted (yet)
	order    []*Hold          // granted ones, by Granted
	spans    map[string][]span
	killed   map[string]time.Duration
	faults   map[string][]span // of clients and their networks; of "": the servers
	silences map[string][]span // of clients: they gave nothing up
	slow     []span            // times in which a server was slow to answer
	skews    []span            // times in which the servers' wall clocks disagreed
	failed   int
	requests int
	asks     int
	losses   map[string]int
	stalls   int
	cannot   []string
	broken   []string // clients that could not be closed
}

// read sorts events, which are in the order of their stamps, into holds.
func read(events []history.Event, window time.Duration) *chronicle {
	c := &chronicle{
		holds: make(map[string]*Hold), spans: make(map[string][]span), killed: make(map[string]time.Duration),
		faults: make(map[string][]span), silences: make(map[string][]span), losses: make(map[string]int),
	}
	for _, e := range events {
		c.take(e)
	}
	for _, h := range c.holds {
		h.spans, h.window = c.spans[h.Client], window
		if h.Granted == 0 {
			continue
		}
		c.order = append(c.order, h)
		if at, ok := c.killed[h.Client]; ok {
			h.end(at, Killed)
		}
		h.excuse(events[len(events)-1].At)
	}
	slices.SortFunc(c.order, func(a, b *Hold) int {
		return cmp.Or(cmp.Compare(a.Granted, b.Granted), cmp.Compare(a.Who, b.Who))
	})
	for _, h := range c.holds {
		for _, e := range h.seizures {
			for i, who := range e.Of {
				if victim := c.holds[who]; victim != nil {
					victim.seized = true
				}
				c.evict(c.holds[who], e.Tokens[i], h, e.At)
			}
		}
	}
	for _, h := range c.order {
		if h.By != "" && h.taker == nil && c.holds[h.By] != nil {
			c.evict(h, h.Token, c.holds[h.By], 0)
		}
	}
	return c
}

// evict notes that the holder with a token was evicted, and by whom: a victim
// that was told that it held.
func (c *chronicle) evict(victim *Hold, token int64, taker *Hold, at time.Duration) {
	if victim == nil || victim.Granted == 0 || victim.Token != 0 && victim.Token != token {
		return // it was another attempt of that request, which its client never learned of
	}
	if taker.Granted == 0 || at <= taker.requeued && taker.requeued != 0 {
		// The attempt that has taken it died, or was given up, before its client
		// learned that it held: the lock may have been others' since then.
		if victim.Ended != 0 {
			victim.Loose = min(victim.Loose, max(victim.Granted, taker.Invoked))
		}
		victim.undone = true
		return
	}
	victim.taker = taker
	if !slices.Contains(taker.Evicts, victim.Who) {
		taker.Evicts = append(taker.Evicts, victim.Who)
	}
}

func (c *chronicle) take(e history.Event) {
	switch e.Kind {
	case history.Killed:
		c.killed[e.Client] = e.At
	case history.Stalled:
		c.stalls++
		c.spans[e.Client] = append(c.spans[e.Client], span{e.From, e.At, Pause})
	case history.Paused:
		c.spans[e.Client] = append(c.spans[e.Client], span{e.From, e.At, Pause})
	case history.Expired:
		c.spans[e.Client] = append(c.spans[e.Client], span{e.From, e.At, Expired})
	case history.Faulty:
		c.faults[e.Client] = append(c.faults[e.Client], span{from: e.From, to: e.At})
	case history.Silent:
		c.silences[e.Client] = append(c.silences[e.Client], span{from: e.From, to: e.At})
	case history.Slow:
		c.slow = append(c.slow, span{from: e.From, to: e.At})
	case history.Skewed:
		c.skews = append(c.skews, span{from: e.From, to: e.At})
	case history.Cannot:
		c.cannot = append(c.cannot, e.Client+": "+e.Err)
	case history.Stopped:
		if e.Err != "" {
			c.broken = append(c.broken, fmt.Sprintf("client %s was not closed: %s", e.Client, e.Err))
		}
	case history.Started:
	default:
		c.request(e)
	}
}

func (c *chronicle) request(e history.Event) { //nolint:cyclop // one case for each kind of event
	h := c.holds[e.Who]
	if h == nil {
		h = &Hold{Who: e.Who, Client: e.Client, Scope: e.Scope}
		c.holds[e.Who] = h
	}
	switch e.Kind {
	case history.Invoked:
		c.requests++
		h.Invoked, h.Shared, h.Guarded, h.Priority, h.Terms = e.At, e.Shared, e.Guarded, e.Priority, e.Terms
		if h.request = e.Request; h.request != nil {
			h.leaseEnd = e.At + h.request.Lease
		}
	case history.Granted:
		h.Granted = e.At
	case history.Tokened:
		h.Token = e.Token
	case history.Failed:
		c.failed++
		h.answered, h.answer = e.At, e
	case history.Queued:
		h.queued = e.At
	case history.Extending:
		h.leaseEnd = min(h.leaseEnd, e.Deadline)
	case history.Took:
		h.seizures = append(h.seizures, e)
	case history.Requeued:
		h.requeued, h.queued = e.At, 0
	case history.Asked:
		c.asks++
		h.asked, h.everAsks = append(h.asked, e), append(h.everAsks, e)
	case history.Withdrawn: // by all
		h.asked = nil
	case history.Lost:
		c.losses[e.Reason]++
		h.end(e.At, Why(e.Reason))
		h.By = e.By
	case history.Releasing:
		h.end(e.At, Released)
	case history.Done: // of a guarded one: the last counts, for the hooks run under the lock
		if h.Why == Released {
			h.Ended = e.At
		}
		h.end(e.At, Released)
	case history.Downgrading:
		h.Softening = e.At
	case history.Wrote, history.Refused, history.Read:
		h.uses = append(h.uses, e)
	case history.Released:
		h.released = e
	default: // Downgraded: nothing depends on it
	}
}

// end ends the hold, if nothing else has before.
func (h *Hold) end(at time.Duration, why Why) {
	if h.Ended == 0 || at < h.Ended {
		h.Ended, h.Why = at, why
	}
}

// excuse looks for what kept the holder from knowing in time that it had lost: a
// pause that had ended just before, or the end of its session at the hand of
// others, which it finds out at its own deadline at the latest. It is none for what
// was granted after that. Pauses between which the process hardly ran are one. A
// hold that goes on at the end of the history may be about to find out.
func (h *Hold) excuse(now time.Duration) {
	end := cmp.Or(h.Ended, now)
	h.Loose = end
	for more := true; more; {
		more = false
		for _, s := range h.spans {
			till, after := h.Loose, h.reaction()
			if s.what == Expired {
				if h.Granted > s.to+after {
					continue
				}
				till, after = end, after+h.window
			}
			if s.from <= till && s.to >= max(till-after, h.Invoked) && s.from < h.Loose {
				h.Loose, h.Excuse, h.Ended, more = s.from, s.what, end, true
			}
		}
	}
}

// reaction is how long a process may take, once it runs again, to find out what has
// become of its locks: its timers are due. It is more than what counts as starved.
func (h *Hold) reaction() time.Duration { return h.window / 6 }

// quiet reports whether nothing was wrong with the servers or with a process and
// its network from one time to another, nor shortly before: connections are
// whole again, and clocks have recovered from what was. Servers that are merely slow have nothing to recover from.
func (c *chronicle) quiet(h *Hold, from, to time.Duration) bool {
	if slices.ContainsFunc(c.slow, func(s span) bool { return s.from <= to && s.to >= from }) {
		return false
	}
	from -= 2 * h.window
	in := func(s span) bool { return s.from <= to && s.to >= from }
	return !slices.ContainsFunc(c.faults[""], in) && !slices.ContainsFunc(c.faults[h.Client], in) &&
		!slices.ContainsFunc(h.spans, in)
}

func (h *Hold) String() string {
	mode := "exclusive"
	if h.Shared {
		mode = "shared"
	}
	return fmt.Sprintf("%s %s priority %d token %d", h.Who, mode, h.Priority, h.Token)
}

// Tale tells the hold in one line, with times since the machine booted.
func (h *Hold) Tale() string {
	s := func(d time.Duration) string { return fmt.Sprintf("%.4f", d.Seconds()) }
	text := fmt.Sprintf("%s: invoked %s, granted %s", h, s(h.Invoked), s(h.Granted))
	if h.Softening != 0 {
		text += ", downgrades " + s(h.Softening)
	}
	switch h.Ended {
	case 0:
		text += ", goes on"
	default:
		text += fmt.Sprintf(", ended %s (%s)", s(h.Ended), h.Why)
	}
	if h.Excuse != None {
		text += fmt.Sprintf(", %s since %s", h.Excuse, s(h.Loose))
	}
	if h.By != "" {
		text += ", taken by " + h.By
	}
	if len(h.Evicts) > 0 {
		text += fmt.Sprintf(", evicts %v", h.Evicts)
	}
	return text + " [" + h.Terms + "]"
}
