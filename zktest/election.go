package zktest

import (
	"cmp"
	"slices"
	"time"
)

// majority tells whether n voting members are enough.
func (e *Ensemble) majority(n int) bool { return n > e.opts.ensemble.voters/2 }

// consider is called after each change of who is there and who reaches whom:
// members without a leader join one or elect one, after the election time.
func (e *Ensemble) consider() {
	if e.closed {
		return
	}
	now := time.Now()
	for _, m := range e.members {
		t := e.leaderFor(m)
		switch {
		case t == nil:
			m.joining = false
		case !m.joining:
			m.joining, m.joinAt = true, now.Add(e.opts.ensemble.election)
			e.schedule(m.joinAt, e.consider)
		case !now.Before(m.joinAt):
			m.follow(t)
			e.consider() // others may join by that
			return
		}
	}
	best := e.candidate()
	switch {
	case best == nil:
		e.able = false
	case !e.able:
		e.able, e.electAt = true, now.Add(e.opts.ensemble.election)
		e.schedule(e.electAt, e.consider)
	case !now.Before(e.electAt):
		e.able = false
		e.lead(best)
		e.consider() // others may join it
	}
}

// leaderFor returns the term of the leader that a member without one can join:
// a majority says that it leads.
func (e *Ensemble) leaderFor(m *Member) *term {
	if !m.looking() {
		return nil
	}
	for _, l := range e.members {
		t := l.term
		if t == nil || l.stopped || e.cut(m, l) {
			continue
		}
		votes := 1
		for _, v := range e.members {
			if !v.observes && !v.stopped && v.link != nil && v.link.term == t && !e.cut(m, v) {
				votes++
			}
		}
		if e.majority(votes) {
			return t
		}
	}
	return nil
}

// candidate returns the member that a majority without a leader elects: the one
// that has logged most, of those that reach a majority; nil: none does.
func (e *Ensemble) candidate() *Member {
	var best *Member
	for _, m := range e.members {
		if !m.observes && m.looking() && e.majority(len(e.voters(m))) && (best == nil || rank(m, best) > 0) {
			best = m
		}
	}
	return best
}

// voters returns the voting members that could elect one, itself included.
func (e *Ensemble) voters(of *Member) []*Member {
	return slices.DeleteFunc(e.Members(), func(m *Member) bool {
		return m.observes || !m.looking() || e.cut(of, m)
	})
}

func rank(a, b *Member) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.lastLogged(), b.lastLogged()),
		cmp.Compare(a.number, b.number))
}

func (m *Member) lastLogged() int64 {
	if n := len(m.logged); n > 0 {
		return m.logged[n-1].zxid
	}
	return m.server.leader.zxid
}

// lead makes a member the leader of those that elect it. What it has logged is
// committed by that.
func (e *Ensemble) lead(m *Member) {
	voters := e.voters(m)
	for len(m.logged) > 0 {
		p := m.logged[0]
		if c := e.clocks[p.closes]; p.closes != 0 && c != nil && c.Ended.IsZero() {
			c.Ended = time.Now()
		}
		m.apply(p)
	}
	e.epochs++
	e.tell("%s leads, epoch %d", m.Name(), e.epochs)
	t := newTerm(m, e.epochs)
	for _, v := range voters {
		if v != m {
			v.follow(t)
		}
	}
}
