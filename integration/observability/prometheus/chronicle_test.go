package prometheus

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A chronicle is what the guards' own events say, against which Prometheus'
// answers are held.
type chronicle struct {
	mu     sync.Mutex
	plays  bool // it is no rehearsal any more
	waits  []measurement
	holds  []measurement
	before struct{ waits, holds []measurement } // of the rehearsal
	cleans []measurement
	freed  []measurement
	taken  map[string]bool      // who has taken the lock, by its ID
	sent   map[string]time.Time // when a request asked for the first time, by its ID
	asked  map[[2]string]int    // how often, by the classes of holder and of who asks
}

// A measurement is how long something took, and how it ended where events say so.
type measurement struct {
	class, how string
	seconds    float64
}

func newChronicle() *chronicle {
	return &chronicle{taken: map[string]bool{}, sent: map[string]time.Time{}, asked: map[[2]string]int{}}
}

func (c *chronicle) observe(_ context.Context, event lockguard.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	about := event.Subject
	if about.Class == tooMany {
		about.Class = metrics.OtherClass
	}
	switch e := event.Notice.(type) {
	case lockguard.Acquired:
		c.waits = append(c.waits, measurement{about.Class, "acquired", e.Waited.Seconds()})
		if at, ok := c.sent[about.ID]; ok {
			how := "graceful"
			if c.taken[about.ID] {
				how = "forced"
			}
			c.freed = append(c.freed, measurement{about.Class, how, about.At.Sub(at).Seconds()})
		}
	case lockguard.NotAcquired:
		c.waits = append(c.waits, measurement{about.Class, "timeout", e.Waited.Seconds()})
	case lock.TakenOver:
		c.taken[about.ID] = true
	case lock.PreemptSent:
		if _, ok := c.sent[about.ID]; !ok {
			c.sent[about.ID] = about.At
		}
		c.asked[[2]string{e.Holder.Class, about.Class}]++
	case lockguard.Released:
		how := "released"
		if e.Cause != nil {
			how = "preempted"
		}
		c.holds = append(c.holds, measurement{about.Class, how, e.Held.Seconds()})
	case lockguard.Lost:
		c.holds = append(c.holds, measurement{about.Class, "taken", e.Held.Seconds()})
	case lockguard.CleanupDone:
		c.cleans = append(c.cleans, measurement{about.Class, "", e.Took.Seconds()})
	default:
	}
}

// forget begins a new page: what was before is the rehearsal.
func (c *chronicle) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plays = true
	c.before.waits, c.before.holds = c.waits, c.holds
	c.waits, c.holds, c.cleans, c.freed = nil, nil, nil, nil
	clear(c.sent)
	clear(c.asked)
}

// primer has all that is rehearsed counted once more, as if it had taken no time.
// Prometheus adds to the increase of a counter what may have been before the first
// scrape in the window, but never to one that was 0 then. So all buckets of a histogram
// must have something in them beforehand, or a quantile depends on how long the
// rehearsal took: a bucket that was empty grows less than the ones above it.
func (c *chronicle) primer(measure lockguard.Observer) lockguard.Observer {
	return func(ctx context.Context, event lockguard.Event) {
		c.mu.Lock()
		rehearsed := !c.plays
		c.mu.Unlock()
		if at, measured := atOnce(event); rehearsed && measured {
			measure(ctx, at)
		}
		measure(ctx, event)
	}
}

// atOnce returns an event of another request, to which all happens in one moment; false
// for what is not measured.
func atOnce(event lockguard.Event) (lockguard.Event, bool) {
	event.ID, event.At = event.ID+" at once", time.Unix(0, 0)
	switch n := event.Notice.(type) {
	case lock.PreemptSent, lock.TakenOver, lockguard.CleanupStarted, lockguard.CleanupOverrun:
	case lockguard.Acquired:
		n.Waited = 0
		event.Notice = n
	case lockguard.NotAcquired:
		n.Waited = 0
		event.Notice = n
	case lockguard.CleanupDone:
		n.Took = 0
		event.Notice = n
	case lockguard.Released:
		n.Held = 0
		event.Notice = n
	case lockguard.Lost:
		n.Held = 0
		event.Notice = n
	default:
		return event, false
	}
	return event, true
}

// of returns the durations of one class, "" for all, and of one end, "" for any.
func of(all []measurement, class, how string) (seconds []float64) {
	for _, m := range all {
		if (class == "" || m.class == class) && (how == "" || m.how == how) {
			seconds = append(seconds, m.seconds)
		}
	}
	slices.Sort(seconds)
	return seconds
}

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}
