// Package deadlines measures, on real ensembles, how long before the next grant a holder learns that it has lost its
// lock.
//
// The one idea: many holders, each with a session, a lock and a waiter of its own, meet one fault at one instant. For
// each holder the gap is the time from its Lost notice to the grant of its waiter. A negative gap means two holders.
// A run fails when a gap is below Config.Margin by more than this process's timers were late meanwhile.
//
//	bench, err := deadlines.Open(ctx, deadlines.Setup{Voters: 3, Tick: 500 * time.Millisecond})
//	…
//	samples, err := bench.Run(ctx, deadlines.FollowerKilled, seed, deadlines.Specs(sessions, margins, 8))
//	fmt.Print(deadlines.Table(samples))
//
// A holder reaches one server only, through a proxy (see way.go) that reads the frames, and no other server
// afterwards. They connect at random moments. A write of half of them is answered right before the fault, and
// half of them have got an earlier answer late.
//
//	go test -tags deadlines ./integration/deadlines                                         # a small part: a minute
//	go test -tags deadlines ./integration/deadlines -v -timeout 0 -args -whole                  # the whole table: an hour
//	go test -tags deadlines ./integration/deadlines -v -timeout 0 -args -whole -voters 3 -ticks 2s -synclimits 5,10 \
//	    -faults leader-deposed-fast -sessions 4s,10s -margins default,1t,3s -seed 1        # a part of it
//	go test -tags deadlines ./integration/deadlines -v -timeout 0 -args -peers -sessions 10s    # zk.Lock and Curator instead
package deadlines
