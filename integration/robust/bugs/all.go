package bugs

import (
	"time"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
)

// All returns all bugs. What each does to the protocol is told in docs/protocol.md,
// under "Why each guard".
func All() []Bug {
	return []Bug{
		{
			Name: "grab-without-version",
			What: "T1 does not check the version of G: two newcomers find the lock idle, and both take it",
			Patches: []Patch{{
				"recipes",
				"zk.SetDataRequest{Path: l.path, Data: record, Version: t.version}",
				"zk.SetDataRequest{Path: l.path, Data: record, Version: -1}",
			}},
		},
		{
			Name: "walk-in-without-version",
			What: "T18 does not check the version of L: a reader that knew the lock to be open walks in beside a writer",
			Patches: []Patch{{
				"recipes",
				"&zk.CheckVersionRequest{Path: l.path, Version: at.version})\n\tl.c.hints",
				"&zk.CheckVersionRequest{Path: l.path, Version: -1})\n\tl.c.hints",
			}},
		},
		{
			Name: "self-grant-without-version",
			What: "T3 does not check the version of G: the first waiter grants itself beside a newcomer that was faster",
			Patches: []Patch{{
				"recipes",
				"&zk.SetDataRequest{Path: p.a.l.path, Data: p.joining(next).encode(), Version: stat.Version})\n\tif err == nil {\n\t\tp.makePeace()",
				"&zk.SetDataRequest{Path: p.a.l.path, Data: p.joining(next).encode(), Version: -1})\n\tif err == nil {\n\t\tp.makePeace()",
			}},
		},
		{
			Name:  "list-before-version",
			What:  "a waiter lists the contenders before it reads G: a holder that came in between looks dead",
			Quiet: true,
			Patches: []Patch{
				{
					"recipes",
					`	if !together {
		var err error
		if at.data, at.stat, err = s.get(ctx, l.path); err != nil {
			return nil, 0, err
		}
	}
	stat := at.stat
	g, err := l.grants(ctx, s, at.data, stat.Version)
	if err != nil {
		return nil, 0, err
	}
	p.settleDelayed(g)
	if !together {
		if there, err = s.contenders(ctx, l.path); err != nil {
			return nil, 0, err
		}
	}
`,
					`	_ = together
	there, err := s.contenders(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
	if at.data, at.stat, err = s.get(ctx, l.path); err != nil {
		return nil, 0, err
	}
	stat := at.stat
	g, err := l.grants(ctx, s, at.data, stat.Version)
	if err != nil {
		return nil, 0, err
	}
	p.settleDelayed(g)
`,
				},
			},
		},
		{
			Name: "hand-over-without-own-node",
			What: "T4 does not contain the holder's own node: one that was taken over a moment ago hands over all the same",
			// It has to release when it is taken over, and to find somebody in front who
			// came after that; and whoever has taken over has to stay.
			Tempo: 3,
			Lanes: 3,
			Kinds: []nemesis.Kind{nemesis.LinkSlow},
			Patches: []Patch{
				{
					"recipes",
					"append(ops, &zk.DeleteRequest{Path: g.path, Version: -1}, &zk.SetData",
					"append(ops, &zk.SetData",
				},
				{
					"recipes",
					`	if failed == len(line.heirs) && errors.Is(err, zk.ErrNoNode) {
		return errHolderGone
	}
	return err
`,
					`	_ = failed
	if err == nil {
		err = g.s.deleteSurely(ctx, g.path)
	}
	return err
`,
				},
			},
		},
		{
			Name: "readers-hand-over-without-version",
			What: "T4 of a shared holder does not check the version of G: a reader that came in meanwhile is forgotten, and believes that it holds",
			Patches: []Patch{{
				"recipes",
				"Data: next.encode(), Version: line.version})",
				"Data: next.encode(), Version: -1})",
			}},
		},
		{
			Name: "one-reader-evicted",
			What: "T7 evicts one of several readers only",
			// Several have to stay until somebody is forceful: many readers, and faults that
			// do not disturb.
			Readers: 75,
			Tempo:   3,
			Kinds:   []nemesis.Kind{nemesis.ClientClock},
			Patches: []Patch{
				{
					"recipes",
					"\t\tops = append(ops, &zk.DeleteRequest{Path: h.path, Version: -1})\n",
					"\t\tif len(ops) == 0 {\n\t\t\tops = append(ops, &zk.DeleteRequest{Path: h.path, Version: -1})\n\t\t}\n",
				},
				{
					"recipes",
					"return p.ownGrant(r, len(holders), ",
					"return p.ownGrant(r, len(ops)-2, ",
				},
			},
		},
		{
			Name:  "no-session-deadline",
			What:  "a holder that is cut off goes on until it hears that its session is over",
			Quiet: true,
			Patches: []Patch{
				{
					"recipes",
					"\t\tif now >= end {\n\t\t\ts.lose(",
					"\t\tif now >= end.add(time.Hour) {\n\t\t\ts.lose(",
				},
				{
					"recipes",
					"return g.blindTo != 0 && now >= g.blindTo",
					"return g.blindTo != 0 && now >= g.blindTo.add(time.Hour)",
				},
			},
		},
		{
			Name: "answer-is-a-touch",
			What: "the deadline of the session counts from the last answer through the leader, of which a follower may not have told the leader",
			// A tick as long as the session allows, and holds that last to the end of their session.
			Quiet:   true,
			Tempo:   10,
			Calm:    100,
			Tick:    time.Second,
			Session: 2 * time.Second,
			Kinds:   []nemesis.Kind{nemesis.FollowerKillAcked, nemesis.FollowerPauseAcked, nemesis.FollowerPartitionAcked},
			Patches: []Patch{{
				"recipes",
				"\treturn s.touches.known().add(s.timeout - s.c.margin(s.timeout))\n",
				"\treturn s.lastAck.add(s.timeout - s.c.margin(s.timeout))\n",
			}},
		},
		{
			Name: "release-before-cleanup",
			What: "the lock is given away while cleanup hooks run",
			Patches: []Patch{{
				"lockguard",
				"\tif cause != nil {\n\t\tend.hooks = h.cleanUp()\n\t}\n",
				"\tif cause != nil {\n\t\tgo func() { _ = h.cleanUp() }()\n\t}\n",
			}},
		},
		{
			Name: "token-of-the-place",
			What: "the token is that of the place in the queue, as a sequence number is, and not of the grant: whoever is more important came later",
			Patches: []Patch{
				{"recipes", "\treturn Token(stat.Mzxid)\n", "\treturn Token(stat.Czxid)\n"},
				{"recipes", "= Token(r[own].Stat.Mzxid), r[own+1]", "= Token(r[own].Stat.Czxid), r[own+1]"},
			},
		},
		{
			Name: "dead-waiter-goes-on",
			What: "T3, T6 and T7 do not contain the waiter's own node, and it does not look there either: " +
				"one whose session has ended goes on in the next one, and takes the lock although its place is gone",
			// Without the node in those transactions alone nothing follows: requests
			// are never sent in another session than they were made for.
			Quiet: true,
			Kinds: []nemesis.Kind{nemesis.LinkBlackhole, nemesis.LinkMute, nemesis.LinkHalfOpen, nemesis.SessionExpire, nemesis.SessionsExpire, nemesis.ClientKill},
			Patches: []Patch{
				{
					"recipes",
					"\tr, _, err := p.s.multi(ctx,\n\t\t&zk.SetDataRequest{Path: p.path, Data: p.grantedData(), Version: p.version},\n",
					"\tr, _, err := p.s.multi(ctx,\n",
				},
				{
					"recipes",
					"\t\tp.makePeace()\n\t}\n\treturn p.ownGrant(r, 0, next, err)\n}\n",
					`		p.makePeace()
		r = p.mark(ctx, r)
	}
	return p.ownGrant(r, 0, next, err)
}

// mark writes the own node apart.
func (p *place) mark(ctx context.Context, r []zk.MultiResponse) []zk.MultiResponse {
	_, _ = p.s.set(ctx, p.path, p.grantedData(), p.version)
	return append(r, r[len(r)-1])
}

// goesOn goes on in the next session.
func (p *place) goesOn(ctx context.Context, err error) bool {
	if !errors.Is(err, errSessionOver) {
		return false
	}
	s, err := p.a.l.c.session(ctx)
	if err == nil {
		p.s = s
	}
	return err == nil
}
`,
				},
				{"recipes", "\t\t\t&zk.SetDataRequest{Path: p.path, Data: p.grantedData(), Version: p.version},\n", ""},
				{
					"recipes",
					"\t\tp.asks = make(map[string]*standingAsk)\n\t\tp.a.notices.send(TookOver{From: from})\n",
					"\t\tp.asks = make(map[string]*standingAsk)\n\t\tr = p.mark(ctx, r)\n\t\tp.a.notices.send(TookOver{From: from})\n",
				},
				{
					"recipes",
					"\t\t&zk.CheckVersionRequest{Path: p.path, Version: -1},\n\t\t&zk.SetDataRequest{Path: h.path,",
					"\t\t&zk.SetDataRequest{Path: h.path,",
				},
				{
					"recipes",
					"\t\tg, after, err := p.decide(ctx)\n",
					"\t\tg, after, err := p.decide(ctx)\n\t\tif p.goesOn(ctx, err) {\n\t\t\tcontinue\n\t\t}\n",
				},
				{
					"recipes",
					"\t\tif err := p.block(ctx, after); err != nil {\n",
					"\t\tif err := p.block(ctx, after); err != nil {\n\t\t\tif p.goesOn(ctx, err) {\n\t\t\t\tcontinue\n\t\t\t}\n",
				},
				{
					"recipes",
					"\t\t\treturn nil, 0, p.evicted(ctx)\n\t\tcase err != nil:\n\t\t\tp.stale.Store(true)\n",
					"\t\t\treturn p.weigh(ctx)\n\t\tcase err != nil:\n\t\t\tp.stale.Store(true)\n",
				},
				{"recipes", "\t} else if p.gone.Load() {\n\t\treturn nil, 0, p.evicted(ctx)\n\t}\n", "\t}\n"},
				{
					"recipes",
					`	if pos < 0 {
		if p.gone.Load() || s.isOver() {
			return nil, 0, p.evicted(ctx)
		}
		p.stale.Store(true) // the look at the own node tells
		return nil, 0, errAgain
	}
`,
					`	if pos < 0 {
		me, _ := parseChild(p.name)
		pos, pred = 0, child{}
		for _, c := range children {
			if !holding(c) && c.place.Before(me.place) {
				pos, pred = pos+1, c
			}
		}
	}
`,
				},
			},
		},
		{
			Name:  "grant-of-another-session",
			What:  "a grant is not lost with the session under which it was made: its holder believes in it on while the client has the next one",
			Quiet: true,
			Kinds: []nemesis.Kind{nemesis.SessionExpire, nemesis.SessionsExpire},
			Patches: []Patch{{
				"recipes",
				"func (s *session) finish() {\n\ts.lose(s.overErr)\n",
				"func (s *session) finish() {\n",
			}},
		},
		{
			Name: "queue-without-priority",
			What: "the queue is in the order of the sequence numbers alone: first come, first served, however important",
			Patches: []Patch{{
				"recipes",
				"cmp.Or(cmp.Compare(b.place.Level, a.place.Level), compareSequence(a.place.Sequence, b.place.Sequence), ",
				"cmp.Or(compareSequence(a.place.Sequence, b.place.Sequence), ",
			}},
		},
		{
			Name: "late-creates-stay",
			What: "a node whose creation was acknowledged after its caller had given up is not deleted: nobody knows of it, and it keeps the lock for as long as the session lives",
			// The create arrives, its reply does not, and the connection is not back before
			// the caller has given up.
			Kinds: []nemesis.Kind{nemesis.LinkMute, nemesis.LinkMute, nemesis.LinkStall, nemesis.ReplyDrop},
			Patches: []Patch{{
				"recipes",
				"func (a *attempt) undo(s *session, guid string) {\n",
				"func (a *attempt) undo(s *session, guid string) {\n\tif !a.l.c.isClosing() {\n\t\treturn\n\t}\n",
			}},
		},
	}
}

// Named returns the bug with a name.
func Named(name string) (Bug, bool) {
	for _, b := range All() {
		if b.Name == name {
			return b, true
		}
	}
	return Bug{}, false
}
