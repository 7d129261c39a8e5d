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
// A process that ends soon, as a command, leaves out File and Run. [Auditor] lists what
// is on record.
package audit
