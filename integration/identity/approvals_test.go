package identity

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func question() recipes.ApprovalRequest {
	return recipes.ApprovalRequest{
		Scope: "cluster/orders", Job: "reorg", Labels: map[string]string{"team": "orders"},
		Requestor: recipes.AuditParty{Owner: "reorg", Priority: 20}, Holders: []recipes.AuditParty{{Owner: "batch", Token: 42}},
		Waited: 1500 * time.Millisecond, Deadline: 15 * time.Minute, Reason: "nightly",
	}
}

// decided waits for the decision in the background.
func decided(ctx context.Context, o *recipes.OpenApproval) <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := o.Decision(ctx)
		answer <- err
	}()
	return answer
}

func TestQuestionIsDecidedOnceByAnOperator(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	daemon := h.client(keeper, ana)
	desk := h.client(ana, keeper, ana).Approvals()
	_, _, err := h.client(keeper, ana).Approvals().List(h.context())
	require.NoError(t, err, "there is no board yet")

	o, err := daemon.Approvals().Open(h.context(), question())
	require.NoError(t, err)
	all, _, err := desk.List(h.context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Regexp(t, `^a-\d{10}$`, o.ID())
	require.Equal(t, o.ID(), all[0].ID)
	require.Equal(t, question(), all[0].ApprovalRequest)
	require.Equal(t, "digest:keeper", all[0].By)
	require.Equal(t, all[0].Opened.Add(15*time.Minute), all[0].Until)
	require.Nil(t, all[0].Decision)

	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = o.Decision(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, desk.Decide(h.context(), o.ID(), recipes.Decision{Approved: true, By: "ana", Reason: "do it"}))
	d, err := o.Decision(h.context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), d.At, time.Minute)
	require.Equal(t, recipes.Decision{Approved: true, By: "ana", Reason: "do it", Identity: "digest:ana", At: d.At}, d)

	err = desk.Decide(h.context(), o.ID(), recipes.Decision{By: "bob"})
	require.EqualError(t, err, `approval "`+o.ID()+`" was approved already, by ana (digest:ana) at `+d.At.Format(time.RFC3339))
	var twice *recipes.DecidedError
	require.ErrorAs(t, err, &twice)
	require.Equal(t, d, twice.Decision)

	require.NoError(t, o.Close(h.context()))
	require.NoError(t, o.Close(h.context()))
	all, _, err = desk.List(h.context())
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestDecisionAboutAnUnknownQuestionNamesThoseThatThereAre(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.client(keeper)
	o, err := c.Approvals().Open(h.context(), question())
	require.NoError(t, err)
	for _, id := range []string{"a-0000000099", "a-", "../overrides", "", "a-0000000099/x"} {
		err := c.Approvals().Decide(h.context(), id, recipes.Decision{By: "ana"})
		var none *recipes.NoApprovalError
		require.ErrorAs(t, err, &none, id)
		require.Equal(t, []string{o.ID()}, none.Open)
		require.ErrorContains(t, err, "open are "+o.ID())
	}
	err = c.Approvals().Decide(h.context(), o.ID(), recipes.Decision{})
	require.ErrorAs(t, err, new(*recipes.RequestError))
}

func TestQuestionGoesWithTheSessionOfWhoeverAsks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.client(keeper)
	o, err := c.Approvals().Open(h.context(), question())
	require.NoError(t, err)
	answer := decided(h.context(), o)
	id, password := c.Session()
	require.NoError(t, h.server.Expire(t.Context(), id, password))
	require.ErrorAs(t, <-answer, new(*recipes.NoApprovalError))
	require.NoError(t, o.Close(h.context()))
	again, err := c.Approvals().Open(h.context(), question())
	require.NoError(t, err)
	require.NotEqual(t, o.ID(), again.ID())
	require.NoError(t, c.Approvals().Decide(h.context(), again.ID(), recipes.Decision{By: "ana"}))
	d, err := again.Decision(h.context())
	require.NoError(t, err)
	require.False(t, d.Approved)
}

// Those who may use the root may remove a question, and put another one in its
// place. Nobody takes that for the decision.
func TestQuestionThatIsReplacedIsNotDecided(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]user{"open deployment": nobody, "secured": keeper} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			c := h.client(u)
			o, err := c.Approvals().Open(h.context(), question())
			require.NoError(t, err)
			answer := decided(h.context(), o)
			shell := h.shell(u)
			node := h.root + "/approvals/" + o.ID()
			data, _, err := shell.Get(node)
			require.NoError(t, err)
			_, err = shell.Multi(&zk.DeleteRequest{Path: node, Version: -1},
				&zk.CreateRequest{Path: node, Data: yes(data), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
			require.NoError(t, err)
			require.ErrorAs(t, <-answer, new(*recipes.NoApprovalError))
		})
	}
}

// yes is a question with a decision.
func yes(question []byte) []byte {
	return append(question[:len(question)-1:len(question)-1], `,"decision":{"write":"w","approved":true,"by":"ana","identity":"digest:ana"}}`...)
}

func TestNobodyDecidesInAnOpenDeployment(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.client(nobody)
	o, err := c.Approvals().Open(h.context(), question())
	require.NoError(t, err)
	err = h.client(nobody).Approvals().Decide(h.context(), o.ID(), recipes.Decision{Approved: true, By: "ana"})
	require.ErrorAs(t, err, new(*recipes.IdentityError))
	err = h.client(eve).Approvals().Decide(h.context(), o.ID(), recipes.Decision{Approved: true, By: "ana"})
	require.ErrorAs(t, err, new(*recipes.AccessError))
	node := h.root + "/approvals/" + o.ID()
	for _, u := range []user{nobody, eve} {
		_, err = h.shell(u).Set(node, []byte("{}"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = h.shell(u).SetACL(node, zk.WorldACL(zk.PermAll), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	}
	all, _, err := h.client(nobody).Approvals().List(h.context())
	require.NoError(t, err)
	require.Len(t, all, 1, "for all to see")
}

// One without credentials who knows the operators believes them.
func TestOperatorsDecideInAnOpenDeployment(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	o, err := h.client(nobody, ana).Approvals().Open(h.context(), question())
	require.NoError(t, err)
	require.ErrorAs(t, h.client(eve).Approvals().Decide(h.context(), o.ID(), recipes.Decision{Approved: true, By: "eve"}), new(*recipes.AccessError))
	require.NoError(t, h.client(ana, ana).Approvals().Decide(h.context(), o.ID(), recipes.Decision{Approved: true, By: "ana"}))
	d, err := o.Decision(h.context())
	require.NoError(t, err)
	require.Equal(t, "digest:ana", d.Identity)
}
