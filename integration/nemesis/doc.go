// Package nemesis breaks a real ensemble of three servers, and the network and the processes of its clients,
// in every way that it knows, at random or as told, and puts all of it right again.
//
// The one idea: every fault is a Kind with a beginning and an end. A Nemesis draws kind, victim and length
// from a seed, stamps both ends with Options.Now, such as a clock that all processes of the machine share, and
// heals what it did before it goes on: a fault is over when the servers serve again. What the machine cannot do
// is named, with the reason, never left out silently.
//
//	n := nemesis.Start(t, nemesis.Options{Seed: 1, Clients: []string{"a", "b"}})
//	a := connect(n.Connect("a")) // by links of its own: a proxy to each server
//	…
//	err := n.Run(ctx)            // at random until ctx ends
//	for _, fault := range n.Faults() {
//		t.Log(fault)
//	}
//
// The way of a client is: client - netfault.Proxy (the network) - zktest.Proxy (lost requests and replies) - server.
// The servers talk to each other through proxies as well: ZooKeeper's members know each other by address, and each
// has a configuration of its own, so no network namespaces, and no rights, are needed to part them.
//
// Processes of clients belong to the caller of the package, which kills, pauses and resumes them on request (see
// Processes).
package nemesis
