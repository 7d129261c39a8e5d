package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// groupLinger is how long what can be written waits for more of its kind.
const groupLinger = 4 * time.Millisecond

// An incarnation is a participant's node: in one session, under one guid. It
// never comes back.
type incarnation struct {
	m      *Member
	s      *zkclient.Session
	guid   string
	path   string // of its node; "" until it is known
	unsure bool   // the node may be there though path is not known

	ctx    context.Context // of its requests
	cancel context.CancelCauseFunc
	wake   chan struct{}

	ownWatch, placeWatch, frontWatch zkclient.Watcher
	ownNews, placeNews, frontNews    atomic.Bool

	wrecked    atomic.Bool // nodes of the group itself are gone
	front      string      // the node right in front; its goroutine's alone
	seen       int64       // mzxid of the last assignment that was read
	controller *controller
	controls   sync.WaitGroup

	// Guarded by m.mu.
	lost    *lock.LostError
	holds   map[LockGrant]*lockHold // what the assignment grants, until it is released
	let     map[LockGrant]struct{}  // released, and still in the assignment
	writeAt time.Time               // when the own node is to be written; zero: it is not
}

func newIncarnation(m *Member, s *zkclient.Session) *incarnation {
	inc := &incarnation{
		m: m, s: s, guid: znode.NewGUID(), wake: make(chan struct{}, 1),
		holds: map[LockGrant]*lockHold{}, let: map[LockGrant]struct{}{},
	}
	inc.ctx, inc.cancel = context.WithCancelCause(context.Background())
	note := func(news *atomic.Bool) zkclient.Watcher {
		return func(zkclient.WatchKind) {
			news.Store(true)
			inc.poke()
		}
	}
	inc.ownWatch, inc.placeWatch, inc.frontWatch = note(&inc.ownNews), note(&inc.placeNews), note(&inc.frontNews)
	return inc
}

func (inc *incarnation) setPath(path string) { inc.path, inc.unsure = path, false }

// poke makes the incarnation look what there is to do.
func (inc *incarnation) poke() {
	select {
	case inc.wake <- struct{}{}:
	default:
	}
}

// dirty asks for a write of the own node, soon. The caller holds m.mu.
func (inc *incarnation) dirty() {
	if inc.writeAt.IsZero() {
		inc.writeAt = time.Now().Add(groupLinger)
	}
	inc.poke()
}

// release notes that a lock was released. The caller holds m.mu.
func (inc *incarnation) release(grant LockGrant) {
	inc.let[grant] = struct{}{}
	inc.dirty()
}

// record is what the own node has to say. The caller need not hold m.mu before
// the node is there.
func (inc *incarnation) record() memberRecord {
	m := inc.m
	r := memberRecord{
		Format: znode.RecordFormat, Name: m.name, Host: m.c.Host(), PID: m.c.PID(), Leaving: inc.path != "" && m.leaving,
	}
	for _, grant := range slices.SortedFunc(maps.Keys(inc.let), func(a, b LockGrant) int {
		return assignment.Compare(a.Lock, b.Lock)
	}) {
		if r.Released == nil {
			r.Released = map[lock.Token][]string{}
		}
		r.Released[grant.Token] = append(r.Released[grant.Token], grant.Lock)
	}
	return r
}

// live takes part until the incarnation has left or is lost.
func (inc *incarnation) live() error {
	m := inc.m
	err := inc.follow()
	if err != nil && !errors.Is(err, errGroupLost) { // whatever it is, it cannot go on
		inc.lose(&lock.LostError{Reason: lock.LossSession, Err: err})
	}
	inc.cancel(errGroupLost)
	inc.controls.Wait()
	inc.s.Unwatch(inc.path, &inc.ownWatch)
	inc.s.Unwatch(m.g.assignment(), &inc.placeWatch)
	if inc.front != "" {
		inc.s.Unwatch(inc.front, &inc.frontWatch)
	}
	inc.s.Unhold(inc)
	if err != nil {
		inc.s.Discard(inc.path)
	}
	return err
}

