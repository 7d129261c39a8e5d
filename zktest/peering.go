package zktest

import "time"

// A peering is the connection of a member with its leader: a stream of packets
// in each direction.
type peering struct {
	term    *term
	learner *Member
	up      stretch // to the leader
	down    stretch // to the learner

	atLeader, atLearner side
	tickDeadline        int64 // the tick of the leader until which the learner counts as in sync
}

// A side is one end of a peering.
type side struct {
	open  bool
	heard time.Time // when a packet came last
}

// A stretch is one direction.
type stretch struct {
	ensemble *Ensemble
	from, to *Member
	packets  []packet
	armed    bool // it is on the agenda
}

// A packet is what a member does when it receives it.
type packet struct {
	at      time.Time // when it arrives
	receive func()
}

func newPeering(t *term, learner *Member) *peering {
	e := learner.ensemble
	now := time.Now()
	l := &peering{
		term: t, learner: learner,
		up:       stretch{ensemble: e, from: learner, to: t.leader},
		down:     stretch{ensemble: e, from: t.leader, to: learner},
		atLeader: side{true, now}, atLearner: side{true, now},
		tickDeadline: t.tick + int64(e.opts.ensemble.syncLimit),
	}
	e.schedule(now.Add(e.syncTimeout()), l.leaderListens)
	e.schedule(now.Add(e.syncTimeout()), l.learnerListens)
	return l
}

// toLeader sends a packet to the leader.
func (l *peering) toLeader(receive func()) {
	if !l.atLearner.open {
		return
	}
	l.up.send(func() {
		if l.atLeader.open {
			l.atLeader.heard = time.Now()
			l.tickDeadline = l.term.tick + int64(l.learner.ensemble.opts.ensemble.syncLimit)
			receive()
		}
	})
}

// toLearner sends a packet to the learner.
func (l *peering) toLearner(receive func()) {
	if !l.atLeader.open {
		return
	}
	l.down.send(func() {
		if l.atLearner.open {
			l.atLearner.heard = time.Now()
			receive()
		}
	})
}

// leaderCloses ends the connection at the leader. The learner hears of it
// behind all packets.
func (l *peering) leaderCloses() {
	if !l.atLeader.open {
		return
	}
	l.atLeader.open = false
	l.term.forget(l)
	l.down.send(func() { l.learner.lost(l) })
}

// learnerCloses ends the connection at the learner, likewise.
func (l *peering) learnerCloses() {
	if !l.atLearner.open {
		return
	}
	l.atLearner.open = false
	l.up.send(l.leaderCloses)
}

func (e *Ensemble) syncTimeout() time.Duration {
	return time.Duration(e.opts.ensemble.syncLimit) * e.opts.tick
}

// leaderListens ends the connection at the leader when it has been silent for
// too long.
func (l *peering) leaderListens() {
	m := l.term.leader
	if !l.atLeader.open || m.stopped {
		return // see Resume
	}
	if silentUntil := l.atLeader.heard.Add(m.ensemble.syncTimeout()); time.Until(silentUntil) > 0 {
		m.ensemble.schedule(silentUntil, l.leaderListens)
		return
	}
	l.leaderCloses()
}

// learnerListens is likewise.
func (l *peering) learnerListens() {
	m := l.learner
	if !l.atLearner.open || m.stopped {
		return
	}
	if silentUntil := l.atLearner.heard.Add(m.ensemble.syncTimeout()); time.Until(silentUntil) > 0 {
		m.ensemble.schedule(silentUntil, l.learnerListens)
		return
	}
	l.learner.lost(l)
}

// send puts a packet on its way.
func (s *stretch) send(receive func()) {
	e := s.ensemble
	at := time.Now().Add(e.delay + s.from.delay + s.to.delay)
	if n := len(s.packets); n > 0 && s.packets[n-1].at.After(at) {
		at = s.packets[n-1].at
	}
	s.packets = append(s.packets, packet{at, receive})
	s.arm()
}

// arm puts the first packet on the agenda.
func (s *stretch) arm() {
	if !s.armed && len(s.packets) > 0 {
		s.armed = true
		s.ensemble.schedule(s.packets[0].at, func() {
			s.armed = false
			s.pump()
		})
	}
}

// pump has the packets received that have arrived. It stops where the network
// is cut, and at a member that is stopped: Heal and Resume go on.
func (s *stretch) pump() {
	for len(s.packets) > 0 && !s.to.stopped && !s.ensemble.cut(s.from, s.to) {
		if time.Until(s.packets[0].at) > 0 {
			s.arm()
			return
		}
		p := s.packets[0]
		s.packets[0] = packet{}
		s.packets = s.packets[1:]
		p.receive()
	}
}

// pump has everything received that can be, after a change of the network.
func (e *Ensemble) pump() {
	for _, l := range e.peerings() {
		l.up.pump()
		l.down.pump()
	}
}

// peerings returns the connections between members on which packets may be.
func (e *Ensemble) peerings() []*peering {
	kept := e.links[:0]
	for _, l := range e.links {
		if l.atLeader.open || l.atLearner.open || len(l.up.packets) > 0 || len(l.down.packets) > 0 {
			kept = append(kept, l)
		}
	}
	clear(e.links[len(kept):])
	e.links = kept
	return append([]*peering(nil), kept...)
}
