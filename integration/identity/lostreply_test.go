package identity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A write whose reply is lost has happened. It is found, and not done again.
func TestWritesWhoseRepliesAreLostAreDoneOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	wire := zktest.RunProxyT(t, h.Server.Addr())
	c := h.clientAt(wire.Addr(), keeper)
	board, node := c.Overrides(), h.Root+"/overrides"
	lose := func(op zktest.OpType, path string) *zktest.Rule {
		return wire.On(zktest.Op(op).Path(path).Nth(1)).DropReply()
	}
	lost := func(r *zktest.Rule) {
		t.Helper()
		require.Equal(t, 1, r.Fired())
		require.NoError(t, c.Ready(h.Context()))
	}

	first := incident("INC-1", inAnHour())
	rule := lose(zktest.Create, node)
	was, err := board.Apply(h.Context(), first)
	require.NoError(t, err)
	require.Nil(t, was, "it was not there before")
	lost(rule)

	second := first
	second.Reason = "disk still full"
	rule = lose(zktest.SetData, node)
	was, err = board.Apply(h.Context(), second)
	require.NoError(t, err)
	require.Equal(t, first.Reason, was.Reason, "what was there before the lost write")
	lost(rule)

	rule = lose(zktest.SetData, node)
	cleared, err := board.Clear(h.Context(), "INC-1")
	require.NoError(t, err)
	require.Equal(t, second.Reason, cleared.Reason)
	lost(rule)

	rule = lose(zktest.Create, h.Root+"/approvals/a-*")
	o, err := c.Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	lost(rule)
	all, _, err := c.Approvals().List(h.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, o.ID(), all[0].ID)

	rule = lose(zktest.SetData, h.Root+"/approvals/"+o.ID())
	require.NoError(t, c.Approvals().Decide(h.Context(), o.ID(), opstore.Decision{Approved: true, By: "ana"}))
	lost(rule)
	d, err := o.Decision(h.Context())
	require.NoError(t, err)
	require.True(t, d.Approved)
}
