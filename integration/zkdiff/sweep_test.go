package zkdiff

import "testing"

// Containers and nodes with a time to live go by themselves: which, when, with which events and zxids, and which stay.
func TestSweptNodes(t *testing.T) {
	told(t, sweepingOracle, sweepingEmbedded, func(n *narrator) {
		n.take(Script{
			{Do: Create, Path: "/a", ACL: everybody},
			{Do: CreateContainer, Path: "/a/never-used", ACL: everybody, Flags: container},
			{Do: CreateContainer, Path: "/a/used", ACL: everybody, Flags: container},
			{Do: CreateContainer, Path: "/a/in-use", ACL: everybody, Flags: container},
			{Do: Create, Path: "/a/in-use/child", ACL: everybody},
			{Do: CreateTTL, Path: "/a/long", ACL: everybody, Flags: persistentTTL, TTL: 3_600_000},
			{On: 1, Do: AddWatch, Path: "/a", Mode: 1},
			{On: 2, Do: AddWatch, Path: "/a", Mode: 0},
			{Do: Create, Path: "/a/used/child", ACL: everybody},
			{Do: Delete, Path: "/a/used/child", Version: -1},
		}...)
		n.await(1, event(nodeDeleted, "/a/used"))

		n.take(Script{
			{On: 2, Do: GetChildren2, Path: "/a"},
			{Do: CreateTTL, Path: "/a/short", Data: []byte("x"), ACL: everybody, Flags: persistentTTL, TTL: 1},
		}...)
		n.await(1, event(nodeDeleted, "/a/short"))

		// One with a child stays until the child has gone, here with its session.
		n.take(Script{
			{On: 2, Do: GetChildren2, Path: "/a"},
			{Do: Multi, Subs: Script{
				{Do: CreateTTL, Path: "/a/parent-", ACL: everybody, Flags: sequentialTTL, TTL: 1},
				{Do: Create, Path: "/a/parent-0000000005/child", ACL: everybody},
			}},
			{Do: CreateTTL, Path: "/a/short", ACL: everybody, Flags: persistentTTL, TTL: 1},
		}...)
		n.await(1, event(nodeDeleted, "/a/short"))
		n.take(Script{
			{On: 2, Do: GetChildren2, Path: "/a"},
			{On: 2, Do: GetAllChildrenNumber, Path: "/a"},
			{Do: Delete, Path: "/a/parent-0000000005/child", Version: -1},
		}...)
		n.await(1, event(nodeDeleted, "/a/parent-0000000005"))

		// A container that a multi empties.
		n.take(Script{
			{On: 2, Do: GetChildren2, Path: "/a"},
			{Do: Multi, Subs: Script{
				{Do: Delete, Path: "/a/in-use/child", Version: -1},
				{Do: Check, Path: "/a/in-use", Version: 0},
			}},
		}...)
		n.await(1, event(nodeDeleted, "/a/in-use"))
		n.take(Script{
			{On: 2, Do: GetChildren2, Path: "/a"},
			{On: 2, Do: GetAllChildrenNumber, Path: "/"},
		}...)
	})
}

// Data written to a node with a time to live lets it begin anew: it outlives one that was made after it.
func TestTimeToLiveBeginsAnewWithAWrite(t *testing.T) {
	told(t, sweepingOracle, sweepingEmbedded, func(n *narrator) {
		n.take(Script{
			{On: 1, Do: AddWatch, Path: "/", Mode: 1},
			{Do: CreateTTL, Path: "/renewed", ACL: everybody, Flags: persistentTTL, TTL: 12_000},
			{Do: CreateTTL, Path: "/untouched", ACL: everybody, Flags: persistentTTL, TTL: 12_000},
			// Something else that takes a while, so that the two do not go at once.
			{Do: CreateTTL, Path: "/meanwhile", ACL: everybody, Flags: persistentTTL, TTL: 5_000},
		}...)
		n.await(1, event(nodeDeleted, "/meanwhile"))
		n.take(Step{Do: SetData, Path: "/renewed", Version: -1})
		n.await(1, event(nodeDeleted, "/untouched"))
		n.await(1, event(nodeDeleted, "/renewed"))
		n.take(Step{On: 2, Do: GetChildren2, Path: "/"})
	})
}
