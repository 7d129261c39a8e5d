// Package audit tests the audit trail, opstore.AuditLog and observability/audit,
// on a real ZooKeeper server and on the embedded one: see package testbed.
package audit
