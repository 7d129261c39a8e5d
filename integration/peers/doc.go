// Package peers measures our locks against those of others, and against the limit, on the same servers in one run:
// make bench-peers. It is a module of its own, so that no other module depends on the clients of etcd and Redis.
//
// The one idea: every contestant is a process that speaks one line protocol, in whatever language (see
// package contestant); contestants of a work take turns in an order that is drawn anew for each round, and a
// figure is the median of the ratios to the other one in the same round. So what the machine does besides
// hits all of them, and a sceptic can add another one.
//
// Works says what is measured, Kinds who takes part, Sites on which servers. What a machine lacks is said in
// the table.
package peers
