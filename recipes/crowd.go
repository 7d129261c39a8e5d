package recipes

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A company is who is at a lock, in the order in which they are served, and the
// lock node's stat of the same snapshot. It is shared: nobody changes it.
type company struct {
	children []child
	foreign  []string // nodes that are no requests
	stat     *zk.Stat
}

// crowdTable lets those who want to know who is at a lock at the same time ask
// together: with thousands of requests of one process in a queue each list is
// long, and read by many. Whoever asks gets a list that was sent for after it
// asked.
type crowdTable struct {
	mu    sync.Mutex
	looks map[string]*crowdLooks // by lock
}

// crowdLooks are the lists of one lock that are on their way.
type crowdLooks struct {
	current *crowdLook // sent for, or about to be
	next    *crowdLook // is sent for when current has come; nil: nobody has asked
}

type crowdLook struct {
	done    chan struct{}
	company company
	err     error
	void    bool // whoever was to send for it has left
}

// contenders lists who is at a lock.
func (s *session) contenders(ctx context.Context, lock string) (company, error) {
	for {
		look, before, mine := s.crowds.join(lock)
		if mine && before != nil {
			select {
			case <-before.done:
			case <-ctx.Done():
			}
		}
		if mine {
			if look.err = ctx.Err(); look.err == nil {
				look.company, look.err = s.companyAt(ctx, lock)
			}
			look.void = look.err != nil && ctx.Err() != nil
			s.crowds.leave(lock, look)
			if look.void && ctx.Err() != nil {
				return company{}, context.Cause(ctx)
			}
			return look.company, look.err
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

func (s *session) companyAt(ctx context.Context, lock string) (c company, err error) {
	names, stat, err := s.list(ctx, lock)
	c.stat = stat
	if err == nil {
		c.children, c.foreign = parseChildren(names)
	}
	return c, err
}

// join returns a list that is not sent for yet; mine says that the caller has to
// do it, once the one before has come.
func (t *crowdTable) join(lock string) (look, before *crowdLook, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looks == nil {
		t.looks = make(map[string]*crowdLooks)
	}
	l := t.looks[lock]
	switch {
	case l == nil:
		look = &crowdLook{done: make(chan struct{})}
		t.looks[lock] = &crowdLooks{current: look}
		return look, nil, true
	case l.next == nil:
		l.next = &crowdLook{done: make(chan struct{})}
		return l.next, l.current, true
	}
	return l.next, nil, false
}

// leave tells that a list has come, or will not.
func (t *crowdTable) leave(lock string, look *crowdLook) {
	t.mu.Lock()
	l := t.looks[lock]
	switch {
	case l.next == look: // its turn had not come
		l.next = nil
	case l.next == nil:
		delete(t.looks, lock)
	default:
		l.current, l.next = l.next, nil
	}
	t.mu.Unlock()
	close(look.done)
}
