package tree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// fired tells who hears of a change.
func fired(w *Watches[string], op wire.Op, path string) []string {
	var heard []string
	w.Fire(&Effect{Change: Change{Op: op, Path: path}}, func(to string, event wire.EventType, path string, _ []wire.ACL) {
		heard = append(heard, to+": "+event.String()+" "+path)
	})
	return heard
}

func TestWatchesFireOnceUnlessTheyStay(t *testing.T) {
	w := NewWatches[string]()
	w.AddData("/a", "once")
	w.AddChild("/", "parent")
	w.Add("/a", "always", Always)
	w.Add("/", "below", AlwaysBelow)

	require.Equal(t, []string{
		"once: NodeCreated /a", "always: NodeCreated /a", "below: NodeCreated /a", "parent: NodeChildrenChanged /",
	}, fired(w, wire.OpCreate, "/a"))
	require.Equal(t, []string{"always: NodeDataChanged /a", "below: NodeDataChanged /a"}, fired(w, wire.OpSetData, "/a"))
	require.Equal(t, []string{"below: NodeCreated /a/b", "always: NodeChildrenChanged /a"}, fired(w, wire.OpCreate, "/a/b"))
	require.Equal(t, []string{"always: NodeDeleted /a", "below: NodeDeleted /a"}, fired(w, wire.OpDelete, "/a"))
}

func TestDeletionIsToldOnceToWhoWatchesDataAndChildren(t *testing.T) {
	w := NewWatches[string]()
	w.AddData("/a", "x")
	w.AddChild("/a", "x")
	w.AddChild("/a", "y")
	require.Equal(t, []string{"x: NodeDeleted /a", "y: NodeDeleted /a"}, fired(w, wire.OpDelete, "/a"))
	require.Empty(t, fired(w, wire.OpDelete, "/a"))
}

// As in 3.8: ZOOKEEPER-4466.
func TestLaterWatchTakesTheModeOfAnEarlierOneAway(t *testing.T) {
	w := NewWatches[string]()
	w.Add("/a", "x", Always)
	w.AddData("/a", "x")
	require.Len(t, fired(w, wire.OpSetData, "/a"), 1)
	require.Empty(t, fired(w, wire.OpSetData, "/a"))
}

func TestRemovedMovedAndForgottenWatches(t *testing.T) {
	w, other := NewWatches[string](), NewWatches[string]()
	w.AddData("/a", "x")
	w.Add("/b", "x", AlwaysBelow)
	require.True(t, w.Has("/a", "x", DataWatches))
	require.False(t, w.Has("/a", "x", ChildWatches))
	require.False(t, w.Has("/a", "y", AnyWatches))
	require.True(t, w.Has("/b/c", "x", AnyWatches), "a recursive one above")
	require.False(t, w.Remove("/a", "x", ChildWatches))
	require.True(t, w.Remove("/b", "x", AnyWatches))
	require.False(t, w.Remove("/b", "x", AnyWatches))

	w.Add("/c", "x", AlwaysBelow)
	w.Move("x", other)
	require.Empty(t, fired(w, wire.OpSetData, "/a"))
	require.Len(t, fired(other, wire.OpSetData, "/a"), 1)
	require.Len(t, fired(other, wire.OpCreate, "/c/d/e"), 1)
	other.Forget("x")
	require.Empty(t, fired(other, wire.OpCreate, "/c/d/f"))
	require.Empty(t, other.data.byPath)
	require.Zero(t, other.data.recursive+other.child.recursive)
}
