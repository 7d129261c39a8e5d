package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Member is one participant of a group, from Join to Leave. After a loss of
// its session it joins again by itself.
type Member struct {
	g       *Group
	c       *zkclient.Client
	name    string
	escaped string
	handler Handler
	base    context.Context // of all its callbacks
	stopped context.Context // ends with Leave, or when Join gives up
	stop    context.CancelFunc
	joined  chan struct{} // closed when it is there for the first time
	done    chan struct{}
	err     error // once done is closed
	work    zkclient.Backlog
	rival   atomic.Pointer[NameTakenError] // who has the name, while Join waits
	wrecked bool                           // nodes of the group were deleted; run's alone
	ghosts  ghosts

	telling sync.Mutex
	untold  []Notice // guarded by telling
	tells   bool     // guarded by telling: tellAll is under way

	mu      sync.Mutex
	inc     *incarnation // nil while it is not there
	leaving bool
	asking  bool // the client knows of it as a request
	there   bool // joined is closed
	cells   map[string]*lockCell
	cleanup time.Duration
}

// Join applies the spec and takes part in the group under a name, which is the
// participant's identity: one that comes back under the same name before the
// debounce is over keeps its locks. While another one of that name is there,
// Join waits for its end. ctx bounds the call alone.
//
// It returns *NameTakenError when ctx ends while the name is taken,
// *NotParticipantError, *RequestError for a bad name, and *UnavailableError.
// A call that fails leaves nothing behind.
func (g *Group) Join(ctx context.Context, name string, handler Handler) (*Member, error) {
	escaped, err := g.checkName(name)
	if err != nil {
		return nil, err
	}
	if handler == nil {
		return nil, &zkclient.RequestError{Field: "handler", Reason: "is nil; give what is to be done with the locks"}
	}
	if _, err := g.Apply(ctx); err != nil {
		return nil, err
	}
	m := &Member{
		g: g, c: g.c, name: name, escaped: escaped, handler: handler, base: context.WithoutCancel(ctx),
		joined: make(chan struct{}), done: make(chan struct{}), cells: make(map[string]*lockCell),
		cleanup: g.spec.CleanupTimeout,
	}
	m.stopped, m.stop = context.WithCancel(g.c.Closing())
	m.asks(true)
	g.c.Background(m.run)
	select {
	case <-m.joined:
		return m, nil
	case <-m.done:
		return nil, fmt.Errorf("group %q not joined as %q: %w", g.spec.Name, name, m.err)
	case <-ctx.Done():
	}
	m.leave()
	m.asks(false) // Close waits for what is left of it
	err = context.Cause(ctx)
	if rival := m.rival.Load(); rival != nil {
		taken := *rival
		taken.Err = err
		return nil, &taken
	}
	return nil, fmt.Errorf("group %q not joined as %q: %w: %w", g.spec.Name, name, err, g.c.Unavailable())
}

// checkName refuses a name that cannot join.
func (g *Group) checkName(name string) (escaped string, err error) {
	if why := badParticipant(name); why != "" {
		return "", &zkclient.RequestError{Field: "participant", Reason: fmt.Sprintf("%q %s", name, why)}
	}
	if p := g.spec.Participants; len(p) > 0 && !slices.Contains(p, name) {
		return "", &NotParticipantError{Group: g.spec.Name, Name: name, Participants: slices.Clone(p)}
	}
	return znode.EscapeScope(name)
}

// Leave ends all contexts at once, waits until OnReleased of each lock has
// returned, gives them to others, and leaves nothing behind. When ctx ends
// first it returns an error and goes on in the background. It may be called
// again.
func (m *Member) Leave(ctx context.Context) error {
	m.leave()
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return fmt.Errorf("group %q not left as %q yet; it goes on in the background: %w",
			m.g.spec.Name, m.name, context.Cause(ctx))
	}
}

// Done is closed when the participant has left the group for good: by Leave,
// or because its client was closed.
func (m *Member) Done() <-chan struct{} { return m.done }

// Err returns nil until Done is closed and after a Leave, else why it ended.
func (m *Member) Err() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// Name returns the name under which it joined.
func (m *Member) Name() string { return m.name }

