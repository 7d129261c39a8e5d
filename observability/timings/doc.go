// Package timings measures how long locks are really waited for, held and
// cleaned up, and advises which timeouts to declare.
//
// The one idea: people declare timeouts by guess, and the events of their locks
// know better.
//
//	store, err := timings.Open("/var/lib/lockkeeper", logger) // goes on where the last process stopped
//	guard, err := lockguard.New(client, lockguard.WithObserver(store.Observe))
//	...                                                       // work, for a week or so
//	for _, p := range timings.Advise(store.Stats(), requirements, sessionTimeout) {
//		fmt.Println(p.Owner, p.Scope, p.Timeout, p.Verdict, p.Proposed, p.Why)
//	}
//
// What is measured is kept by owner (the job) and scope, in histograms with
// buckets that grow by 8 %: a quantile is at most 4 % off, a histogram takes some
// hundred bytes, and adding them up is exact. They are kept by weeks, of the last
// five: to forget a week is to drop it, and every number is still a number of
// runs, which a decaying average could not say.
//
// ZooKeeper has no part in it. Each process has one JSON file of its own in the
// directory, written whole under another name and then renamed; Read adds up
// those of several. Timings are a help: whatever is wrong with their files is
// logged and never stops work.
package timings
