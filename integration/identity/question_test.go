package identity

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A question about more holders than fit into a node is asked all the same.
func TestQuestionAboutVeryManyHolders(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(keeper)
	q := question()
	for range 1200 {
		q.Holders = append(q.Holders, opstore.AuditParty{Owner: strings.Repeat("\x1b", 1000)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o, err := c.Approvals().Open(ctx, q)
	require.NoError(t, err)
	require.NoError(t, h.client(keeper).Approvals().Decide(ctx, o.ID(), opstore.Decision{Approved: true, By: "ana"}))
	d, err := o.Decision(ctx)
	require.NoError(t, err)
	require.True(t, d.Approved)
}

// The one who asks takes the question from the board as soon as it is decided:
// who has decided, and has had no reply, must not be told that there was none.
func TestDecisionWhoseReplyIsLostWhileTheQuestionGoes(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	wire := zktest.RunProxyT(t, h.Server.Addr())
	desk := h.clientAt(wire.Addr(), keeper).Approvals()
	asks := h.client(keeper)
	o, err := asks.Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	decided := make(chan opstore.Decision, 1)
	go func() {
		d, err := o.Decision(h.Context())
		if err == nil {
			_ = o.Close(h.Context())
		}
		decided <- d
	}()
	rule := wire.On(zktest.Op(zktest.SetData).Path(h.Root + "/approvals/" + o.ID()).Nth(1)).DropReply()
	again := wire.On(zktest.Op(zktest.GetData).Path(h.Root + "/approvals/" + o.ID()).Nth(2)).Hold()
	said := harness.Run(t, "the decision", func(ctx context.Context) error {
		return desk.Decide(ctx, o.ID(), opstore.Decision{Approved: true, By: "ana"})
	})
	require.True(t, (<-decided).Approved)
	harness.Receive(t, again.Reached(), "it does not look again")
	require.Equal(t, 1, rule.Fired())
	again.Release()
	err = said.Err()
	var gone *opstore.NoApprovalError
	require.ErrorAs(t, err, &gone)
	require.True(t, gone.Sent)
	require.ErrorContains(t, err, "may be decided")
}
