// Package audit puts on record what is done to holders of locks against their
// will, and by whom: in the audit trail in ZooKeeper (opstore.AuditLog), in the
// log, as OpenTelemetry log records, and in a file that outlives them.
//
// The one idea: what is to be done is put on record before it is done, or is not
// done; what has been done is put on record after it, however long that takes.
//
//	trail, err := client.AuditLog(0)
//	auditor, err := audit.New(audit.Config{Trail: trail, Logger: logger, File: "/var/log/lockkeeper/audit.jsonl"})
//	guard, err := lockguard.New(client, lockguard.WithAuditor(auditor), lockguard.WithObserver(auditor.Observe))
//	go auditor.Run(ctx)        // ships the whole trail to the file
//	...                        // work under locks
//	err = auditor.Close(ctx)   // before the client is closed
//
// A process that ends soon, as a command, leaves out File and Run.
//
// # What is on record
//
// As an Auditor (the announcement, phase intent): a takeover, and what an
// override does, as lockguard, emergency or a command tells it.
//
// As an Observer (the outcome):
//
//	PreemptSent       preempt    by who asked a holder to go
//	PreemptRequested  preempted  by the holder that was asked
//	TakenOver         takeover   the outcome of what was announced: done
//	Acquired          takeover   announced, and not needed: the holders had gone; failed
//	                  override.act  of an override that takes a lock: it has it; done
//	NotAcquired       takeover, override.act  announced, and not done; failed
//	Lost              lost       taken, overridden, broken, or deleted by hand
//
// PreemptSent and PreemptRequested of one holder have the same Act, named after
// its token, and so has what became of it (Lost). An announcement and its outcome
// have the same Act: that of a request is the ID of its events. An announcement
// may come again with the same Act, when the first try has failed.
//
// Not on record are: what a request does to itself (Waiting, Queued, Delayed, Displaced,
// Requeued, Acquired, Extended, Downgraded, Released, NotAcquired without an
// announcement), what follows from a record by itself (PreemptionWithdrawn: the
// preemptor has left, and the holder releases all the same; CleanupStarted, CleanupDone,
// CleanupOverrun; Skipped by a pause; Stuck), losses without an actor (Lost with its
// session, AtRisk) or by the same work (superseded), and what another component has
// recorded already: an override's effect is announced once for all requests of an owner,
// before it is applied (Overridden, Frozen, Thawed, Bypassed); the approval store
// records approvals (ApprovalPending, ApprovalDecided). Logs and metrics have all of
// that.
package audit