// Locks returns what is held right now, in the order of the locks' names.
func (m *Member) Locks() []LockGrant {
	m.mu.Lock()
	defer m.mu.Unlock()
	var grants []LockGrant
	if m.inc == nil {
		return nil
	}
	for grant, h := range m.inc.holds {
		if !h.ended {
			grants = append(grants, grant)
		}
	}
	slices.SortFunc(grants, func(a, b LockGrant) int { return assignment.Compare(a.Lock, b.Lock) })
	return grants
}

// leave begins to leave, once.
func (m *Member) leave() {
	m.mu.Lock()
	if m.leaving {
		m.mu.Unlock()
		return
	}
	m.leaving = true
	if inc := m.inc; inc != nil {
		for grant, h := range inc.holds {
			h.finish(&ReleaseAskedError{Group: m.g.spec.Name, Lock: grant.Lock, Token: grant.Token, Reason: ReleaseLeft},
				m.cleanup)
		}
		inc.dirty()
	}
	for _, cell := range m.cells {
		cell.dropped()
	}
	m.settle()
	m.mu.Unlock()
	m.stop()
}

func (m *Member) isLeaving() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaving
}

// maxUntold is how many notices wait while the user is busy with one.
const maxUntold = 1000

// tell passes the user one notice at a time, and waits for nothing: a session
// reports its end in the same breath as it ends what others hold.
func (m *Member) tell(n Notice) {
	if m.g.notify == nil {
		return
	}
	m.telling.Lock()
	defer m.telling.Unlock()
	if len(m.untold) == maxUntold {
		m.untold = m.untold[1:]
	}
	m.untold = append(m.untold, n)
	if !m.tells {
		m.tells = true
		m.work.Go(m.tellAll)
	}
}

func (m *Member) tellAll() {
	empty := false
	defer func() {
		if !empty { // Notify has ended its goroutine
			m.work.Go(m.tellAll)
		}
	}()
	for {
		m.telling.Lock()
		if empty = len(m.untold) == 0; empty {
			m.tells = false
			m.telling.Unlock()
			return
		}
		n := m.untold[0]
		m.untold = m.untold[1:]
		m.telling.Unlock()
		m.g.notify(n)
	}
}

// run takes part until the participant has left: one incarnation after the
// other.
func (m *Member) run() {
	defer close(m.done)
	defer m.stop()
	defer m.asks(false)
	for {
		inc, err := m.arrive()
		if err == nil {
			m.asks(false)
			m.tell(Joined{ID: inc.guid})
			if !m.there {
				m.there = true
				close(m.joined)
			}
			err = inc.live()
			m.mu.Lock()
			m.inc = nil
			m.mu.Unlock()
			m.wrecked = m.wrecked || inc.wrecked.Load()
		}
		switch {
		case m.isLeaving():
			if inc != nil && err != nil && !errors.Is(err, errGroupLost) {
				m.err = err
			}
			<-m.work.Done()
			return
		case m.c.IsClosing():
			m.err = zkclient.ErrClosed
			m.leave()
			<-m.work.Done()
			return
		}
		if errors.Is(err, zkclient.ErrNoNode) {
			m.wrecked = true
			err = nil
		}
		if err != nil && !errors.Is(err, zkclient.ErrSessionOver) && !errors.Is(err, zkclient.ErrAmbiguous) &&
			!errors.Is(err, errGroupLost) {
			if !m.there {
				m.err = err // Join tells
				return
			}
			m.tell(Fault{Err: err})
			m.pause(time.Second)
		}
		m.asks(true)
	}
}

// asks says whether the participant is about to join: Close has to know of it
// while no incarnation tells it. One that leaves asks for nothing.
func (m *Member) asks(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.asking == on || on && m.leaving:
	case on:
		m.c.Requested(m.label(), 1)
		m.asking = true
	default:
		m.c.Requested(m.label(), -1)
		m.asking = false
	}
}

// pause waits, unless the participant leaves.
func (m *Member) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.stopped.Done():
	}
}
