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
//	board, err := live.New(live.Options{Source: lookout, Now: client.Now})
//	go board.Run(ctx)
//	for snapshot := range board.Changes(ctx) {
//		for _, lock := range snapshot.Locks {
//			fmt.Println(lock.Scope, lock.State, len(lock.Waiters))
//		}
//	}
//
// Times are those of the ZooKeeper servers.
package live
