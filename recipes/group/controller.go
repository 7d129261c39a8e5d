package group

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A controller decides who holds what, as long as its participant is the first.
// That there is one at a time is for peace alone: two would hinder each other,
// but every write fails that was not decided on the last assignment.
type controller struct {
	inc  *incarnation
	wake chan struct{}

	// What it has read. Its goroutine's alone, but for the news.
	a        *groupAssignment
	version  int32
	spec     Spec
	declared map[string]bool
	specAt   int32
	peers    peers
	watches  map[string]*peerWatch // by guid

	placeNews, specNews, listNews atomic.Bool
	specWatch, listWatch          zkclient.Watcher
	known                         atomic.Int32 // version of the assignment

	patience patience
	question *question     // that the strategy thinks about; nil: it was not asked
	thought  time.Duration // how long that may take
	moment   time.Duration // how long it is waited for each time
	retried  bool          // the strategy that failed for an earlier controller was asked again
	round    *groupRound
}

// peerWatch is what the controller knows of one participant's node.
type peerWatch struct {
	path string
	w    zkclient.Watcher
	news atomic.Bool
}

// groupLongestLinger is how long a controller waits for news to gather at most.
const groupLongestLinger = 100 * time.Millisecond

// groupRound is what it takes to bring a plan about.
type groupRound struct {
	since  time.Time
	writes int
	moves  int
	news   bool // a lock was granted or revoked, or is to be
}

func newController(inc *incarnation) *controller {
	c := &controller{
		inc: inc, wake: make(chan struct{}, 1), peers: peers{}, watches: map[string]*peerWatch{},
		thought: groupLongestThought, moment: groupLongestLinger,
	}
	c.specWatch, c.listWatch = c.note(&c.specNews), c.note(&c.listNews)
	c.known.Store(-1)
	c.placeNews.Store(true)
	c.specNews.Store(true)
	c.listNews.Store(true)
	return c
}

func (c *controller) note(news *atomic.Bool) zkclient.Watcher {
	return func(zkclient.WatchKind) {
		news.Store(true)
		c.poke()
	}
}

func (c *controller) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// heard notes which version of the assignment is current.
func (c *controller) heard(version int32) {
	if version > c.known.Load() {
		c.placeNews.Store(true)
		c.poke()
	}
}

func (c *controller) run() {
	inc := c.inc
	inc.m.tell(Controller{Gained: true})
	defer inc.m.tell(Controller{})
	defer func() {
		c.drop()
		inc.s.Unwatch(inc.m.g.path, &c.specWatch)
		inc.s.UnwatchChildren(inc.m.g.members(), &c.listWatch)
		for _, w := range c.watches {
			inc.s.Unwatch(w.path, &w.w)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		start := time.Now()
		wait, err := c.turn()
		// What released one lock is likely to release others: as long as it takes
		// to read and write all anyway.
		linger := min(max(time.Since(start), groupLinger), groupLongestLinger)
		switch {
		case inc.ctx.Err() != nil:
			return
		case err == nil:
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrSessionOver), errors.Is(err, errGroupLost):
			_ = inc.gone("its session has ended")
			return
		default:
			inc.m.tell(Fault{Err: err})
			wait = time.Second
		}
		if wait == 0 {
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-c.wake:
			if err != nil {
				continue
			}
			timer.Reset(linger)
			select {
			case <-timer.C:
			case <-inc.ctx.Done():
			}
		case <-timer.C:
		case <-inc.ctx.Done():
		case <-inc.s.Over():
		}
	}
}

// turn reads what is new, decides, and writes once. It returns how long to wait
// for news; 0: for ever.
func (c *controller) turn() (wait time.Duration, err error) {
	if err := c.read(); err != nil {
		return 0, err
	}
	now := time.Now()
	next := c.a.clone()
	next.reap(c.peers)
	live := c.peers.standing(c.spec.Participants)
	names := slices.Sorted(maps.Keys(live))
	orphans := next.orphans(&c.spec, live)
	c.patience.observe(now, names, next.live, len(orphans) > 0)

	under, complete := next.clone().advance(&c.spec, c.declared, live)
	wanted := next.spec != c.specAt || next.more && complete && !under || next.fault != "" && !c.retried
	kind, wait := c.patience.verdict(now, c.spec.Debounce, wanted)
	due := wanted || !c.patience.pending.IsZero()
	if c.peers.deserted() { // what was planned is what they come back to
		kind, wait, due = planNothing, 0, false
	}
	kind, names, got := c.consult(kind, due, names)
	if c.inc.ctx.Err() != nil {
		return 0, errGroupLost
	}
	changed := false
	var failed *StrategyFailed
	if kind != planNothing {
		changed, failed = c.plan(next, kind, live, names, orphans, got)
	}
	advanced, complete := next.advance(&c.spec, c.declared, live)
	if changed || advanced {
		if err := c.publish(next, now, changed, advanced); err != nil {
			return 0, err
		}
	}
	c.retried = c.retried || kind == planAll
	if failed != nil {
		c.inc.m.tell(*failed)
	}
	if complete && c.round != nil {
		c.endRound(failed == nil)
	}
	if kind != planNothing || advanced {
		return time.Nanosecond, nil // there may be more to decide
	}
	return wait, nil
}

