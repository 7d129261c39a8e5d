// Package priority is the rulebook of Lockkeeper: the order of the queue, which
// waiter may preempt which holder, how long a victim may clean up, and what
// happens at each deadline.
//
// The one idea: a waiter hands over the facts of a moment and gets a verdict.
// There is no clock, no client and no memory in between, so every case of a
// contention is a row in a table.
//
//	verdict := priority.Judge(priority.Facts{
//		Request: priority.Request{Level: 5, Forceful: true},
//		First:   true, // no other request is waiting before it
//		Holders: []priority.Holder{{
//			Level:          1,
//			CleanupTimeout: 10 * time.Second,
//			Remaining:      priority.Remaining{LeaseLeft: time.Minute},
//		}},
//	})
//	fmt.Println(verdict.Action, verdict.Asks, "then judge again in", verdict.After)
//	// preempt [{0 outranked 10s}] then judge again in 10s
//
// The waiter does what Verdict.Action says, and asks again when something
// happened or when Verdict.After is over, whichever comes first. Left alone,
// the first waiter comes to an end that way: it takes over or gives up.
package priority
