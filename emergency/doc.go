// Package emergency is where operators' overrides and approvals take effect in a
// process.
//
// The one idea: what is in force is one value, read without a lock, with a
// channel that is closed when there is another one. A Desk keeps it up to date
// with the file and with ZooKeeper, and lets it end on time. Everything else only
// reads it: the Guard at each request, a scheduler at each tick, an Executor at
// each task for a person.
//
//	desk, err := emergency.NewDesk(emergency.DeskConfig{Board: emergency.FromBoard(client.Overrides()), Now: client.Now, Logger: logger})
//	guard, err := lockguard.New(client, lockguard.WithOverrides(desk))
//	go desk.Run(ctx)    // until the end of the process
//	err = desk.Ready(ctx) // what ZooKeeper has is known
//
// A Desk is enough for a process that only obeys. Daemons have an Executor as
// well, which takes locks for people (hold) and from holders (preempt-now), in
// one process of the cluster at a time, and writes down what began and ended.
// Approvals decide, by rule or by asking people, what becomes of polite requests
// whose holders do not finish their cleanup. People are asked in a Forum: on the
// board in ZooKeeper, or in workflows of a Temporal server (package temporal), whose
// approvals a Witness looks up in the audit trail.
package emergency
