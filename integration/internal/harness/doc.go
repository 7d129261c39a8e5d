// Package harness is what tests against a ZooKeeper server share: a root of its own for each test, clients that are
// closed at the end, calls that run in the background, what a request was notified of, and oracles for who may
// hold at once. The history of a test is printed when a test fails.
//
// The one idea: a test waits for conditions, and Patience is the only deadline. It bounds a hang and asserts no speed.
//
//	f := harness.New(t, shared.Server(t))
//	holder := f.Hold(f.Lock(f.Client(), "users"), "batch")
//	waiter := f.Acquire(f.Lock(f.Client(), "users"), "operator", harness.At(90))
//	waiter.Queued()
//	holder.Release()
//	waiter.Granted()
package harness
