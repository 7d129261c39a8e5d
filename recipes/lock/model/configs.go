package model

func exclusive(client, priority int) Request { return Request{Client: client, Priority: priority} }

func reader(client, priority int) Request {
	return Request{Client: client, Priority: priority, Shared: true}
}

func with(r Request, changes ...func(*Request)) Request {
	for _, change := range changes {
		change(&r)
	}
	return r
}

func forceful(r *Request)   { r.Forceful = true }
func delays(r *Request)     { r.Delay = true }
func downgrades(r *Request) { r.Downgrades = true }
func revises(r *Request)    { r.Revises = true }

func line(behind int) func(*Request) { return func(r *Request) { r.Turns = behind } }

func outlives(r *Request) { r.Hold = 1 }

func joins(of int) func(*Request)  { return comes(Joins, of) }
func cleans(of int) func(*Request) { return comes(Cleans, of) }
func adopts(of int) func(*Request) { return comes(Adopts, of) }

func blind(r *Request) { r.Blind = true }

func comes(role Role, of int) func(*Request) {
	return func(r *Request) { r.Hold, r.Role, r.Of = 1, role, of }
}

func becomes(k int) func(*Request) { return func(r *Request) { r.Becomes = k } }

// Bounded returns the configurations that a test explores to the end in seconds.
// Their requests are called A, B, C and D.
//
//nolint:funlen // a table
func Bounded() []Config {
	return []Config{
		{
			Name: "two clients, two sessions end, late requests", Lag: 2, Expiries: 2, Late: 2,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "two clients, replies are lost", Lag: 2, Expiries: 1, LostReply: 2, Late: 1,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "a reader and a writer, late requests, lost replies", Lag: 2, Expiries: 1, LostReply: 1, Late: 1,
			Requests: []Request{reader(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "a writer that shares, late requests, lost replies", Lag: 1, Expiries: 1, LostReply: 1, Late: 1,
			Requests: []Request{with(exclusive(0, 1), downgrades), reader(1, 1)},
		},
		{
			Name: "a client comes again", Lag: 1, Expiries: 1, Knocks: true, Foresees: true,
			Requests: []Request{exclusive(0, 1), exclusive(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "a client comes again, another with it", Lag: 0, Foresees: true, Knocks: true,
			Requests: []Request{exclusive(0, 1), exclusive(0, 1), exclusive(1, 1), exclusive(1, 1)},
		},
		{
			Name: "an administrator deletes nodes, a deadline passes", Lag: 1, Deletes: 1, Lapses: 1,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "a writer that moves up", Lag: 0,
			Requests: []Request{
				exclusive(0, 1), with(exclusive(1, 1), becomes(3)), with(exclusive(2, 2), forceful), exclusive(1, 2),
			},
		},
		{
			Name: "a reader that moves down", Lag: 0,
			Requests: []Request{with(reader(0, 2), becomes(3)), reader(1, 1), exclusive(2, 1), reader(0, 1)},
		},
		{
			Name: "a move whose reply is lost", Lag: 1, LostReply: 1,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 1), becomes(2)), exclusive(1, 2)},
		},
		{
			Name: "one that revises", Lag: 2, LostReply: 1, Leases: 1,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 1), revises)},
		},
		{
			Name: "the idle lock is removed", Lag: 1, Expiries: 1, Removals: 1, Idle: 1, Late: 1,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1)},
		},
		{
			Name: "delays, deletes, lapses and removals", Lag: 1, Expiries: 1, Deletes: 1, Lapses: 1, Removals: 1,
			Requests: []Request{with(exclusive(0, 1), delays), with(exclusive(1, 1), delays)},
		},
		{
			Name: "delays, a client comes again", Lag: 0, Expiries: 1,
			Requests: []Request{with(exclusive(0, 1), delays), exclusive(0, 1), with(exclusive(1, 1), delays)},
		},
		{
			Name: "a reader with a delay, one without, and a writer", Lag: 0, Expiries: 1,
			Requests: []Request{with(reader(0, 1), delays), reader(1, 1), exclusive(2, 1)},
		},
		{
			Name: "a companion joins", Lag: 1, Expiries: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "a companion joins for cleanup", Lag: 0, Expiries: 1, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), cleans(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "a hold is adopted", Lag: 1, Expiries: 1, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0)), with(exclusive(2, 2), forceful),
			},
		},
		{
			Name: "a hold is adopted, late requests, lost replies", Lag: 1, Expiries: 1, LostReply: 1, Late: 1,
			Requests: []Request{with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0))},
		},
		{
			Name: "one that waits is adopted", Lag: 1, Expiries: 1,
			Requests: []Request{exclusive(0, 1), with(exclusive(1, 1), outlives), with(exclusive(2, 1), adopts(1))},
		},
		{
			Name: "a hold with a delay is resumed", Lag: 0, Expiries: 2, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives, delays), with(exclusive(1, 1), adopts(0), delays), exclusive(2, 2),
			},
		},
		{
			Name: "a hold of readers", Lag: 0, Expiries: 1,
			Requests: []Request{with(reader(0, 1), outlives), with(reader(1, 1), joins(0)), exclusive(2, 2)},
		},
		{
			Name: "a hold is broken", Lag: 1, Breaks: 1, Expiries: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1), adopts(0)),
			},
		},
		{
			Name: "a hold is followed by another of its client", Lag: 1, Foresees: true, Knocks: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), exclusive(0, 1), with(exclusive(1, 1), joins(0)), exclusive(1, 1),
			},
		},
		{
			Name: "one that reads all at once, late requests, lost replies", Lag: 2, Expiries: 1, LostReply: 1, Late: 1,
			Scouts: true, Requests: []Request{exclusive(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "one that reads all at once comes to a client that comes again", Lag: 1, Expiries: 1, Foresees: true,
			Scouts: true, Requests: []Request{exclusive(0, 1), exclusive(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "readers open a lock", Lag: 1, Opens: true,
			Requests: []Request{reader(0, 1), reader(1, 2), exclusive(2, 1)},
		},
		{
			Name: "readers walk in, and a writer", Lag: 1, Expiries: 1, Opens: true, Open: true,
			Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a reader walks in, late requests, lost replies", Lag: 1, Expiries: 1, LostReply: 1, Late: 1, Opens: true,
			Open: true, Requests: []Request{reader(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "readers walk in, a lock that is broken, nodes that are deleted", Lag: 1, Breaks: 1, Deletes: 1, Opens: true,
			Open: true, Requests: []Request{reader(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "a reader with a delay finds the lock open", Lag: 0, Expiries: 1, Opens: true, Open: true, NoGiveUp: true,
			Requests: []Request{reader(0, 1), with(reader(1, 1), delays), exclusive(2, 1)},
		},
		{
			Name: "a line, late requests, lost replies", Lag: 1, Expiries: 1, LostReply: 1, Late: 1,
			Requests: []Request{with(exclusive(0, 1), line(1)), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "a line and a stranger of its priority", Lag: 2, Expiries: 1, Leases: 1, Knocks: true, Foresees: true,
			Requests: []Request{with(exclusive(0, 1), line(2)), exclusive(1, 1)},
		},
		{
			Name: "a line, and others of its client", Lag: 1, Knocks: true,
			Requests: []Request{with(exclusive(0, 1), line(1)), exclusive(0, 1), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "two lines, a lock that is broken, nodes that are deleted", Lag: 1, Breaks: 1, Deletes: 1,
			Requests: []Request{with(exclusive(0, 1), line(1)), with(exclusive(1, 1), line(1))},
		},
		{
			Name: "a line, and the idle lock is removed", Lag: 1, Expiries: 1, Removals: 1, Idle: 1, Late: 1,
			Requests: []Request{with(exclusive(0, 1), line(1)), exclusive(1, 1)},
		},
	}
}

// Narrow returns configurations that each are made to miss a guard soon.
//
//nolint:funlen // a table
func Narrow() []Config {
	return []Config{
		{
			Name: "one takes over past another", Held: true, NoGiveUp: true,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a reader comes in beside one that is preempted", Held: true, NoGiveUp: true,
			Requests: []Request{reader(0, 1), reader(1, 1), exclusive(2, 2)},
		},
		{
			Name: "a reader comes in beside one that died", Held: true, NoGiveUp: true, Expiries: 1,
			Requests: []Request{with(reader(0, 1), delays), reader(1, 1), exclusive(2, 2)},
		},
		{
			Name: "a reader with a delay, two without, a writer", Held: true, NoGiveUp: true, Expiries: 1,
			Requests: []Request{with(reader(0, 1), delays), reader(1, 1), reader(2, 1), exclusive(1, 1)},
		},
		{
			Name: "readers, and one that takes over", Held: true, NoGiveUp: true,
			Requests: []Request{reader(0, 1), reader(1, 1), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a reader's lock is broken", Held: true, NoGiveUp: true, Breaks: 1,
			Requests: []Request{reader(0, 1), reader(1, 1)},
		},
		{
			Name: "a writer that shares is preempted", Held: true, NoGiveUp: true,
			Requests: []Request{with(exclusive(0, 1), downgrades), exclusive(1, 2)},
		},
		{
			Name: "a reader comes again beside another", Held: true, NoGiveUp: true,
			Requests: []Request{reader(0, 1), reader(1, 1), reader(1, 1)},
		},
		{
			Name: "a delay, a break and a takeover", Held: true, NoGiveUp: true, Expiries: 1, Breaks: 1,
			Requests: []Request{with(exclusive(0, 1), delays), with(exclusive(1, 2), forceful)},
		},
		{
			Name: "readers with delays, a writer that takes over", Held: true, NoGiveUp: true, Expiries: 1,
			Requests: []Request{with(reader(0, 1), delays), with(reader(1, 1), delays), with(exclusive(2, 2), forceful)},
		},
		{
			Name: "a late hand-over", Held: true, NoGiveUp: true, Expiries: 1, Late: 1,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), exclusive(2, 2)},
		},
		{
			Name: "an end is noticed late, after a removal", Held: true, NoGiveUp: true, NoFastPath: true, Expiries: 2, Late: 1,
			Removals: 1, Requests: []Request{with(exclusive(0, 1), delays), exclusive(1, 1), exclusive(2, 1), exclusive(2, 1)},
		},
		{
			Name: "a knock comes late, after a removal", Held: true, NoGiveUp: true, Expiries: 1, Late: 1, Removals: 1,
			Knocks:   true,
			Requests: []Request{exclusive(0, 1), exclusive(1, 1), exclusive(0, 1), with(exclusive(1, 1), downgrades)},
		},
		{
			Name: "two join a hold", Held: true, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1), joins(1)), exclusive(3, 2),
			},
		},
		{
			Name: "a hold is joined, or the lock removed", Held: true, NoGiveUp: true, NoFastPath: true, Removals: 1,
			Requests: []Request{with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), exclusive(2, 1)},
		},
		{
			Name: "a hold is joined after its agent died", Held: true, NoGiveUp: true, Expiries: 1,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1), joins(0)),
				with(exclusive(3, 1), adopts(0)),
			},
		},
		{
			Name: "the agent of a hold with a delay dies", Held: true, NoGiveUp: true, Expiries: 1,
			Requests: []Request{with(exclusive(0, 1),
				outlives, delays), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1), adopts(0)), exclusive(3, 1)},
		},
		{
			Name: "a hold is granted again", Held: true, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1), outlives),
			},
		},
		{
			Name: "a hold is resumed by a new token", Held: true, NoGiveUp: true, Expiries: 3,
			Requests: []Request{with(exclusive(0, 1), outlives), with(exclusive(1, 1), joins(0)), with(exclusive(2, 1),
				adopts(0), blind), with(exclusive(3, 1), adopts(1))},
		},
		{
			Name: "a hold that would share", Held: true, NoGiveUp: true, Expiries: 2,
			Requests: []Request{with(exclusive(0, 1), outlives, downgrades), reader(1, 1), with(exclusive(2, 1), adopts(0))},
		},
		{
			Name: "a reader walks in", Held: true, NoGiveUp: true, Opens: true, Open: true, Lag: 1,
			Requests: []Request{reader(0, 1), reader(1, 1), exclusive(2, 1)},
		},
		{
			Name: "a reader walks in, or the lock is removed", Idle: 1, NoGiveUp: true, Opens: true, Open: true, Removals: 1,
			Lag: 1, Requests: []Request{reader(0, 1), exclusive(1, 1), exclusive(2, 1)},
		},
		{
			Name: "a line is preempted", Held: true, NoGiveUp: true, LostReply: 1,
			Requests: []Request{with(exclusive(0, 1), line(1)), exclusive(1, 2)},
		},
		{
			Name: "two adopt a hold", Lag: 0, Expiries: 1, NoGiveUp: true,
			Requests: []Request{
				with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0)), with(exclusive(2, 1), adopts(0)),
				exclusive(3, 2),
			},
		},
		{
			Name: "a hold is resumed, or the lock removed", Lag: 1, Expiries: 1, Removals: 1, Late: 1,
			Requests: []Request{with(exclusive(0, 1), outlives), with(exclusive(1, 1), adopts(0)), exclusive(2, 1)},
		},
	}
}
