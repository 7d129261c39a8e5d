// Package model checks the lock protocol of docs/protocol.md by machine: the
// protocol, not the code.
//
// A [Config] says who contends and what may go wrong. [Config.Explore] visits
// every state that a few requests can bring one lock into, breadth first: each
// step is one read, one transaction, one event that a server tells, or one
// fault. Servers answer reads from up to two transactions ago. In every state
// it checks whether the promises are kept, and where nothing goes on any more
// whether a request waits that should not. What it reports is the shortest way
// to the first state that breaks a promise, in the words of the protocol.
//
// Each guard of the protocol can be taken away by name, see [Guards]. A model that
// finds nothing wrong then would prove nothing, so [Mutations] lists for each guard the
// configuration that misses it, and a test holds the list.
//
//	config, _ := model.Find("a client comes again")
//	report := config.Explore(model.Limits{})
//	fmt.Println(report.States, report.Violation)
//
// An exploration is one goroutine's, and its functions are kept from the race
// detector, which would make it six times as slow.
//
// No code of the product imports this package.
package model
