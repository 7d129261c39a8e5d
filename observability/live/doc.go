// Package live shows what happens to locks now: who holds, who waits, why, since
// when, and what became of those before them.
//
// The idea: one model, read by everybody who shows something. A [Board] follows
// all locks below a root (recipes.Lookout) and makes of what it sees an immutable
// [Snapshot], a history of each lock in spells of waiting and holding
// ([Timeline]), the time lost by waiting ([Heat]) and a stream of numbered events
// ([Entry]). The console, the terminal, pictures and metrics are drawn from those,
// so they agree; and the JSON names of their fields are those that the commands
// promise to scripts.
//
//	lookout, err := client.Lookout(recipes.LookoutOptions{})
//	board, err := live.New(live.Options{Source: lookout, Now: client.Now})
//	go board.Run(ctx)
//	for snapshot := range board.Changes(ctx) {
//		for _, lock := range snapshot.Locks {
//			fmt.Println(lock.Scope, lock.State, len(lock.Waiters))
//		}
//	}
//
// Times are those of the ZooKeeper servers.
//
// # What the history knows
//
// A look at a lock comes a tenth of a second after the one before, at the soonest,
// and holds that began and ended in between are not seen. How a hold ended follows
// from what the tree tells: the record of evictions (EndTaken), a lock-delay
// (EndLost), the requests to go that stood in its mailbox (EndPreempted,
// EndLeaseExpired), and whether its successor was granted in the transaction in
// which it went (EndReleased) or found the lock without its holder, having waited
// for a second at least (EndLost). A process that dies while nobody waits, without a
// lock-delay, leaves nothing to tell it from one that has released: EndReleased.
// Of the holds of this process Board.Observe knows better. What ended while
// ZooKeeper did not answer, without a trace, is EndUnknown.
package live
