package zktest

import (
	"context"
	"fmt"
	"net"
	"time"
)

// A Member is one server of an Ensemble: it leads, follows, observes, looks for
// a leader, or is dead. Without a leader it accepts connections and hangs up.
type Member struct {
	ensemble *Ensemble
	server   *Server // its clients
	number   int
	observes bool

	// These belong to the ensemble's lock.
	dead    bool
	stopped bool
	delay   time.Duration // of its packets, beside the ensemble's
	joining bool          // a leader is there to be joined
	joinAt  time.Time     // and is then
	term    *term         // while it leads
	link    *peering      // while it follows
	epoch   int64         // of its last leader
	logged  []*proposal   // what it has on disk and has not applied
	touches map[int64]time.Duration
	next    int64 // session
}

func newMember(e *Ensemble, number int) (*Member, error) {
	o := e.opts
	o.ensemble.number = number
	m := &Member{
		ensemble: e, number: number, observes: number >= o.ensemble.voters,
		server: newServer(o, &e.mu), touches: make(map[int64]time.Duration),
	}
	s := m.server
	s.member = m
	s.leader = newReplica(o.ttl)
	m.next = firstSession(s.clock.now())&(1<<56-1) | int64(number+1)<<56
	_, err := s.Listen("")
	return m, err
}

// Name is "m" and the number, counted from 0.
func (m *Member) Name() string { return fmt.Sprintf("m%d", m.number) }

// Addr returns the host:port for clients.
func (m *Member) Addr() string { return m.server.Addr() }

// Dial connects a client to this member in memory, as Server.Dial does.
func (m *Member) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return m.server.Dial(ctx, network, address)
}

// Dialer returns a function like Dial, whose connections have a name. See
// Ensemble.Dialer for one that goes by the address.
func (m *Member) Dialer(name string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return m.server.Dialer(name)
}

// IsLeader tells whether the member leads; a deposed leader does so until it
// finds out.
func (m *Member) IsLeader() bool {
	m.ensemble.mu.Lock()
	defer m.ensemble.mu.Unlock()
	return m.term != nil
}

// Serves tells whether the member leads or has a leader.
func (m *Member) Serves() bool {
	m.ensemble.mu.Lock()
	defer m.ensemble.mu.Unlock()
	return m.serves()
}

// On begins a rule for the requests and events of this member's clients.
func (m *Member) On(match Match) *Fault { return m.server.faults.on(match) }

// Tree returns the node at path and all below it, as the member has them.
func (m *Member) Tree(path string) []Node { return m.server.Tree(path) }

// Dump returns all nodes but ZooKeeper's own, as the member has them.
func (m *Member) Dump() string { return m.server.Dump() }

// Zxid returns the last transaction that the member has applied.
func (m *Member) Zxid() int64 { return m.server.Zxid() }

// Trace returns the last frames of the member's clients.
func (m *Member) Trace() []Exchange { return m.server.Trace() }

// Kill ends the member's process: the connections of its clients and to other
// members break, what it has heard of sessions since its last reply to a ping
// is lost. What it has on disk stays; see Start.
func (m *Member) Kill() {
	s, e := m.server, m.ensemble
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.run()
	if m.dead || e.closed {
		return
	}
	e.tell("%s killed", m.Name())
	s.faults.stopped.Store(false) // what it waits for does not come
	m.dead, m.stopped = true, false
	m.leave()
	s.down = true
	for _, l := range s.listeners {
		l.shut()
	}
	e.consider()
}

// Start starts a member that was killed, at the same address.
func (m *Member) Start() error {
	e := m.ensemble
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.run()
	if !m.dead || e.closed {
		return nil
	}
	e.tell("%s started", m.Name())
	m.dead, m.server.down = false, false
	if !m.server.opts.pipe {
		for _, l := range m.server.listeners {
			if err := l.listen(); err != nil {
				return err
			}
		}
	}
	e.consider()
	return nil
}

// Stop stops the member's process, as SIGSTOP does: it does nothing, and what
// is sent to it waits. Connections to it are accepted.
func (m *Member) Stop() {
	e := m.ensemble
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.run()
	if m.dead || e.closed {
		return
	}
	e.tell("%s stopped", m.Name())
	m.stopped = true
	m.server.faults.stopped.Store(true)
	e.consider()
}

// Resume lets a stopped member go on. It executes the requests of its clients
// that wait, then what other members have sent, then what its clock says.
func (m *Member) Resume() {
	e := m.ensemble
	e.mu.Lock()
	if !m.stopped || e.closed {
		e.mu.Unlock()
		return
	}
	e.tell("%s resumed", m.Name())
	m.stopped = false
	e.mu.Unlock()
	m.server.faults.stopped.Store(false)
	m.server.faults.resume()
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.run()
	for _, l := range e.peerings() {
		switch m {
		case l.learner:
			l.down.pump()
			l.learnerListens()
		case l.term.leader:
			l.up.pump()
			l.leaderListens()
		}
	}
	if t := m.term; t != nil {
		t.expire()
		if m.term == t && t.loopDue {
			t.loop()
		}
	}
	e.consider()
}

// CutOffPeers cuts the network between the member and all others. What is sent
// is kept until Heal. Neither end notices but by the silence.
func (m *Member) CutOffPeers() { m.ensemble.Split(m) }

// CutOffClients cuts the network between the member and its clients: those of
// these dialers, without a name all. What is sent is kept until Heal.
func (m *Member) CutOffClients(names ...string) { m.server.faults.partition(names...) }

// Heal ends what CutOffPeers, CutOffClients and Split have done to the member.
func (m *Member) Heal() {
	e := m.ensemble
	e.mu.Lock()
	e.tell("%s healed", m.Name())
	for _, other := range e.members {
		delete(e.cuts, pair(m, other))
	}
	e.consider()
	e.pump()
	e.run()
	e.mu.Unlock()
	m.server.faults.heal()
}

// Disconnect breaks the connections of the member's clients, which may come
// back.
func (m *Member) Disconnect() {
	m.ensemble.mu.Lock()
	defer m.ensemble.mu.Unlock()
	m.hangUpOnClients()
}

// LeaveLeader makes the member look for a leader anew, as one does that has
// not heard from its leader for too long: it breaks the connections of its
// clients. Its leader hears of it if the network lets it. A leader steps down.
func (m *Member) LeaveLeader() {
	e := m.ensemble
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.run()
	if m.serves() && !m.stopped {
		e.tell("%s leaves its leader", m.Name())
		m.leave()
		e.consider()
	}
}

// SetDelay is how long packets from and to the member take, beside the delay of
// the ensemble.
func (m *Member) SetDelay(d time.Duration) {
	m.ensemble.mu.Lock()
	defer m.ensemble.mu.Unlock()
	m.delay = d
}

func (m *Member) serves() bool  { return !m.dead && (m.term != nil || m.link != nil) }
func (m *Member) looking() bool { return !m.dead && !m.stopped && m.term == nil && m.link == nil }

// mode is what the four-letter words say.
func (m *Member) mode() string {
	switch {
	case m.term != nil:
		return "leader"
	case m.observes:
		return "observer"
	}
	return "follower"
}

// elapsed is the time by the member's clock, to the millisecond.
func (m *Member) elapsed() time.Duration {
	return (time.Since(m.ensemble.start) + m.ensemble.opts.ensemble.phase(m.number)).Truncate(time.Millisecond)
}

// instant is when the member's clock shows a time.
func (m *Member) instant(elapsed time.Duration) time.Time {
	return m.ensemble.start.Add(elapsed - m.ensemble.opts.ensemble.phase(m.number))
}
