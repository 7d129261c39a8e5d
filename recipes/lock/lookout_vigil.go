package lock

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A vigil is one run of a Lookout. What it looks at are sites: the list of the
// buckets, each bucket's list of locks, each lock. A watch that fires makes its
// site stale; a stale site is looked at, not sooner than the gap after the last
// time. Looks run in goroutines of their own, a few at a time; all else
// happens on the goroutine of Run.
type vigil struct {
	c     *Client
	gap   time.Duration
	seen  func(Sighting)
	reads chan struct{} // a place for each read under way

	primed atomic.Bool // the servers' clock was asked for

	root  *site
	sites map[string]*site // buckets and locks, by path

	due     dueSites
	looking int
	looked  chan *site

	// round grows when all that is known may be out of date; unseen counts the sites
	// that have not been looked at in this round.
	round  int
	unseen int
	synced bool                             // that was told
	left   map[string][]zkclient.Unreadable // by the bucket that they are, or are in
	blind  bool                             // that was told

	rung chan struct{}

	mu    sync.Mutex
	stale []*site // since the vigil has looked there last
	over  bool
}

const (
	// maxLooks is how many sites are looked at at once, maxLookReads how many
	// reads that may be: they share the connection with lock requests.
	maxLooks     = 16
	maxLookReads = 32
)

func newVigil(l *Lookout, seen func(Sighting)) *vigil {
	v := &vigil{
		c: l.c, gap: l.o.Gap, seen: seen, reads: make(chan struct{}, maxLookReads),
		sites: make(map[string]*site), left: make(map[string][]zkclient.Unreadable), looked: make(chan *site, maxLooks),
		rung: make(chan struct{}, 1),
	}
	v.root = v.newSite(v.c.Root()+"/locks", &lookRoot{})
	v.unseen = 1
	return v
}

// A site is something that is looked at as a whole.
type site struct {
	v    *vigil
	path string
	what looker

	// On the goroutine of Run:
	looking bool
	again   bool      // it has changed while it was looked at
	next    time.Time // it is not looked at before
	seenIn  int       // the round in which it was looked at last
	round   int       // in which the present look began
	dropped bool
	s       *zkclient.Session // of the last look
	err     error             // of the last look

	// Under vigil.mu:
	isStale bool
}

// A looker knows how to look at a site. look and forget are never called at the
// same time.
type looker interface {
	// look reads what has changed. It runs on a goroutine of its own.
	look(ctx context.Context, s *zkclient.Session, at *site) error
	// tell says what the last look has shown. It runs on that of Run.
	tell(at *site)
	// forget takes all watches back.
	forget(s *zkclient.Session, at *site)
	// size is how much there is to look at, in requests.
	size() int
}

func (v *vigil) newSite(path string, what looker) *site {
	at := &site{v: v, path: path, what: what, seenIn: v.round - 1}
	at.mark()
	return at
}

// add makes a site that is looked at soon.
func (v *vigil) add(path string, what looker) *site {
	at := v.newSite(path, what)
	v.sites[path] = at
	v.unseen++
	return at
}

// drop ends a site.
func (v *vigil) drop(at *site) {
	delete(v.sites, at.path)
	at.dropped = true
	if at.seenIn != v.round {
		v.unseen--
	}
	if !at.looking && at.s != nil {
		at.what.forget(at.s, at)
	}
}

// mark makes the site be looked at again. It may be called from anywhere.
func (at *site) mark() {
	v := at.v
	v.mu.Lock()
	fresh := !at.isStale && !v.over
	if fresh {
		at.isStale = true
		v.stale = append(v.stale, at)
	}
	v.mu.Unlock()
	if fresh {
		select {
		case v.rung <- struct{}{}:
		default:
		}
	}
}

// deniedAgain is how soon what may not be read is looked at again: no watch tells
// of another ACL.
const deniedAgain = 10 * time.Second

// markLater makes the site be looked at again in a while.
func (at *site) markLater() { time.AfterFunc(deniedAgain, at.mark) }

// leaveOut tells what of a bucket cannot be read, if that is news.
func (v *vigil) leaveOut(bucket string, left []zkclient.Unreadable) {
	if slices.Equal(v.left[bucket], left) {
		return
	}
	v.left[bucket] = left
	all := []zkclient.Unreadable{}
	for _, some := range v.left {
		all = append(all, some...)
	}
	v.seen(Sighting{Unreadable: zkclient.ByPath(all)})
}

// session waits for one that can be used.
func (v *vigil) session(ctx context.Context) (s *zkclient.Session, err error) {
	err = v.patiently(ctx, func(ctx context.Context) error {
		s, err = v.c.UsableFor(ctx, false)
		return err
	})
	return s, err
}

