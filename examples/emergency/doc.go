// Command emergency shows what operators can do about a lock, and that all of it
// is on record: a batch job has the lock of the orders; ana takes it with an
// override in a file, repairs the orders and gives it back; then payments asks
// for it politely, the batch job does not finish its cleanup, and ana approves
// that the lock is taken by force. At the end the audit trail is printed and
// verified.
//
//	go run ./examples/emergency                      # on a ZooKeeper server of its own, in memory
//	go run ./examples/emergency --zk localhost:2181  # on another one
//
// The one idea: the jobs know nothing of this. What makes them obey is in
// daemon.go, what a person does is in operator.go, and the order in which things
// happen is in story.go.
package main
