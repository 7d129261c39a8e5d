package zktest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// An Ensemble is several servers with one leader, in memory. Each Member is a
// server for clients of its own. Its methods may be called from any goroutine.
//
// Members talk over links: one stream of packets in each direction, in order.
// A client's request touches its session at the member that it is sent to. The
// leader hears of it with the reply to its next ping, which it sends twice a
// tick; then the session has its whole timeout again, rounded up to a tick of
// the leader's clock. The creation of a session and a reconnect reach the
// leader at once, and so does every request of the leader's own clients.
type Ensemble struct {
	opts    options
	members []*Member
	start   time.Time

	mu      sync.Mutex
	closed  bool
	agenda  agenda
	timer   *time.Timer
	running bool
	delay   time.Duration
	cuts    map[[2]*Member]bool // no packet passes between the two
	epochs  int64               // the last that was given to a leader
	able    bool                // a majority can elect
	electAt time.Time           // and does then
	clocks  map[int64]*SessionClock
	links   []*peering
	story   []string
}

// RunEnsembleT starts an ensemble for a test and closes it at the test's end.
// A rule set with On that has never acted by then fails the test.
func RunEnsembleT(t T, opts ...Option) *Ensemble {
	t.Helper()
	e, err := StartEnsemble(opts...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		for _, m := range e.members {
			for _, rule := range m.server.faults.unfiredRules() {
				t.Errorf("zktest: never happened at %s: %s", m.Name(), rule)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return e
}

// StartEnsemble starts an ensemble. It takes the options of Start but Addr,
// FrozenClock and DataDir, and Members, Observers, SyncLimit, ElectionTime,
// LinkDelay, ClockPhases and TimeoutDrift. All members are up when it returns,
// and the last voting member is the leader. It ends with Close.
func StartEnsemble(opts ...Option) (*Ensemble, error) {
	o, err := newOptions(opts)
	if err == nil {
		err = o.checkEnsemble()
	}
	if err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	e := &Ensemble{
		opts: o, start: time.Now(), delay: o.ensemble.delay,
		cuts: make(map[[2]*Member]bool), clocks: make(map[int64]*SessionClock),
	}
	for i := range o.ensemble.voters + o.ensemble.observers {
		m, err := newMember(e, i)
		if err != nil {
			_ = e.Close()
			return nil, err
		}
		e.members = append(e.members, m)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lead(e.candidate())
	for _, m := range e.members {
		if l := e.leaderFor(m); m.looking() && l != nil {
			m.follow(l)
		}
	}
	e.run()
	return e, nil
}

// Close ends all members and returns when nothing of them is left.
func (e *Ensemble) Close() error {
	e.mu.Lock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
	e.mu.Unlock()
	for _, m := range e.members {
		m.server.faults.stopped.Store(false)
		_ = m.server.Close()
	}
	return nil
}

// Members returns all members: the voting ones, then the observers.
func (e *Ensemble) Members() []*Member { return slices.Clone(e.members) }

// Member returns a member by its number, from 0.
func (e *Ensemble) Member(number int) *Member { return e.members[number] }

// Leader returns the member that leads: the latest one that was elected and
// has not died nor stepped down; nil: none.
func (e *Ensemble) Leader() *Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.latest()
	if t == nil {
		return nil
	}
	return t.leader
}

// Followers returns the voting members that do not lead.
func (e *Ensemble) Followers() []*Member {
	leader := e.Leader()
	return slices.DeleteFunc(e.Members(), func(m *Member) bool { return m == leader || m.observes })
}

// Observers returns the observers.
func (e *Ensemble) Observers() []*Member {
	return slices.DeleteFunc(e.Members(), func(m *Member) bool { return !m.observes })
}

// latest returns the term of the leader that was elected last; nil: none leads.
func (e *Ensemble) latest() *term {
	var last *term
	for _, m := range e.members {
		if m.term != nil && (last == nil || m.term.epoch > last.epoch) {
			last = m.term
		}
	}
	return last
}

// Servers returns the addresses of these members, of all without one.
func (e *Ensemble) Servers(members ...*Member) []string {
	if len(members) == 0 {
		members = e.members
	}
	var list []string
	for _, m := range members {
		list = append(list, m.Addr())
	}
	return list
}

// Dialer returns a function with the signature of net.Dialer's DialContext that
// connects in memory to the member at an address, or to the first. The
// connections have a name, for Partition, for From and for the trace.
func (e *Ensemble) Dialer(name string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to := e.members[0]
		for _, m := range e.members {
			if m.Addr() == address {
				to = m
			}
		}
		return to.server.Dialer(name)(ctx, network, address)
	}
}

// Partition cuts the network between all members and the connections of these
// dialers; all connections without a name. What is sent is kept until Heal.
func (e *Ensemble) Partition(names ...string) {
	for _, m := range e.members {
		m.server.faults.partition(names...)
	}
}

// Split cuts the network between these members and the others. What is sent is
// kept until Heal or Member.Heal, as TCP keeps it.
func (e *Ensemble) Split(members ...*Member) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.run()
	e.tell("%s cut off from the others", names(members))
	for _, m := range members {
		for _, other := range e.members {
			if !slices.Contains(members, other) {
				e.cuts[pair(m, other)] = true
			}
		}
	}
	e.consider()
}

// Heal ends all partitions, between members and to clients.
func (e *Ensemble) Heal() {
	e.mu.Lock()
	e.tell("network healed")
	clear(e.cuts)
	e.consider()
	e.pump()
	e.run()
	e.mu.Unlock()
	for _, m := range e.members {
		m.server.faults.heal()
	}
}

// SetDelay is how long each packet between two members takes from now on.
func (e *Ensemble) SetDelay(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.delay = d
}

// A SessionClock is what the leader knows about the time of a session.
type SessionClock struct {
	ID      int64
	Timeout time.Duration
	Leader  string    // the member that says so, elected last
	Touched time.Time // when the leader last heard of it
	Expires time.Time // when the leader ends it, should it hear no more
	Ended   time.Time // when a leader ended it, as all others will hear; zero: it lives
}

// Sessions returns the clocks of all sessions, ended ones included, by id. A
// deposed leader's view does not count.
func (e *Ensemble) Sessions() []SessionClock {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []SessionClock
	for _, c := range e.clocks {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b SessionClock) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Session returns the clock of a session.
func (e *Ensemble) Session(id int64) (SessionClock, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.clocks[id]
	if c == nil {
		return SessionClock{}, false
	}
	return *c, true
}

// History returns what has happened to the members and their sessions, a line
// each, for the output of a test that failed.
func (e *Ensemble) History() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.story)
}

func (e *Ensemble) tell(format string, args ...any) {
	e.story = append(e.story, fmt.Sprintf("%12s %s", time.Since(e.start), fmt.Sprintf(format, args...)))
}

func names(members []*Member) string {
	var list []string
	for _, m := range members {
		list = append(list, m.Name())
	}
	return fmt.Sprint(list)
}

func pair(a, b *Member) [2]*Member {
	if a.number > b.number {
		a, b = b, a
	}
	return [2]*Member{a, b}
}

func (e *Ensemble) cut(a, b *Member) bool { return e.cuts[pair(a, b)] }
