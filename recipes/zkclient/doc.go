// Package zkclient is a client of ZooKeeper for programs that hold something by virtue of their session.
//
// The idea: a Session knows until when the servers cannot have ended it. They
// end it when they have heard nothing for its timeout, so it counts from the
// sending of the last request of which it is sure that the leader has heard. A
// Tenant, which is what is held by it, learns of the loss before that: a margin
// before the server can give it to another client.
//
//	client, err := zkclient.NewClient(zkclient.Config{Servers: []string{"zk1:2181"}})
//	session, err := client.Usable(ctx)
//	path, err := session.Create(ctx, client.Root()+"/leader", nil, zkclient.FlagEphemeral)
//	held := session.Hold(tenant) // its SessionLost is called in time
//
// A request belongs to one session, and ends in one of three ways: with its answer, with ErrAmbiguous when
// the connection was lost before that came (it may have been executed, and reads decide), or with
// ErrSessionOver. Nothing is repeated for its caller. A watch is registered once and re-armed by each read
// (Look); it says that something has happened, and reads say what.
//
// It uses go-zookeeper for connecting, signing in and watches. Transactions and reads without a watch are
// written and read past it, see link and Parcel. Who may do what below the root, and whose a node is, is in
// identity.go, access.go and vouch.go.
package zkclient
