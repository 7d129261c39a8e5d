// Package group spreads locks over the processes that join a group, as Apache Helix's lock manager does: each
// is handed its share of them, and the locks of one that goes are handed to the others.
//
// The idea: one participant, the controller, writes who holds what into one node. A lock moves only after its
// holder has written that it has released it, or is gone, so there are never more holders than declared.
//
//	shards, err := group.New(client, group.Spec{Name: "shards", Locks: group.NumberedLocks("shard", 12)})
//	member, err := shards.Join(ctx, "node-1", handler) // its OnLocked is called with the locks of this process
//	...
//	err = member.Leave(ctx)
//
// Group says how that is kept safe; docs/protocol.md, section Groups, has the nodes. Package assignment has
// the strategies.
package group