// publish writes next, which differs by a new plan (changed) or by a step towards
// the old one (advanced). A round begins now unless one has begun.
func (c *controller) publish(next *groupAssignment, now time.Time, changed, advanced bool) error {
	if c.round == nil {
		c.round = &groupRound{since: now}
	}
	planned := next.generation - c.a.generation
	if err := c.write(next); err != nil {
		return err
	}
	c.round.news = c.round.news || advanced || planned > 0
	if planned > 0 {
		c.round.moves += next.moved
	}
	if changed {
		c.patience.planned()
	}
	return nil
}

// endRound ends the round, and tells if it was a success that changed something.
func (c *controller) endRound(success bool) {
	if c.round.news && success {
		c.inc.m.tell(RoundDone{
			Generation: c.a.generation, Moves: c.round.moves, Took: time.Since(c.round.since), Writes: c.round.writes,
		})
	}
	c.round = nil
}

// plan makes the strategy's answer the plan. It reports whether there is
// anything to write.
func (c *controller) plan(
	next *groupAssignment, kind planKind, live map[string]*peer, names, orphans []string, got answer,
) (changed bool, failed *StrategyFailed) {
	previous, full := next.planned(), got.plan
	if kind == planOrphans {
		c.patience.tried = names
		if got.err != nil {
			return false, nil // told with the whole plan, which is soon due
		}
		if filled := next.fill(orphans, live, full, &c.spec); !filled.Equal(full) {
			next.adopt(&c.spec, filled)
			return !filled.Equal(previous), nil // the limit may keep all as it is
		}
		// Nothing else would move: it is the whole plan.
	}
	next.live, next.spec, next.cleanup = names, c.specAt, c.spec.CleanupTimeout
	if got.err != nil {
		next.fault = got.err.Error()
		if len(next.fault) > maxGroupFault {
			next.fault = next.fault[:maxGroupFault]
		}
		return true, &StrategyFailed{Strategy: c.spec.Strategy, Err: got.err}
	}
	next.fault = ""
	limited, held := assignment.LimitMoves(previous, full, names, c.spec.hints(), c.spec.MaxMoves)
	next.more = len(held) > 0
	next.adopt(&c.spec, limited)
	return true, nil
}

// maxGroupFault is how much of a strategy's error is kept, in bytes: the stack
// of a panic is long.
const maxGroupFault = 2 << 10

// write makes next the assignment, if the one that was read still stands and
// the own node is there.
func (c *controller) write(next *groupAssignment) error {
	inc := c.inc
	data := next.encode()
	if len(data) > maxGroupRecord {
		return fmt.Errorf("group %q: %w (%d bytes)", c.spec.Name, errGroupTooLarge, len(data))
	}
	replies, failed, err := inc.s.Multi(inc.ctx,
		&zkclient.CheckVersionRequest{Path: inc.path, Version: -1},
		&zkclient.SetDataRequest{Path: inc.m.g.assignment(), Data: data, Version: c.version})
	switch {
	case err == nil:
		c.version = replies[1].Stat.Version
		c.known.Store(c.version)
		next.freeze(replies[1].Stat)
		c.a = next
		c.round.writes++
		return nil
	case errors.Is(err, zkclient.ErrBadVersion):
		c.placeNews.Store(true)
		c.poke()
		return zkclient.ErrAmbiguous
	case errors.Is(err, zkclient.ErrNoNode) && failed == 0:
		return inc.gone("its node was deleted")
	case errors.Is(err, zkclient.ErrNoNode):
		return inc.ruined("the group's assignment was deleted")
	case errors.Is(err, zkclient.ErrAmbiguous):
		c.placeNews.Store(true)
	}
	return err
}
