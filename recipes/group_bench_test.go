package recipes

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// What a controller of 10,000 locks and 100 participants does when one of them
// leaves: each step by itself.
func BenchmarkControllerOfTenThousandLocks(b *testing.B) {
	spec := GroupSpec{Name: "g", Locks: NumberedLocks("g", 10_000)}
	spec.complete()
	declared := spec.declared()
	there := peers{}
	for i := range 100 {
		p := &peer{groupChild: groupChild{name: fmt.Sprint("participant-", i), guid: newGUID(), seq: int32(i)}, read: true}
		there[p.guid] = p
	}
	a := planFor(b, &spec, newAssignment(), there)
	a.freeze(&zk.Stat{Mzxid: 1 << 33})
	data := a.encode()

	left := maps.Clone(there)
	for guid, p := range there {
		if p.name == "participant-50" {
			delete(left, guid)
		}
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			_, err := decodeAssignment(data, &zk.Stat{})
			require.NoError(b, err)
		}
	})
	b.Run("read as a participant", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		guid := slices.Sorted(maps.Keys(there))[0]
		for b.Loop() {
			_, err := decodeShare(data, &zk.Stat{}, guid)
			require.NoError(b, err)
		}
	})
	b.Run("decide", func(b *testing.B) {
		for b.Loop() {
			planFor(b, &spec, a, left)
		}
	})
	b.Run("look and find nothing to do", func(b *testing.B) {
		for b.Loop() {
			next := a.clone()
			next.reap(there)
			next.orphans(&spec, there.standing(nil))
			changed, _ := next.clone().advance(&spec, declared, there.standing(nil))
			require.False(b, changed)
		}
	})
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			a.encode()
		}
	})
}

// planFor does what a turn of the controller does, from what it has read to what
// it writes.
func planFor(b testing.TB, spec *GroupSpec, a *groupAssignment, there peers) *groupAssignment {
	b.Helper()
	next := a.clone()
	next.reap(there)
	live := there.standing(nil)
	next.live = slices.Sorted(maps.Keys(live))
	next.orphans(spec, live)
	strategy, err := assignment.Named(spec.Strategy)
	require.NoError(b, err)
	plan, err := assignment.Run(strategy, spec.Locks, next.live, next.planned(), spec.hints())
	require.NoError(b, err)
	limited, _ := assignment.LimitMoves(next.planned(), plan, next.live, spec.hints(), 0)
	next.adopt(spec, limited)
	next.advance(spec, spec.declared(), live)
	return next
}

// A participant that had all 10,000 locks has released half of them, for one that
// came: all were granted by one write, so all have one token.
func BenchmarkHalfOfTenThousandLocksReleased(b *testing.B) {
	spec := GroupSpec{Name: "g", Locks: NumberedLocks("g", 10_000)}
	spec.complete()
	first := &peer{groupChild: groupChild{name: "first", guid: newGUID()}, read: true}
	a := planFor(b, &spec, newAssignment(), peers{first.guid: first})
	a.freeze(&zk.Stat{Mzxid: 7})
	record := memberRecord{Format: recordFormat, Name: "first", Released: map[Token][]string{7: spec.Locks[:5000]}}
	var err error
	first.record, err = decodeMember(record.encode())
	require.NoError(b, err)
	for b.Loop() {
		a.clone().reap(peers{first.guid: first})
	}
}
