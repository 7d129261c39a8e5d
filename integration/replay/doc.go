// Package replay tests what the audit trail is for: that it alone explains what
// was done to the holders of locks.
//
// Daemons with jobs, overrides, people who break locks or say yes to a takeover,
// and crashes come at random, in virtual time. A tap on the wire sees what is
// asked of ZooKeeper, and the work itself says what it met. Afterwards the trail
// is replayed, and has to come to the same. A referee sees that no two hold a lock
// that exclude each other; at the end all locks are free.
package replay
