package verdict

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// Figures are what can be counted in a history. Those of several histories can
// be added up.
type Figures struct {
	Processes    int
	Requests     int // calls of Acquire and Do
	Grants       int
	Shared       int // of them
	Guarded      int // likewise, through package lockguard
	Failed       int // calls that returned without a grant
	Asked        int // times that a holder was preempted
	Takeovers    int
	Downgrades   int
	Stalls       int // times that a process did not run although the suite had not stopped it
	Losses       map[string]int
	Ends         map[string]int // of holds, by Why; Excuse apart
	Excused      map[string]int // holds, by Excuse: nothing follows from what they overlap with
	Writes       int            // that the resource accepted
	Reads        int
	RefusedLate  int // writes that the resource refused to those who had lost
	AcceptedLate int // writes of those who had lost, before a newer holder had written
	Scopes       int

	// Overlaps are by how much the end of one hold, as its holder was told, came
	// after the next conflicting grant, as that one was told: by how the hold
	// ended. Negative is as it should be.
	Overlaps map[string]Spread

	// Margins are of holds that were lost to a silence of ZooKeeper: how long after
	// their holder was told the end of the session gave the lock to the next one.
	Margins Spread
	Least   *Gap // of these; nil: there is none
}

// A Spread is how often there was what, in tenths of a millisecond, rounded up.
type Spread map[int64]int

const tenth = 100 * time.Microsecond

// Add counts one.
func (s Spread) Add(d time.Duration) {
	s[int64(math.Ceil(float64(d)/float64(tenth)))]++
}

// Count returns of how many the spread is.
func (s Spread) Count() (n int) {
	for _, k := range s {
		n += k
	}
	return n
}

// Percentile returns the smallest value that p percent do not exceed; 0 when
// there is none.
func (s Spread) Percentile(p float64) time.Duration {
	rank, seen := int(math.Ceil(p/100*float64(s.Count()))), 0
	for _, n := range slices.Sorted(maps.Keys(s)) {
		if seen += s[n]; seen >= max(rank, 1) {
			return time.Duration(n) * tenth
		}
	}
	return 0
}

// How a hold has ended, for Figures.Overlaps.
const (
	OverlapReleased = "released"                               // it was given back
	OverlapLost     = "lost, told before"                      // cut off: the promise
	OverlapKilled   = "process killed"                         // told nothing any more
	OverlapTaken    = "taken over, had been asked"             // by force, after a grace
	OverlapUnasked  = "taken over, had not heard"              // cut off from the preemption, or without a grace
	OverlapPaused   = "process stopped or starved"             // only the token protects
	OverlapExpired  = "session closed by others"               // likewise
	OverlapEarly    = "taken over before the told grace ended" // by how much; a part of those who had been asked
)

func (c *chronicle) figures(events []history.Event, scopes map[string][]*Hold) Figures {
	f := Figures{
		Requests: c.requests, Grants: len(c.order), Failed: c.failed, Asked: c.asks, Stalls: c.stalls, Losses: c.losses,
		Ends: make(map[string]int), Excused: make(map[string]int), Overlaps: make(map[string]Spread), Scopes: len(scopes),
		Margins: make(Spread),
	}
	for _, e := range events {
		switch {
		case e.Kind == history.Started:
			f.Processes++
		case e.Kind == history.Wrote && e.Late:
			f.AcceptedLate++
		case e.Kind == history.Wrote:
			f.Writes++
		case e.Kind == history.Read:
			f.Reads++
		case e.Kind == history.Refused && e.Late:
			f.RefusedLate++
		case e.Kind == history.Took:
			f.Takeovers++
		case e.Kind == history.Downgrading:
			f.Downgrades++
		}
	}
	for _, holds := range scopes {
		for i, h := range holds {
			if h.Shared {
				f.Shared++
			}
			if h.Guarded {
				f.Guarded++
			}
			f.Ends[string(h.Why)]++
			if h.Excuse != None {
				f.Excused[string(h.Excuse)]++
			}
			if h.Ended != 0 {
				f.overlap(h, holds[i+1:])
			}
			if g, ok := c.gap(h, holds[i+1:]); ok {
				f.Margins.Add(g.Length)
				f.least(&g)
			}
		}
	}
	return f
}

// overlap compares the end of a hold with the next grant that conflicts.
func (f *Figures) overlap(h *Hold, later []*Hold) {
	next := h.next(later)
	if next == nil {
		return
	}
	how := OverlapLost
	switch {
	case h.Excuse == Pause || next.Excuse == Pause && next.Loose <= next.Granted:
		how = OverlapPaused
	case h.Excuse == Expired:
		how = OverlapExpired
	case h.taker != nil:
		next = h.taker
		how = OverlapUnasked
		if by, told := h.early(); told {
			how = OverlapTaken
			if by > 0 {
				f.add(OverlapEarly, by)
			}
		}
	case h.Why == Released:
		how = OverlapReleased
	case h.Why == Killed:
		how = OverlapKilled
	}
	f.add(how, h.Ended-next.Granted)
}

func (f *Figures) add(how string, d time.Duration) {
	if f.Overlaps[how] == nil {
		f.Overlaps[how] = make(Spread)
	}
	f.Overlaps[how].Add(d)
}

// least keeps the least gap.
func (f *Figures) least(g *Gap) {
	if g != nil && (f.Least == nil || g.Length < f.Least.Length) {
		f.Least = g
	}
}

// Merge adds other figures to these.
func (f *Figures) Merge(o Figures) {
	for _, n := range []struct {
		to   *int
		from int
	}{
		{&f.Processes, o.Processes},
		{&f.Requests, o.Requests},
		{&f.Grants, o.Grants},
		{&f.Shared, o.Shared},
		{&f.Guarded, o.Guarded},
		{&f.Failed, o.Failed},
		{&f.Asked, o.Asked},
		{&f.Takeovers, o.Takeovers},
		{&f.Downgrades, o.Downgrades},
		{&f.Stalls, o.Stalls},
		{&f.Writes, o.Writes},
		{&f.Reads, o.Reads},
		{&f.RefusedLate, o.RefusedLate},
		{&f.AcceptedLate, o.AcceptedLate},
		{&f.Scopes, o.Scopes},
	} {
		*n.to += n.from
	}
	f.Margins = merge(f.Margins, o.Margins)
	f.least(o.Least)
	f.Losses, f.Ends, f.Excused = merge(f.Losses, o.Losses), merge(f.Ends, o.Ends), merge(f.Excused, o.Excused)
	all := make(map[string]Spread)
	for _, m := range []map[string]Spread{f.Overlaps, o.Overlaps} {
		for how, s := range m {
			all[how] = merge(all[how], s)
		}
	}
	f.Overlaps = all
}

func merge[M ~map[K]int, K comparable](a, b M) M {
	sum := make(M)
	for _, m := range []M{a, b} {
		for k, n := range m {
			sum[k] += n
		}
	}
	return sum
}
