// Package live shows what happens to locks now: who holds, who waits, why, since
// when, and what became of those before them.
//
// The idea: one model, read by everybody who shows something. A [Board] follows
// all locks below a root (lock.Lookout) and makes of what it sees an immutable
// [Snapshot], a history of each lock in spells of waiting and holding
// ([Timeline]), the time lost by waiting ([Heat]) and a stream of numbered events
// ([Entry]). The console, the terminal, pictures and metrics are drawn from those,
// so they agree; and the JSON names of their fields are those that the commands
// promise to scripts.
//
//	lookout, err := client.Lookout(lock.LookoutOptions{})
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
// from what the tree tells: the record of evictions (EndTaken), the requests to go that
// stood in its mailbox (EndPreempted, EndLeaseExpired), and
//
//   - EndReleased, if its successor was granted in the transaction in which it went,
//     if it has a lock-delay and left no note of it, or if its session was granted
//     a lock later: then it has not ended;
//   - EndLost, if it left the note of its lock-delay, if its successor found the lock
//     without its holder, having waited for a second at least, or if its session
//     left another lock in the same transaction, as all does when a session ends;
//   - else EndGone: the node of a holder that releases a lock for which no request waits
//     vanishes as that of one whose process has died, and nothing tells which it was.
//     It becomes one of the above when something does.
//
// Of the holds of this process Board.Observe knows better. What ended while
// ZooKeeper did not answer, without a trace, is EndUnknown.
package live
