package foreign

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// walked is the name of one that has walked in: the nth.
func walked(n int) string { return strings.Replace(request(0, n), "-x-", "-w-", 1) }

// open has two readers hold the lock, so that others may walk in.
func (h *house) open() (readers []*user) {
	h.t.Helper()
	for _, name := range []string{"one", "two"} {
		readers = append(readers, h.hold(h.client(), name, reader))
	}
	data, _ := h.read(h.node())
	require.Contains(h.t, data, `"open":true`)
	return readers
}

// Who has walked in holds for as long as its session lives. A node without one is nobody's.
func TestNodeWithoutASessionHasNotWalkedIn(t *testing.T) {
	for what, data := range map[string]string{"a request": valid, "garbage": "garbage", "nothing": ""} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			h.put(h.node()+"/"+walked(1), data, 0, world)
			h.works()
			state := h.state()
			require.Equal(t, []string{walked(1)}, state.Foreign)
			require.Empty(t, state.Holders)
		})
	}
}

func TestNodeWithoutASessionIsInNobodysWayAmongReaders(t *testing.T) {
	h := newHouse(t)
	readers := h.open()
	h.put(h.node()+"/"+walked(1), valid, 0, world)
	readers = append(readers, h.hold(h.client(), "three", reader))
	writer := h.ask(h.client(), "writer", boss)
	for _, r := range readers {
		require.Equal(t, "writer", await[recipes.PreemptAsked](r).By.Owner)
		writer.waits()
		r.release()
	}
	writer.granted()
	writer.release()
	data, stat := h.read(h.node() + "/" + walked(1))
	require.JSONEq(t, valid, data)
	require.Zero(t, stat.Version)
}

// A node of a session holds by its name, whatever it says.
func TestNodeThatHasWalkedInAndSaysNothingHoldsUntilItsSessionEnds(t *testing.T) {
	h := newHouse(t)
	node := h.node() + "/" + walked(1)
	h.put(node, "garbage", zk.FlagEphemeral, world)

	state := h.state()
	require.Empty(t, state.Foreign)
	require.Len(t, state.Holders, 1)
	require.Equal(t, "<unreadable>", state.Holders[0].Owner)
	require.True(t, recipes.IsNotAcquired(h.ask(h.client(), "try", try).refused()))
	require.ErrorContains(t, h.ask(h.client(), "waiter").refused(), "say nothing")

	require.NoError(t, h.shell.Delete(node, -1))
	h.works()
}

// Where somebody has overwritten G, their names still say that they hold.
func TestLockNodeIsOverwrittenWhileReadersAreIn(t *testing.T) {
	for what, data := range map[string]string{"garbage": "garbage", "nothing": "", "nobody holds": `{"format":1,"holders":[]}`} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			readers := h.open()
			in := h.hold(h.client(), "three", reader)
			for _, r := range readers {
				r.release()
			}
			h.write(h.node(), data)
			writer := h.ask(h.client(), "writer")
			await[recipes.Queued](writer)
			writer.waits()
			require.Len(t, h.state().Holders, 1)
			in.release()
			writer.granted()
		})
	}
}
