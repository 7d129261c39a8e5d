// Package live shows what happens to locks now: who holds, who waits, why, since
// when, and what became of those before them.
//
// The one idea: one model, which every display reads. A [Board] follows all locks
// below a root (lock.Lookout) and makes of what it sees an immutable [Snapshot],
// a history of each lock in spells of waiting and holding ([Timeline]), the time lost
// by waiting ([Heat]) and a stream of numbered events ([Entry]). The console, the
// terminal, pictures and metrics are drawn from those, so they agree; and the JSON
// names of their fields are those that the commands promise to scripts.
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
// Times are those of the ZooKeeper servers. [SpellEnd] says what the history knows of
// the end of a hold.
package live
