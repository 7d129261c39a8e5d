package model

// Large returns the configurations that take minutes.
//
//nolint:funlen // a table
func Large() []Config {
	return []Config{
		{
			Name: "three of two priorities", Lag: 1, Expiries: 1,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "three of two priorities, late requests", Lag: 0, Expiries: 1, Late: 1,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a lease ends", Lag: 1, Leases: 1,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), exclusive(2, 1)},
		},
		{
			Name: "readers and a writer that takes over", Lag: 0, Expiries: 1,
			Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a reader passes the writer", Lag: 1,
			Requests: []Request{reader(0, 1), exclusive(1, 1), reader(2, 2)},
		},
		{
			Name: "a writer that shares", Lag: 0, Expiries: 1,
			Requests: []Request{with(exclusive(0, 1), downgrades), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a break among readers", Lag: 0, Breaks: 1,
			Requests: []Request{reader(0, 1), reader(1, 1), exclusive(2, 1)},
		},
		{
			Name: "one that revises, and one that takes over", Lag: 0,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 1), revises), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "the idle lock is removed, a knock is late", Lag: 0, Expiries: 1, Removals: 1, Late: 1, Knocks: true,
			NoGiveUp: true,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), exclusive(0, 1), with(exclusive(1, 1), downgrades)},
		},
		{
			Name: "delays, all ends", Lag: 1, Expiries: 1, LostReply: 1, Late: 1, Breaks: 1,
			Requests: []Request{with(exclusive(0, 1), delays), with(exclusive(1, 2), forceful, delays)},
		},
		{
			Name: "readers with delays and a writer", Lag: 0, Expiries: 1,
			Requests: []Request{with(reader(0, 1), delays), with(reader(1, 1), delays), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a reader with a delay, two without, and a writer", Lag: 0, Expiries: 1, NoGiveUp: true,
			Requests: []Request{with(reader(0, 1), delays), reader(1, 1), reader(2, 1), exclusive(1, 1)},
		},
		{
			Name: "a reader with a delay comes again", Lag: 0, Expiries: 1,
			Requests: []Request{with(reader(0, 1), delays), reader(1, 1), reader(1, 1), exclusive(2, 1)},
		},
		{
			Name: "three of two priorities, replies are lost", Lag: 1, Expiries: 1, LostReply: 1, Late: 1,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "three priorities, two behind", Lag: 2, Expiries: 1, Leases: 1,
			Requests: []Request{exclusive(0, 1), exclusive(1, 2), with(exclusive(2, 3), forceful)},
		},
		{
			Name: "readers and a writer, two behind", Lag: 2, Expiries: 1,
			Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "readers and a writer, replies are lost", Lag: 1, LostReply: 1, Late: 1, Expiries: 1,
			Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "four exclusive, two clients twice", Lag: 1, Foresees: true, Knocks: true, Expiries: 1,
			Requests: []Request{exclusive(0, 1), exclusive(0, 1), exclusive(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "four of mixed modes", Lag: 0,
			Requests: []Request{reader(0, 1), reader(1, 1), exclusive(2, 1), with(exclusive(3, 2), forceful)},
		},
		{
			Name: "four, an important reader", Lag: 0, NoGiveUp: true, Expiries: 1,
			Requests: []Request{reader(0, 1), exclusive(1, 1), reader(2, 2), with(exclusive(3, 2), forceful)},
		},
		{
			Name: "a writer that shares, two behind", Lag: 2, Expiries: 1, Leases: 1,
			Requests: []Request{with(exclusive(0, 1), downgrades), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a break among readers and a writer that takes over", Lag: 1, Breaks: 1,
			Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "three with delays", Lag: 1, Expiries: 1, Breaks: 1,
			Requests: []Request{with(exclusive(0, 1), delays), with(exclusive(1, 1), delays), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "readers with delays, replies are lost", Lag: 1, Expiries: 1, LostReply: 1,
			Requests: []Request{with(reader(0, 1), delays), with(reader(1, 1), delays), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a writer with a delay that shares", Lag: 0, Expiries: 1, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), delays, downgrades), with(reader(1, 1), delays), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "delays, removals, two sessions end", Lag: 1, Expiries: 2, Removals: 1, Late: 1,
			Requests: []Request{with(exclusive(0, 1), delays), exclusive(0, 1), with(exclusive(1, 1), delays)},
		},
		{
			Name: "the agent of a hold dies", Lag: 0, Expiries: 1, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1), adopts(0)),
				exclusive(3, 2),
			},
		},
		{
			Name: "a companion joins, two behind", Lag: 2, Expiries: 1, Leases: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "a companion joins, late requests, lost replies", Lag: 1, LostReply: 1, Late: 1, Expiries: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "a companion joins for cleanup, two behind", Lag: 2, Expiries: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), cleans(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "the agent of a hold dies, and one takes over", Lag: 0, Expiries: 2, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1), adopts(0)),
				with(exclusive(3, 2), forceful),
			},
		},
		{
			Name: "one that waits with a delay is adopted", Lag: 1, Expiries: 2,
			Requests: []Request{with(exclusive(0, 1), delays), with(exclusive(1, 1), outlives, delays), with(exclusive(2, 1),
				adopts(1), delays)},
		},
		{
			Name: "a hold is adopted, late requests, lost replies, and one that takes over", Lag: 1, LostReply: 1, Late: 1,
			Expiries: 2, Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "one that waits is adopted, and one takes over", Lag: 0, Expiries: 1,
			Requests: []Request{
				exclusive(0, 1), with(exclusive(1, 1), outlives), with(exclusive(2, 1), adopts(1)),
				with(exclusive(3, 2), forceful),
			},
		},
		{
			Name: "one that waits is adopted while it moves", Lag: 1, LostReply: 1,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 1),
				outlives, becomes(3)), with(exclusive(2, 1), adopts(1)), with(exclusive(1, 2), outlives)},
		},
		{
			Name: "companions with delays", Lag: 0, Expiries: 2, Breaks: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives, delays), with(exclusive(1, 1), joins(0), delays), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "a hold with a delay is resumed, all ends", Lag: 0, Expiries: 1, Breaks: 1, Lapses: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives, delays), with(exclusive(1, 1), adopts(0), delays), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "two adopt a hold, one joins", Lag: 1, Expiries: 2,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0)), with(exclusive(2, 1), adopts(0)),
				with(exclusive(3, 1), joins(0)),
			},
		},
		{
			Name: "a hold is adopted, and adopted again", Lag: 0, Expiries: 3,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0)), with(exclusive(2, 1), adopts(1)),
				with(exclusive(3, 2), forceful),
			},
		},
		{
			Name: "a hold of readers, another reader, a writer that takes over", Lag: 0, Expiries: 1,
			Requests: []Request{
				with(reader(0, 1), outlives), with(reader(1, 1), joins(0)), reader(2, 1), with(exclusive(3, 2), forceful),
			},
		},
		{
			Name: "a hold of readers is adopted", Lag: 1, Expiries: 1,
			Requests: []Request{
				with(reader(0, 1), outlives, delays), with(reader(1, 1), adopts(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "two queue for one hold", Lag: 0, Expiries: 1,
			Requests: []Request{with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0)), with(exclusive(2, 2),
				outlives, forceful), with(exclusive(3, 1), joins(2))},
		},
		{
			Name: "a hold is adopted, its client comes again", Lag: 1, Expiries: 1, Removals: 1, Foresees: true, Knocks: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), exclusive(0, 1), with(exclusive(1, 1), adopts(0)), exclusive(1, 1),
			},
		},
		{
			Name: "readers open a lock, and walk in", Held: true, Lag: 0, Opens: true, NoGiveUp: true,
			Requests: []Request{reader(0, 1), reader(1, 1), reader(2, 1), with(exclusive(3, 2), forceful)},
		},
		{
			Name: "readers walk in, late requests, lost replies", Lag: 1, Expiries: 1, LostReply: 1, Late: 1, Opens: true,
			Open: true, Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "readers walk in, two behind", Lag: 2, Expiries: 1, Opens: true, Open: true,
			Requests: []Request{reader(0, 1), reader(1, 1), exclusive(2, 1)},
		},
		{
			Name: "readers walk in, and the idle lock is removed", Lag: 1, Expiries: 1, Removals: 1, Late: 1, Idle: 1,
			Opens: true, Open: true, NoGiveUp: true, Requests: []Request{reader(0, 1), reader(1, 1), exclusive(2, 1)},
		},
		{
			Name: "readers walk in, and a writer that shares", Lag: 0, Expiries: 1, Opens: true,
			Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful, downgrades)},
		},
		{
			Name: "readers walk in, one of them with a delay", Lag: 1, Expiries: 1, Opens: true, Open: true, NoGiveUp: true,
			Requests: []Request{reader(0, 1), with(reader(1, 1), delays), exclusive(2, 1)},
		},
		{
			Name: "a reader walks in again", Lag: 0, Expiries: 1, Opens: true, Open: true,
			Requests: []Request{reader(0, 1), reader(1, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "readers walk in, a break, a reader that outlives", Lag: 0, Breaks: 1, Expiries: 1, Opens: true, Open: true,
			Requests: []Request{reader(0, 1), with(reader(1, 1), outlives), with(exclusive(2, 2), forceful)},
		},
	}
}
