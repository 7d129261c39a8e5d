// Package tree is the state machine of a ZooKeeper server: nodes, versions,
// access control and watches, without clocks, connections or locks of its own.
//
// A write is checked by Check, which turns it into a Change that no longer
// depends on who asked; Apply puts a Change into effect. A follower that lags
// behind is another Tree to which the same Changes are applied later.
//
// Names and rules are those of ZooKeeper 3.8 (PrepRequestProcessor, DataTree,
// WatchManager), to which the tests of package zktest compare every frame.
package tree
