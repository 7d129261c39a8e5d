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
// # One idea
//
// The server is a state machine behind a lock. A connection is two streams of
// frames with a gate between them and the state machine. Whatever goes wrong
// goes wrong at the gate, as it would in the network: requests, replies and
// events are held, delayed or cut off, in order. So no fault can make the
// server answer what a real one would not.
//
// # Faults
//
// On sets a rule for requests, replies or events: DropRequest, DropReply,
// DropEvent, Delay, DelayReply, Hold, HoldReply, Fail. A rule counts how often it acted,
// and one that never did fails its test. Expire, Disconnect, Partition, Heal,
// StallPings, Stop, Restart and LoseData are about sessions, connections and
// the server itself; Listener.Lag makes a part of the clients read the past, as
// behind a slow follower. Proxy puts the same rules in front of a real server.
//
// # Ensembles
//
// StartEnsemble starts several servers with one leader. Clients connect to a
// Member; a follower forwards writes and syncs, and reports which sessions it has
// heard of with its replies to the leader's pings, as real ones do. A member can
// die (Kill), stand still (Stop) or be cut off, from the others, its clients or
// both; a majority elects another leader, and a deposed one finds out late.
//
//	e := zktest.RunEnsembleT(t, zktest.Members(3), zktest.Observers(1), zktest.Pipe())
//	follower := e.Followers()[0]
//	client := connect(follower.Dial, follower.Addr())
//	follower.Kill()
//	fmt.Println(e.Sessions(), e.History()) // when the leader ends each session; who led when
//
// What an ensemble leaves out: observer masters, reconfiguration, local sessions,
// and the limit on the time of an acknowledgement (a member parts with its leader
// by silence alone). An election takes ElectionTime, its messages are not played.
// Members keep their state over Kill and Start; none loses its disk.
//
// # Time
//
// The server reads the process's clock. With option Pipe it has no network
// either, and lives in a bubble of testing/synctest: clients connect through
// Dial, and a session timeout of hours passes in no time. Outside a bubble,
// Advance moves the clock on, and FrozenClock keeps it from moving otherwise.
//
// # What it is like, and what it is not
//
// It behaves as ZooKeeper 3.8.0 does in Debian 12 (with the fix of
// CVE-2024-23944), standalone, down to transaction numbers, the order of events
// and its bugs, except for the following. Tests compare every frame with the
// real server.
//
//   - Nothing is durable. DataDir saves a snapshot now and then: for
//     development. Never use it for data, nor in production.
//   - Start makes one server, no quorum, no observers, no read-only mode, no
//     reconfiguration (as a standalone server: refused). Its listeners can stand
//     for the members of an ensemble where sessions and elections do not matter; a
//     session may move between them at once, and SessionMoved is answered by a
//     rule alone (Fail). See StartEnsemble for more.
//   - No quotas: the nodes under /zookeeper/quota are plain nodes.
//   - No authentication but digest and ip: no SASL, no x509; TLS on request.
//     There is no superuser for clients; Create, Set and Delete are one.
//   - checkWatches tells of the caller's own watches; 3.8.0 says yes when anybody
//     watches the path.
//   - What breaks 3.8.0 itself is refused: createTTL with a bad time for a node
//     that has none, a recursive watch on no path.
//   - Children are listed in an order of their own, the same in every run; 3.8.0
//     lists them in that of a hash table. The same goes for the order in which a
//     session's nodes are deleted.
//   - Four-letter words: latencies are 0, envi tells less, mntr has the classic
//     lines only, and the admin server's HTTP does not exist.
//   - A client that leaves more than 64 MiB unread is cut off.
package zktest
