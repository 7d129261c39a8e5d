package foreign

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// walked is the name of one that has walked in: the nth.
func walked(n int) string { return strings.Replace(request(0, n), "-x-", "-w-", 1) }

// open has two readers hold the lock, so that others may walk in.
func (h *fixture) open() (readers []*harness.Request) {
	h.Helper()
	for _, name := range []string{"one", "two"} {
		readers = append(readers, h.hold(h.Client(), name, harness.Shared))
	}
	data, _ := h.read(h.node())
	require.Contains(h, data, `"open":true`)
	return readers
}

// A reader that has walked in holds for as long as its session lives. A node without a
// session has no holder.
func TestNodeWithoutASessionHasNotWalkedIn(t *testing.T) {
	for what, data := range map[string]string{"a request": valid, "garbage": "garbage", "nothing": ""} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
			h.put(h.node()+"/"+walked(1), data, 0, world)
			h.works()
			state := h.state()
			require.Equal(t, []string{walked(1)}, state.Foreign)
			require.Empty(t, state.Holders)
		})
	}
}

func TestNodeWithoutASessionDoesNotBlockReaders(t *testing.T) {
	h := newFixture(t)
	readers := h.open()
	h.put(h.node()+"/"+walked(1), valid, 0, world)
	readers = append(readers, h.hold(h.Client(), "three", harness.Shared))
	writer := h.ask(h.Client(), "writer", harness.At(9))
	for _, r := range readers {
		require.Equal(t, "writer", harness.Await[lock.PreemptRequested](t, r.Notices).By.Owner)
		writer.IsPending()
		r.Release()
	}
	writer.Granted()
	writer.Release()
	data, stat := h.read(h.node() + "/" + walked(1))
	require.JSONEq(t, valid, data)
	require.Zero(t, stat.Version)
}

// A node of a session holds by its name, whatever it says.
func TestNodeThatHasWalkedInAndSaysNothingHoldsUntilItsSessionEnds(t *testing.T) {
	h := newFixture(t)
	node := h.node() + "/" + walked(1)
	h.put(node, "garbage", zk.FlagEphemeral, world)

	state := h.state()
	require.Empty(t, state.Foreign)
	require.Len(t, state.Holders, 1)
	require.Equal(t, "<unreadable>", state.Holders[0].Owner)
	require.True(t, lock.IsNotAcquired(h.ask(h.Client(), "try", harness.Try).Refused()))
	require.ErrorContains(t, h.ask(h.Client(harness.SessionTimeout(2*time.Second)), "waiter").Refused(), "say nothing")

	h.Delete(node)
	h.works()
}

// Where somebody has overwritten G, their names still say that they hold.
func TestLockNodeIsOverwrittenWhileReadersAreIn(t *testing.T) {
	for what, data := range map[string]string{"garbage": "garbage", "nothing": "", "no holders": `{"format":1,"holders":[]}`} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t)
			readers := h.open()
			in := h.hold(h.Client(), "three", harness.Shared)
			for _, r := range readers {
				r.Release()
			}
			h.Set(h.node(), []byte(data))
			writer := h.ask(h.Client(), "writer")
			writer.Queued()
			writer.IsPending()
			require.Len(t, h.state().Holders, 1)
			in.Release()
			writer.Granted()
		})
	}
}
