// Package zktest is a ZooKeeper server in memory, for tests and development:
// the real protocol for real clients, with faults on demand and a clock that a
// test can move. It needs nothing but the standard library.
//
//	func TestJobGivesWay(t *testing.T) {
//		zk := zktest.RunT(t)                          // a free port of 127.0.0.1, closed by the test's end
//		client := connect(zk.Addr())                  // any client, in any language
//		zk.On(zktest.Op(zktest.Create).Path("/jobs/*").Nth(1)).DropReply()
//		...                                           // the node is there, the client saw a lost connection
//		fmt.Println(zk.Dump(), zk.Sessions(), zk.Watches())
//	}
//
// The one idea: the server is a state machine behind a lock. A connection is two
// streams of frames with a gate between them and the state machine. Whatever goes
// wrong goes wrong at the gate, as it would in the network: requests, replies and
// events are held, delayed or cut off, in order. So no fault can make the
// server answer what a real one would not.
//
// It behaves as ZooKeeper 3.8.0 does in Debian 12, down to transaction numbers, the
// order of events and its bugs; README.md has the exceptions, faults, ensembles
// (StartEnsemble) and virtual time (Pipe). Nothing is durable: never use it for data.
package zktest
