package metrics

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
)

// Cluster makes the instruments that tell of all locks of the cluster, whichever
// process has them. snapshot is asked for each collection (live.Board.Now), now is
// the servers' clock (lock.Client.Now).
//
// Every process that has them reports the same values, so that the maximum over
// processes is the truth, not the sum. While ZooKeeper does not answer, or not
// everything has been read yet, only lockkeeper.cluster.visible is reported: stale
// values are not shown.
//
// A class has its series from the moment that it is declared or was seen first; those
// without holders and waiters are 0.
func (l *Locks) Cluster(snapshot func() *live.Snapshot, now func() time.Time) error {
	m := newMaker(l.meter)
	c := &cluster{
		locks: l, snapshot: snapshot, now: now,
		holders: m.gauge(holderCount), waiters: m.gauge(waiterCount), overdue: m.gauge(overdueHolders),
		visible: m.gauge(clusterVisible), oldestWait: m.seconds(oldestWait), oldestHold: m.seconds(oldestHold),
		byMode: newFamily(lockClass, lockMode), byClass: newFamily(lockClass),
		present: map[string]bool{}, shared: map[string]bool{},
	}
	_, err := m.observe(c.observe)
	return err
}

type cluster struct {
	locks    *Locks
	snapshot func() *live.Snapshot
	now      func() time.Time

	holders, waiters, overdue, visible metric.Int64ObservableGauge
	oldestWait, oldestHold             metric.Float64ObservableGauge
	byMode, byClass                    *family

	mu      sync.Mutex      // collections may overlap
	present map[string]bool // classes that were ever seen, beside those that are declared
	shared  map[string]bool // those that were ever seen in shared mode
}

// A tally is what is counted of a class.
type tally struct {
	holders, waiters       map[priority.Mode]int64
	overdue                int64     // of the holders, those whose lease is over
	oldestWait, oldestHold time.Time // zero: none
}

func (c *cluster) observe(_ context.Context, o metric.Observer) error {
	seen := c.snapshot()
	if seen == nil || !seen.Complete || seen.Blind != nil {
		o.ObserveInt64(c.visible, 0)
		return nil
	}
	o.ObserveInt64(c.visible, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for class, t := range c.count(seen, now) {
		for _, mode := range []priority.Mode{priority.Exclusive, priority.Shared} {
			if mode == priority.Shared && !c.shared[class] {
				continue
			}
			set := c.byMode.of(values{class, mode.String()})
			o.ObserveInt64(c.holders, t.holders[mode], set)
			o.ObserveInt64(c.waiters, t.waiters[mode], set)
		}
		set := c.byClass.of(values{class})
		o.ObserveInt64(c.overdue, t.overdue, set)
		o.ObserveFloat64(c.oldestWait, age(t.oldestWait, now), set)
		o.ObserveFloat64(c.oldestHold, age(t.oldestHold, now), set)
	}
	return nil
}

// count adds up every class that there is or was.
func (c *cluster) count(seen *live.Snapshot, now time.Time) map[string]*tally {
	all := make(map[string]*tally)
	of := func(class string) *tally {
		if all[class] == nil {
			all[class] = &tally{holders: map[priority.Mode]int64{}, waiters: map[priority.Mode]int64{}}
		}
		return all[class]
	}
	for _, class := range c.locks.classes.promised() {
		of(class)
	}
	for class := range c.present {
		of(class)
	}
	meet := func(who live.Contender) *tally {
		class := c.locks.classes.of(who.Class)
		c.present[class] = true
		if who.Mode == priority.Shared {
			c.shared[class] = true
		}
		return of(class)
	}
	for _, lock := range seen.Locks {
		for _, h := range lock.Holders {
			t := meet(h.Contender)
			t.holders[h.Mode]++
			t.oldestHold = older(t.oldestHold, h.Since)
			if time.Duration(h.LeaseLeft)*time.Millisecond <= now.Sub(lock.At) {
				t.overdue++
			}
		}
		for _, w := range lock.Waiters {
			t := meet(w.Contender)
			t.waiters[w.Mode]++
			t.oldestWait = older(t.oldestWait, w.WaitingSince)
		}
	}
	return all
}

func older(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// age is 0 for the zero time.
func age(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(0, now.Sub(since).Seconds())
}