// patiently waits for ZooKeeper, and tells that it does not answer when that takes
// long.
func (v *vigil) patiently(ctx context.Context, await func(context.Context) error) error {
	wait, cancel := context.WithTimeoutCause(ctx, blindAfter, zkclient.ErrSlow)
	defer cancel()
	err := await(wait)
	if !errors.Is(err, zkclient.ErrSlow) {
		return err
	}
	if !v.blind {
		v.blind, v.synced = true, false
		v.seen(Sighting{Blind: &Blindness{Since: v.c.Now().Add(-blindAfter), Err: v.c.Unavailable()}})
	}
	return await(ctx)
}

// on looks in one session, until it ends.
func (v *vigil) on(ctx context.Context, s *zkclient.Session) error {
	v.startRound()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		v.dispatch(ctx, s, timer)
		select {
		case <-v.rung:
		case <-timer.C:
		case at := <-v.looked:
			if err := v.take(at); err != nil {
				return err
			}
		case <-s.CutOff():
			if err := v.patiently(ctx, s.Await); errors.Is(err, zkclient.ErrSessionOver) {
				return nil
			} else if err != nil {
				return err
			}
			v.startRound()
		case <-s.Over():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// startRound makes everything be looked at again.
func (v *vigil) startRound() {
	v.round++
	v.unseen = 1 + len(v.sites)
	v.root.mark()
	for _, at := range v.sites {
		at.mark()
	}
}

// dispatch starts the looks that are due, and sets the timer to when the next
// one is.
func (v *vigil) dispatch(ctx context.Context, s *zkclient.Session, timer *time.Timer) {
	v.mu.Lock()
	stale := v.stale
	v.stale = nil
	v.mu.Unlock()
	for _, at := range stale {
		if at.looking {
			at.again = true
		} else if !at.dropped {
			heap.Push(&v.due, at)
		}
	}
	timer.Stop()
	for len(v.due) > 0 && v.looking < maxLooks {
		if left := time.Until(v.due[0].next); left > 0 {
			timer.Reset(left)
			return
		}
		if at := heap.Pop(&v.due).(*site); !at.dropped {
			v.start(ctx, s, at)
		}
	}
}

func (v *vigil) start(ctx context.Context, s *zkclient.Session, at *site) {
	v.mu.Lock()
	at.isStale = false // what changes from now on is for the next look
	v.mu.Unlock()
	v.looking++
	at.looking, at.again, at.round, at.s = true, false, v.round, s
	v.c.Background(func() {
		at.err = at.what.look(ctx, s, at)
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.over {
			at.what.forget(s, at)
			return
		}
		v.looked <- at // has room for all
	})
}

// take makes use of a look.
func (v *vigil) take(at *site) error {
	v.looking--
	at.looking = false
	at.next = time.Now().Add(min(v.gap+v.gap*time.Duration(at.what.size())/longQueue, max(v.gap, longestGap)))
	if at.dropped {
		at.what.forget(at.s, at)
		return nil
	}
	if at.again {
		heap.Push(&v.due, at)
	}
	switch {
	case at.err == nil:
	case isOutage(at.err):
		at.mark()
		return nil
	default:
		return at.err
	}
	at.what.tell(at)
	if at.round == v.round && at.seenIn != v.round {
		at.seenIn = v.round
		v.unseen--
	}
	if v.unseen == 0 && !v.synced {
		v.synced, v.blind = true, false
		v.seen(Sighting{Synced: true})
	}
	return nil
}

// A queue that is this long is looked at half as often, a longer one more rarely
// still, up to the longest gap: its list takes a second of a slow network.
const (
	longQueue  = 3000
	longestGap = 300 * time.Millisecond
)

// end takes all watches back.
func (v *vigil) end() {
	v.mu.Lock()
	v.over = true
	v.mu.Unlock()
	for len(v.looked) > 0 {
		at := <-v.looked
		at.looking = false
		if at.dropped {
			at.what.forget(at.s, at)
		}
	}
	v.sites[v.root.path] = v.root
	for _, at := range v.sites {
		if !at.looking && at.s != nil {
			at.what.forget(at.s, at)
		}
	}
}

// read does one read when there is room for it.
func (v *vigil) read(ctx context.Context, f func() error) error {
	select {
	case v.reads <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-v.reads }()
	return f()
}

// isOutage reports whether err says that there was no answer.
func isOutage(err error) bool {
	return errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, zkclient.ErrSessionOver)
}

// dueSites is a heap: the one that may be looked at first is first.
type dueSites []*site

func (d dueSites) Len() int           { return len(d) }
func (d dueSites) Less(i, j int) bool { return d[i].next.Before(d[j].next) }
func (d dueSites) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueSites) Push(x any)        { *d = append(*d, x.(*site)) }
func (d *dueSites) Pop() any {
	last := len(*d) - 1
	at := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return at
}
