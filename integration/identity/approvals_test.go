package identity

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func question() opstore.ApprovalRequest {
	return opstore.ApprovalRequest{
		Scope: "cluster/orders", Job: "reorg", Labels: map[string]string{"team": "orders"},
		Requestor: opstore.AuditParty{Owner: "reorg", Priority: 20}, Holders: []opstore.AuditParty{{Owner: "batch", Token: 42}},
		Waited: 1500 * time.Millisecond, Deadline: 15 * time.Minute, Reason: "nightly",
	}
}

// decided waits for the decision in the background.
func (h *fixture) decided(o *opstore.OpenApproval) *harness.Call[opstore.Decision] {
	return harness.Go(h, "Decision", func() (opstore.Decision, error) { return o.Decision(h.Context()) })
}

func TestQuestionIsDecidedOnceByAnOperator(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	daemon := h.client(keeper, ana)
	desk := h.client(ana, keeper, ana).Approvals()
	_, _, err := h.client(keeper, ana).Approvals().List(h.Context())
	require.NoError(t, err, "there is no board yet")

	o, err := daemon.Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	all, _, err := desk.List(h.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Regexp(t, `^a-\d{10}$`, o.ID())
	require.Equal(t, o.ID(), all[0].ID)
	require.Equal(t, question(), all[0].ApprovalRequest)
	require.Equal(t, "digest:keeper", all[0].By)
	require.Equal(t, all[0].Opened.Add(15*time.Minute), all[0].Until)
	require.Nil(t, all[0].Decision)

	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = o.Decision(ended)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, desk.Decide(h.Context(), o.ID(), opstore.Decision{Approved: true, By: "ana", Reason: "do it"}))
	d, err := o.Decision(h.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), d.At, time.Minute)
	require.Equal(t, opstore.Decision{Approved: true, By: "ana", Reason: "do it", Identity: "digest:ana", At: d.At}, d)

	err = desk.Decide(h.Context(), o.ID(), opstore.Decision{By: "bob"})
	require.EqualError(t, err, `approval "`+o.ID()+`" was approved already, by ana (digest:ana) at `+d.At.Format(time.RFC3339))
	var twice *opstore.DecidedError
	require.ErrorAs(t, err, &twice)
	require.Equal(t, d, twice.Decision)

	require.NoError(t, o.Close(h.Context()))
	require.NoError(t, o.Close(h.Context()))
	all, _, err = desk.List(h.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestDecisionAboutAnUnknownQuestionNamesThoseThatThereAre(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(keeper)
	o, err := c.Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	for _, id := range []string{"a-0000000099", "a-", "../overrides", "", "a-0000000099/x"} {
		err := c.Approvals().Decide(h.Context(), id, opstore.Decision{By: "ana"})
		var none *opstore.NoApprovalError
		require.ErrorAs(t, err, &none, id)
		require.Equal(t, []string{o.ID()}, none.Open)
		require.ErrorContains(t, err, "open are "+o.ID())
	}
	err = c.Approvals().Decide(h.Context(), o.ID(), opstore.Decision{})
	require.ErrorAs(t, err, new(*lock.RequestError))
}

func TestQuestionGoesWithTheSessionOfItsClient(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(keeper)
	o, err := c.Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	answer := h.decided(o)
	h.Expire(c)
	require.ErrorAs(t, answer.Refused(), new(*opstore.NoApprovalError))
	require.NoError(t, o.Close(h.Context()))
	again, err := c.Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	require.NotEqual(t, o.ID(), again.ID())
	require.NoError(t, c.Approvals().Decide(h.Context(), again.ID(), opstore.Decision{By: "ana"}))
	d, err := again.Decision(h.Context())
	require.NoError(t, err)
	require.False(t, d.Approved)
}

// Users of the root may replace a question by another one. That is never taken
// for the decision.
func TestQuestionThatIsReplacedIsNotDecided(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]user{"open deployment": anonymous, "secured": keeper} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			c := h.client(u)
			o, err := c.Approvals().Open(h.Context(), question())
			require.NoError(t, err)
			answer := h.decided(o)
			shell := h.shell(u)
			node := h.Root + "/approvals/" + o.ID()
			data, _, err := shell.Get(node)
			require.NoError(t, err)
			_, err = shell.Multi(&zk.DeleteRequest{Path: node, Version: -1},
				&zk.CreateRequest{Path: node, Data: yes(data), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
			require.NoError(t, err)
			require.ErrorAs(t, answer.Refused(), new(*opstore.NoApprovalError))
		})
	}
}

// yes is a question with a decision.
func yes(question []byte) []byte {
	return append(question[:len(question)-1:len(question)-1], `,"decision":{"write":"w","approved":true,"by":"ana","identity":"digest:ana"}}`...)
}

func TestOpenDeploymentAllowsNoDecisionAndNoBreak(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(anonymous)
	o, err := c.Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	err = h.client(anonymous).Approvals().Decide(h.Context(), o.ID(), opstore.Decision{Approved: true, By: "ana"})
	require.ErrorAs(t, err, new(*lock.IdentityError))
	err = h.client(eve).Approvals().Decide(h.Context(), o.ID(), opstore.Decision{Approved: true, By: "ana"})
	require.ErrorAs(t, err, new(*lock.AccessError))
	node := h.Root + "/approvals/" + o.ID()
	for _, u := range []user{anonymous, eve} {
		_, err = h.shell(u).Set(node, []byte("{}"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = h.shell(u).SetACL(node, zk.WorldACL(zk.PermAll), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	}
	all, _, err := h.client(anonymous).Approvals().List(h.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "for all to see")

	held := h.Hold(h.Lock(c, "cluster/orders"), "batch")
	_, err = h.client(anonymous).Break(h.Context(), lock.BreakRequest{Scope: "cluster/orders", Token: held.Token(), By: "ana", Reason: "because"})
	require.ErrorAs(t, err, new(*lock.IdentityError))
	require.NoError(t, held.Granted().Check())
}

// One without credentials who knows the operators believes them.
func TestOperatorsDecideInAnOpenDeployment(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	o, err := h.client(anonymous, ana).Approvals().Open(h.Context(), question())
	require.NoError(t, err)
	require.ErrorAs(t, h.client(eve).Approvals().Decide(h.Context(), o.ID(), opstore.Decision{Approved: true, By: "eve"}), new(*lock.AccessError))
	require.NoError(t, h.client(ana, ana).Approvals().Decide(h.Context(), o.ID(), opstore.Decision{Approved: true, By: "ana"}))
	d, err := o.Decision(h.Context())
	require.NoError(t, err)
	require.Equal(t, "digest:ana", d.Identity)
}
