// Package inspect says what follows from the state of locks, as a look at ZooKeeper has shown it: what
// becomes of each request if no client acts on its own, when the first in line preempts, who waits for whom,
// and which of them wait in a circle.
//
// The idea: the rulebook (package priority) decides all of that, so it can be foreseen. The functions are pure.
//
//	state, err := client.Lock(ctx, "cluster/orders")
//	for _, p := range inspect.Outlook(state) {
//		fmt.Println(p.Waiter.Owner, p.Outcome, p.After)
//	}
//
// `lockkeeper locks why`, `top` and the console show it.
package inspect
