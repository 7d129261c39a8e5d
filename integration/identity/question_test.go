package identity

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A question about more holders than fit into a node is asked all the same.
func TestQuestionAboutVeryManyHolders(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.client(keeper)
	q := question()
	for range 1200 {
		q.Holders = append(q.Holders, recipes.AuditParty{Owner: strings.Repeat("\x1b", 1000)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o, err := c.Approvals().Open(ctx, q)
	require.NoError(t, err)
	require.NoError(t, h.client(keeper).Approvals().Decide(ctx, o.ID(), recipes.Decision{Approved: true, By: "ana"}))
	d, err := o.Decision(ctx)
	require.NoError(t, err)
	require.True(t, d.Approved)
}

// The one who asks takes the question from the board as soon as it is decided:
// who has decided, and has had no reply, must not be told that there was none.
func TestDecisionWhoseReplyIsLostWhileTheQuestionGoes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	wire := zktest.RunProxyT(t, h.server.Addr())
	desk := h.clientAt(wire.Addr(), keeper).Approvals()
	asks := h.client(keeper)
	o, err := asks.Approvals().Open(h.context(), question())
	require.NoError(t, err)
	decided := make(chan recipes.Decision, 1)
	go func() {
		d, err := o.Decision(h.context())
		if err == nil {
			_ = o.Close(h.context())
		}
		decided <- d
	}()
	rule := wire.On(zktest.Op(zktest.SetData).Path(h.root + "/approvals/" + o.ID()).Nth(1)).DropReply()
	again := wire.On(zktest.Op(zktest.GetData).Path(h.root + "/approvals/" + o.ID()).Nth(2)).Delay(time.Second)
	err = desk.Decide(h.context(), o.ID(), recipes.Decision{Approved: true, By: "ana"})
	require.Equal(t, 1, rule.Fired())
	require.True(t, (<-decided).Approved)
	require.Equal(t, 1, again.Fired())
	var gone *recipes.NoApprovalError
	require.ErrorAs(t, err, &gone)
	require.True(t, gone.Sent)
	require.ErrorContains(t, err, "may be decided")
}

// Whoever removes a question again and again does not flush the audit trail.
func TestQuestionThatIsRemovedIsAskedAnewInTime(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c, shell := h.client(keeper), h.shell(keeper)
	log, err := c.AuditLog(0)
	require.NoError(t, err)
	approvals, err := emergency.NewApprovals(emergency.ApprovalsConfig{Forum: emergency.OnBoard(c.Approvals()), Auditor: trail{log}})
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	removing := make(chan struct{})
	go func() {
		defer close(removing)
		for ctx.Err() == nil {
			names, _, _ := shell.Children(h.root + "/approvals")
			for _, name := range names {
				_ = shell.Delete(h.root+"/approvals/"+name, -1)
			}
		}
	}()
	_, err = approvals.Approve(ctx, lockguard.Pending{
		Subject: lockguard.Subject{Scope: "cluster/orders", Owner: "reorg"}, Err: &recipes.CleanupPendingError{},
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	<-removing
	last, err := log.Last(h.context())
	require.NoError(t, err)
	require.Positive(t, last)
	require.LessOrEqual(t, last, int64(3))
}

// trail is an audit trail, as Approvals want it.
type trail struct{ *recipes.AuditLog }

func (a trail) Audit(ctx context.Context, entry recipes.AuditEntry) error {
	_, err := a.Append(ctx, entry)
	return err
}
