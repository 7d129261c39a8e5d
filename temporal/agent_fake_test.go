package temporal

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// fakeLocks is a lock service with as much sense as keepers and activities need:
// one hold for each id, with members.
type fakeLocks struct {
	mu      sync.Mutex
	tokens  lockguard.Token
	members map[string][]*fakeMember // of each hold
	joined  []string                 // scopes
	cleanup []bool

	// refuse is what requests, joins and adoptions fail with.
	refuse func(what string) error
	// asked sees each request.
	asked func(requirement lockguard.Requirement)
	// left is how long each member has until its Deadline. 0: a minute.
	left time.Duration
	// leaving is how long a release takes.
	leaving time.Duration
	// busy keeps requests waiting until it is closed.
	busy chan struct{}
}

func newFakeLocks() *fakeLocks {
	return &fakeLocks{members: make(map[string][]*fakeMember), tokens: 100}
}

// fakeMember is a heldLock.
type fakeMember struct {
	locks     *fakeLocks
	reference lockguard.Reference
	ctx       context.Context
	end       context.CancelCauseFunc
	lost      chan struct{}
	released  chan struct{}
	cleaning  chan struct{} // closed when its hooks begin
	hooks     []lockguard.Hook
	left      time.Duration // until Deadline
	once      sync.Once
	reason    *lockguard.LostError // why it was lost
}

type memberKey struct{}

func (l *fakeLocks) memberLocked(ctx context.Context, r lockguard.Reference) *fakeMember {
	m := &fakeMember{locks: l, reference: r, lost: make(chan struct{}), released: make(chan struct{}), cleaning: make(chan struct{}), left: cmp.Or(l.left, time.Minute)}
	ctx = context.WithValue(ctx, memberKey{}, m)
	m.ctx, m.end = context.WithCancelCause(ctx)
	l.members[r.Hold] = append(l.members[r.Hold], m)
	return m
}

// admit makes a hold there that a test has granted.
func (l *fakeLocks) admit(r lockguard.Reference) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memberLocked(context.Background(), r)
}

// carried is the membership that the context of an activity carries.
func (l *fakeLocks) carried(ctx context.Context) *fakeMember {
	m, _ := ctx.Value(memberKey{}).(*fakeMember)
	return m
}

// lose ends a hold, with all its members.
func (l *fakeLocks) lose(hold string) {
	l.mu.Lock()
	members := l.members[hold]
	delete(l.members, hold)
	l.mu.Unlock()
	for _, m := range members {
		m.lose(lock.LossSession)
	}
}

func (l *fakeLocks) joins() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joined
}

func (l *fakeLocks) cleanups() []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cleanup
}

func (l *fakeLocks) refused(what string) error {
	if l.refuse == nil {
		return nil
	}
	return l.refuse(what)
}

func (l *fakeLocks) join(ctx context.Context, _ lockguard.Requirement, r lockguard.Reference, cleanup bool) (heldLock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refused("join"); err != nil {
		return nil, err
	}
	there := l.members[r.Hold]
	if len(there) == 0 || there[0].reference.Token != r.Token {
		return nil, &lock.NotThereError{Reference: r}
	}
	if cause := context.Cause(there[0].ctx); cause != nil && !cleanup {
		return nil, cause
	}
	l.joined, l.cleanup = append(l.joined, r.Scope), append(l.cleanup, cleanup)
	return l.memberLocked(ctx, there[0].reference), nil
}

func (l *fakeLocks) adopt(ctx context.Context, _ lockguard.Requirement, r lockguard.Reference) (heldLock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refused("adopt"); err != nil {
		return nil, err
	}
	for i, m := range l.members[r.Hold] {
		if m.reference.ID == r.ID {
			l.members[r.Hold] = append(l.members[r.Hold][:i:i], l.members[r.Hold][i+1:]...)
			asked := context.Cause(m.ctx)
			m.lose(lock.LossSuperseded)
			r.Token = m.reference.Token
			r.ID += "'"
			heir := l.memberLocked(ctx, r)
			if asked != nil { // it has the mailbox, too
				heir.end(asked)
			}
			return heir, nil
		}
	}
	return nil, &lock.NotThereError{Reference: r, Held: len(l.members[r.Hold]) > 0}
}

func (l *fakeLocks) enqueue(ctx context.Context, requirement lockguard.Requirement) pendingLock {
	t := &fakeTicket{locks: l, joined: make(chan struct{}), done: make(chan struct{})}
	t.reference = lockguard.Reference{Scope: requirement.Scope, Hold: requirement.Hold, ID: "guid"}
	close(t.joined)
	if l.asked != nil {
		l.asked(requirement)
	}
	l.mu.Lock()
	busy, err := l.busy, l.refused("enqueue")
	l.mu.Unlock()
	go func() {
		defer close(t.done)
		if busy != nil {
			select {
			case <-busy:
			case <-ctx.Done():
			}
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			t.err = err
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tokens++
		t.reference.Token = l.tokens
		t.lock = l.memberLocked(ctx, t.reference)
	}()
	return t
}

type fakeTicket struct {
	locks        *fakeLocks
	reference    lockguard.Reference
	joined, done chan struct{}
	lock         *fakeMember
	err          error
}

func (t *fakeTicket) Reference() (lockguard.Reference, bool) {
	t.locks.mu.Lock()
	defer t.locks.mu.Unlock()
	return t.reference, true
}

func (t *fakeTicket) Joined() <-chan struct{} { return t.joined }
func (t *fakeTicket) Done() <-chan struct{}   { return t.done }

func (t *fakeTicket) held() (heldLock, error) {
	if t.err != nil {
		return nil, t.err
	}
	return t.lock, nil
}

func (m *fakeMember) Context() context.Context       { return m.ctx }
func (m *fakeMember) Reference() lockguard.Reference { return m.reference }
func (m *fakeMember) Lost() <-chan struct{}          { return m.lost }
func (m *fakeMember) Deadline() time.Time            { return time.Now().Add(m.left) }

func (m *fakeMember) Check() error {
	var lost *lockguard.LostError
	m.locks.mu.Lock()
	defer m.locks.mu.Unlock()
	if closed(m.lost) {
		lost = m.reason
		return lost
	}
	return nil
}

func (m *fakeMember) OnCleanup(hook lockguard.Hook) error {
	m.hooks = append(m.hooks, hook)
	return nil
}

func (m *fakeMember) Release(context.Context) error {
	m.once.Do(func() {
		if m.ctx.Err() != nil {
			close(m.cleaning)
			for _, hook := range m.hooks {
				_ = hook(context.Background())
			}
		}
		m.end(lockguard.ErrReleased)
		l := m.locks
		<-time.After(l.leaving)
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, other := range l.members[m.reference.Hold] {
			if other == m {
				l.members[m.reference.Hold] = append(l.members[m.reference.Hold][:i:i], l.members[m.reference.Hold][i+1:]...)
			}
		}
		if len(l.members[m.reference.Hold]) == 0 {
			delete(l.members, m.reference.Hold)
		}
		close(m.released)
	})
	return nil
}

func (m *fakeMember) lose(reason lock.LossReason) {
	m.reason = &lockguard.LostError{Scope: m.reference.Scope, Token: m.reference.Token, Reason: reason}
	m.end(m.reason)
	close(m.lost)
}
