package bugs

// All returns all bugs. What each does to the protocol is told in docs/protocol.md,
// under "Why each guard".
func All() []Bug {
	return []Bug{
		{
			Name: "grab-without-version",
			What: "T1 does not check the version of G: two newcomers find the lock idle, and both take it",
			Patches: []Patch{{
				"recipes/prioritylock.go",
				"&zk.SetDataRequest{Path: l.path, Data: record, Version: version})",
				"&zk.SetDataRequest{Path: l.path, Data: record, Version: -1})",
			}},
		},
		{
			Name: "self-grant-without-version",
			What: "T3 does not check the version of G: the first waiter grants itself beside a newcomer that was faster",
			Patches: []Patch{{
				"recipes/lead.go",
				"&zk.SetDataRequest{Path: p.a.l.path, Data: p.joining(next).encode(), Version: stat.Version})\n\tif err == nil {\n\t\tp.makePeace()",
				"&zk.SetDataRequest{Path: p.a.l.path, Data: p.joining(next).encode(), Version: -1})\n\tif err == nil {\n\t\tp.makePeace()",
			}},
		},
		{
			Name:  "list-before-version",
			What:  "a waiter lists the contenders before it reads G: a holder that came in between looks dead",
			Quiet: true,
			Patches: []Patch{{
				"recipes/queue.go",
				`	data, stat, err := s.get(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
	g, err := l.grants(ctx, s, data, stat.Version)
	if err != nil {
		return nil, 0, err
	}
	p.settleDelayed(g)
	names, now, err := s.list(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
`,
				`	names, now, err := s.list(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
	data, stat, err := s.get(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
	g, err := l.grants(ctx, s, data, stat.Version)
	if err != nil {
		return nil, 0, err
	}
	p.settleDelayed(g)
`,
			}},
		},
		{
			Name: "hand-over-without-own-node",
			What: "T4 does not contain the holder's own node: one that was taken over a moment ago hands over all the same",
			Patches: []Patch{
				{"recipes/release.go", "\tops = append(ops, &zk.DeleteRequest{Path: g.path, Version: -1})\n", ""},
				{
					"recipes/release.go",
					`	_, failed, err := g.s.multi(ctx, ops...)
	if failed == 0 && errors.Is(err, zk.ErrNoNode) {
		return errHolderGone
	}
	return err
`,
					`	_, _, err := g.s.multi(ctx, ops...)
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
				"recipes/release.go",
				"Data: next.encode(), Version: line.version})",
				"Data: next.encode(), Version: -1})",
			}},
		},
		{
			Name: "one-reader-evicted",
			What: "T7 evicts one of several readers only",
			Patches: []Patch{
				{
					"recipes/lead.go",
					"\t\tops = append(ops, &zk.DeleteRequest{Path: h.path, Version: -1})\n",
					"\t\tif len(ops) == 0 {\n\t\t\tops = append(ops, &zk.DeleteRequest{Path: h.path, Version: -1})\n\t\t}\n",
				},
				{
					"recipes/lead.go",
					"return p.ownGrant(r, len(holders), ",
					"return p.ownGrant(r, len(ops)-2, ",
				},
			},
		},
		{
			Name:  "no-session-deadline",
			What:  "a holder that is cut off goes on until it hears that its session is over",
			Quiet: true,
			Patches: []Patch{{
				"recipes/watchdog.go",
				"\t\tif now >= end {\n\t\t\ts.lose(",
				"\t\tif now >= end.add(time.Hour) {\n\t\t\ts.lose(",
			}},
		},
		{
			Name: "release-before-cleanup",
			What: "the lock is given away while cleanup hooks run",
			Patches: []Patch{{
				"lockguard/hold.go",
				"\tif cause != nil {\n\t\tend.hooks = h.cleanUp()\n\t}\n",
				"\tif cause != nil {\n\t\tgo func() { _ = h.cleanUp() }()\n\t}\n",
			}},
		},
		{
			Name: "token-of-the-place",
			What: "the token is that of the place in the queue, as a sequence number is, and not of the grant: whoever is more important came later",
			Patches: []Patch{
				{"recipes/record.go", "\treturn Token(stat.Mzxid)\n", "\treturn Token(stat.Czxid)\n"},
				{"recipes/lead.go", "= Token(r[own].Stat.Mzxid), r[own+1]", "= Token(r[own].Stat.Czxid), r[own+1]"},
			},
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