// follow does what the assignment says, and tells what it has done.
func (inc *incarnation) follow() error {
	m := inc.m
	inc.ownNews.Store(true)
	inc.placeNews.Store(true)
	inc.frontNews.Store(true)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		m.mu.Lock()
		lost, left := inc.lost, m.leaving && m.idle()
		m.mu.Unlock()
		switch {
		case lost != nil:
			return errGroupLost
		case left:
			return inc.depart()
		}
		var wait time.Duration
		var err error
		switch {
		case inc.ownNews.Swap(false):
			if err = inc.lookAtSelf(); err != nil {
				inc.ownNews.Store(true)
			}
		case inc.placeNews.Swap(false):
			if err = inc.lookAtPlaces(); err != nil {
				inc.placeNews.Store(true)
			}
		case inc.frontNews.Swap(false):
			if err = inc.lookAhead(); err != nil {
				inc.frontNews.Store(true)
			}
		default:
			if wait, err = inc.write(); err == nil {
				inc.sleep(timer, wait)
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, zkclient.ErrAmbiguous):
		case errors.Is(err, zkclient.ErrSessionOver), errors.Is(err, errGroupLost):
			return inc.gone(err.Error())
		case inc.ctx.Err() != nil:
			return errGroupLost
		case errors.Is(err, zkclient.ErrNoNode):
			return inc.ruined("the group was deleted")
		default:
			m.tell(Fault{Err: err})
			inc.rest(timer)
		}
	}
}

// sleep waits until there is something to do; 0 waits for a wake alone.
func (inc *incarnation) sleep(timer *time.Timer, wait time.Duration) {
	if wait == 0 {
		wait = time.Hour
	}
	timer.Reset(wait)
	select {
	case <-inc.wake:
	case <-timer.C:
	case <-inc.ctx.Done():
	case <-inc.s.Over():
		_ = inc.gone("its session has ended") // the next look at the loss tells
	}
}

// rest waits before what went wrong is tried again. A participant that leaves
// does not try for ever.
func (inc *incarnation) rest(timer *time.Timer) {
	timer.Reset(time.Second)
	select {
	case <-timer.C:
	case <-inc.ctx.Done():
	case <-inc.s.Over():
	}
}

// lookAtSelf finds out whether the own node is there.
func (inc *incarnation) lookAtSelf() error {
	_, _, err := inc.s.Look(inc.ctx, inc.path, &inc.ownWatch)
	if errors.Is(err, zkclient.ErrNoNode) {
		return inc.gone("its node was deleted")
	}
	return err
}

// write tells what was released, when it is time. It returns how long that is.
func (inc *incarnation) write() (wait time.Duration, err error) {
	m := inc.m
	m.mu.Lock()
	at := inc.writeAt
	if at.IsZero() {
		m.mu.Unlock()
		return 0, nil
	}
	if wait = time.Until(at); wait > 0 {
		m.mu.Unlock()
		return wait, nil
	}
	inc.writeAt = time.Time{}
	data := inc.record().encode()
	m.mu.Unlock()
	_, err = inc.s.Set(inc.ctx, inc.path, data, -1)
	if errors.Is(err, zkclient.ErrNoNode) {
		return 0, inc.gone("its node was deleted")
	}
	if err != nil {
		m.mu.Lock()
		inc.dirty()
		m.mu.Unlock()
	}
	return 0, err
}

// lookAhead finds out who is right in front: a participant without one in front
// is the controller.
func (inc *incarnation) lookAhead() error {
	m := inc.m
	if inc.controller != nil {
		return nil
	}
	if inc.front != "" {
		_, stat, err := inc.s.Look(inc.ctx, inc.front, &inc.frontWatch)
		if strange := m.ghosts.judge(inc.front, stat, err); !strange && !errors.Is(err, zkclient.ErrNoNode) {
			return err
		}
		inc.s.Unwatch(inc.front, &inc.frontWatch)
		inc.front = ""
	}
	nodes, _, err := inc.s.List(inc.ctx, m.g.members())
	if err != nil {
		return err
	}
	own := path.Base(inc.path)
	for _, c := range parseMembers(nodes) {
		if c.node == own {
			break
		}
		if _, strange := m.ghosts.know(c.node); strange {
			continue
		}
		inc.front = m.g.members() + "/" + c.node
	}
	if inc.front != "" {
		inc.frontNews.Store(true) // look at it, and find it gone or be told
		return nil
	}
	inc.controller = newController(inc)
	inc.controls.Go(inc.controller.run)
	return nil
}

// depart leaves the group: what was held is released.
func (inc *incarnation) depart() error {
	inc.cancel(errGroupLost)
	inc.controls.Wait()
	inc.s.Unhold(inc)
	err := inc.s.DeleteSurely(context.Background(), inc.path)
	if err != nil {
		return fmt.Errorf("the participant's node is left behind until its session ends: %w", err)
	}
	return nil
}
