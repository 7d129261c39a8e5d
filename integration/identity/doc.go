// Package identity tests who may do what: overrides, approvals, locks and the
// audit trail in the hands of operators, and of strangers who have no
// credentials, those of somebody else, or a wrong password, and who come with a
// Lockkeeper client or with ZooKeeper's bare protocol. It runs on a real
// ZooKeeper server and on the embedded one: see package testbed. Certificates
// are tested on the real one alone.
package identity
