package emergency

import (
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
)

// A view is what is in force up to the next change.
type view struct {
	set     override.Set
	active  []Active // likewise, in the order of the IDs
	next    time.Time
	changed chan struct{}
}

// look returns what is in force now. That costs no more than a look at the
// clock, and not even that when there is nothing.
func (d *Desk) look() *view {
	v := d.current.Load()
	if v.next.IsZero() || d.now().Before(v.next) {
		return v
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refreshLocked()
}

// refreshLocked works out what is in force. The view stays the same one while
// that does.
func (d *Desk) refreshLocked() *view {
	before := d.current.Load()
	var now time.Time
	if len(d.file)+len(d.posted)+len(before.active) > 0 { // else nothing ends: to ask for the servers' time costs a write
		now = d.now()
	}
	sources := make(map[string]Active)
	var all []override.Override
	ended := false
	put := func(a Active) {
		a.Until = a.Until.UTC()
		if !now.Before(a.Until) {
			ended = true
			return // else one that has ended would hide one that has not
		}
		all = append(all, a.Override)
		sources[a.ID] = a
	}
	for _, o := range d.file {
		put(Active{Override: o, Source: File})
	}
	for _, a := range d.within(d.posted) {
		put(a)
	}
	after := &view{changed: make(chan struct{})}
	after.set, after.next = override.InForce(all, now)
	known := make(map[string]Active, len(before.active))
	for _, a := range before.active {
		known[a.ID] = a
	}
	same := len(after.set) == len(before.set)
	for _, o := range after.set {
		a := sources[o.ID]
		if was, ok := known[o.ID]; ok && was.same(a) {
			a.Since = was.Since
		} else {
			a.Since, same = now, false
		}
		after.active = append(after.active, a)
	}
	if same {
		d.wakeLocked(before.next, now, ended)
		return before
	}
	d.current.Store(after)
	d.tell(known, after, now)
	close(before.changed)
	d.wakeLocked(after.next, now, ended)
	return after
}

// within returns what is within the limits of this process.
func (d *Desk) within(posted []Active) []Active {
	refused := make(map[string]bool)
	var all []Active
	for _, a := range posted {
		a.Source = ZooKeeper
		limits := d.limits
		limits.Now, limits.AllowEnded = a.PostedAt, true
		if a.PostedAt.IsZero() {
			limits.Now = d.now()
		}
		err := a.Validate(limits)
		if err == nil {
			all = append(all, a)
			continue
		}
		if key := a.key(); !d.refused[key] {
			d.log.Error("an override in ZooKeeper goes beyond what this process allows, and is left out",
				append(a.words(), "error", err)...)
		}
		refused[a.key()] = true
	}
	d.refused = refused
	return all
}

// trust is how long what is known of the servers' clock is taken for granted:
// the first contact may correct it by much.
const trust = time.Second

// wakeLocked has the desk judge again when the first override ends, and when one
// that has ended may turn out not to have.
func (d *Desk) wakeLocked(next, now time.Time, ended bool) {
	if d.wake != nil {
		d.wake.Stop()
		d.wake = nil
	}
	if next.IsZero() && ended {
		next = now.Add(trust)
	}
	if next.IsZero() || d.closed {
		return
	}
	wait := min(max(next.Sub(now), time.Millisecond), trust)
	d.wake = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.refreshLocked()
	})
}

// tell logs what has begun and what has ended.
func (d *Desk) tell(before map[string]Active, after *view, now time.Time) {
	for _, a := range after.active {
		was, had := before[a.ID]
		delete(before, a.ID)
		switch {
		case !had:
			d.log.Warn("override in force", a.words()...)
		case !was.same(a):
			d.log.Warn("override changed", a.words()...)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		a := before[id]
		why := "taken back"
		if !now.Before(a.Until) {
			why = "its time is over"
		}
		d.log.Warn("override is over", "override", a.ID, "kind", string(a.Kind), "source", string(a.Source), "why", why)
	}
}
