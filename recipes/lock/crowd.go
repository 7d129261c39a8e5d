package lock

import (
	"context"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A company is who is at a lock, in the order in which they are served, and the
// lock node's stat of the same snapshot. It may be shared: it is never changed.
type company struct {
	children []child
	foreign  []string // nodes that are no requests
	stat     *zkclient.Stat
}

// maxCrowdLists is how many lists of one lock a session has under way at once.
// More than one, so that a request at a short queue does not wait for another
// request's list.
const maxCrowdLists = 4

// crowdTable shares lists of a lock between requests that ask for one at the
// same time: with thousands of requests of one process in a queue each list is
// long, and each request would read it. A request gets a list that is sent for
// after it has asked, as if it had sent for it itself: G that was read before
// is older than the list.
type crowdTable struct {
	mu    sync.Mutex
	locks map[string]*crowdLooks // by the lock's path; only while a request lists
}

func crowdsOf(s *zkclient.Session) *crowdTable {
	return zkclient.Attached(s, func() *crowdTable { return new(crowdTable) })
}

// crowdLooks are the lists of one lock that are on their way.
type crowdLooks struct {
	flying int        // sent for
	next   *crowdLook // is sent for when one of those has come; nil: no request has asked
}

// crowdLook is a list that several may have asked for.
type crowdLook struct {
	turn    chan struct{} // closed when it may be sent for
	done    chan struct{} // closed when it has come, or will not
	company company
	err     error
	void    bool // the request that was to send for it has left
}

// contendersAt lists who is at a lock.
func contendersAt(ctx context.Context, s *zkclient.Session, lock string) (company, error) {
	for {
		look, mine := crowdsOf(s).join(lock)
		if mine {
			return fetchCrowd(ctx, s, lock, look)
		}
		select {
		case <-look.done:
			if !look.void {
				return look.company, look.err
			}
		case <-ctx.Done():
			return company{}, context.Cause(ctx)
		}
	}
}

// fetchCrowd sends for a list when it is its turn.
func fetchCrowd(ctx context.Context, s *zkclient.Session, lock string, look *crowdLook) (company, error) {
	select {
	case <-look.turn:
	case <-ctx.Done():
	}
	if look.err = context.Cause(ctx); look.err == nil {
		look.company, look.err = companyAt(ctx, s, lock)
	}
	look.void = look.err != nil && ctx.Err() != nil // that error concerns no other request
	crowdsOf(s).leave(lock, look)
	return look.company, look.err
}

func companyAt(ctx context.Context, s *zkclient.Session, lock string) (c company, err error) {
	names, stat, err := s.List(ctx, lock)
	if err == nil {
		c.stat = stat
		c.children, c.foreign = parseChildren(names)
	}
	return c, err
}

// join returns a list that is not sent for yet. If it is mine, the caller has to
// do that when its turn comes, and to leave.
func (t *crowdTable) join(lock string) (look *crowdLook, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.locks[lock]
	if l == nil {
		if t.locks == nil {
			t.locks = make(map[string]*crowdLooks)
		}
		l = new(crowdLooks)
		t.locks[lock] = l
	}
	if l.next != nil {
		return l.next, false
	}
	look = &crowdLook{turn: make(chan struct{}), done: make(chan struct{})}
	if l.flying < maxCrowdLists {
		l.flying++
		close(look.turn)
	} else {
		l.next = look
	}
	return look, true
}

// leave tells that a list has come, or will not.
func (t *crowdTable) leave(lock string, look *crowdLook) {
	t.mu.Lock()
	l := t.locks[lock]
	switch {
	case l.next == look: // its turn has not come
		l.next = nil
	case l.next != nil: // takes the place; later requests ask for another one
		close(l.next.turn)
		l.next = nil
	default:
		l.flying--
	}
	if l.flying == 0 {
		delete(t.locks, lock)
	}
	t.mu.Unlock()
	close(look.done)
}
