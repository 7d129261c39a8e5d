package emergency_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A court has a holder that cleans up for a minute, and a polite request that
// waits for it only a second.
type court struct {
	*world
	user, client *lock.Client // of the holder, and of the request
	log          *logbook
	holder       chan error
	request      chan error
	began        time.Time
}

func (w *world) court(policy emergency.Policy) *court {
	w.t.Helper()
	daemons := lock.Digest{User: "daemons", Password: "secret"}
	c := &court{world: w, user: w.client("user", daemons), client: w.client("asker", daemons), log: &logbook{}, request: make(chan error, 1)}
	d := &daemon{w: w, name: "asker"} // writes the trail
	approvals, err := emergency.NewApprovals(emergency.ApprovalsConfig{
		Auditor: d, Forum: emergency.OnBoard(c.client.Approvals()), Logger: slog.New(slog.NewTextHandler(c.log, nil)), Policy: policy,
	})
	require.NoError(w.t, err)
	guard, err := lockguard.New(c.client, lockguard.WithApprover(approvals), lockguard.WithAuditor(d))
	require.NoError(w.t, err)
	c.holder = w.job(w.t.Context(), c.user, time.Minute)
	c.began = time.Now()
	go func() {
		waiting := time.Second
		r := lockguard.Requirement{Scope: orders, Owner: "critical", Terms: priority.Terms{Priority: 50, WaitingTimeout: &waiting}}
		c.request <- guard.Do(w.t.Context(), r, func(context.Context) error { return nil })
	}()
	return c
}

// asked returns the one question on the board.
func (c *court) asked() opstore.Approval {
	c.t.Helper()
	all, _, err := c.user.Approvals().List(c.t.Context())
	require.NoError(c.t, err)
	require.Len(c.t, all, 1)
	return all[0]
}

// noQuestionIsOpen makes sure that the board is empty.
func (c *court) noQuestionIsOpen() {
	c.t.Helper()
	all, _, err := c.user.Approvals().List(c.t.Context())
	require.NoError(c.t, err)
	require.Empty(c.t, all)
}

func TestARuleDecidesAtOnceAndSaysSo(t *testing.T) {
	below := priority.Level(10)
	batch := override.Match{PriorityBelow: &below}
	for name, c := range map[string]struct {
		rules []emergency.Rule
		force bool
	}{
		"by force": {[]emergency.Rule{{Name: "rules[0]", Victim: batch, Then: emergency.Force}}, true},
		"not":      {[]emergency.Rule{{Name: "rules[0]", Victim: batch, Then: emergency.Deny}}, false},
		"the first one that fits": {[]emergency.Rule{
			{Name: "rules[-2]", Requestor: override.Match{Job: "other"}, Then: emergency.Deny},
			{Name: "rules[-1]", Victim: override.Match{Job: "other"}, Then: emergency.Deny},
			{Name: "rules[0]", Requestor: override.Match{Job: "crit*"}, Victim: override.Match{Job: "job"}, Then: emergency.Force},
			{Name: "rules[1]", Then: emergency.Deny},
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				// when
				court := w.court(emergency.Policy{Rules: c.rules})
				err := <-court.request

				// then
				require.InDelta(t, time.Second, time.Since(court.began), float64(100*time.Millisecond))
				court.noQuestionIsOpen()
				decided := w.entries(opstore.AuditApprovalDecide)
				require.Len(t, decided, 1)
				require.Equal(t, "rules[0]", decided[0].By)
				require.Equal(t, "critical", decided[0].Requestor.Owner)
				require.Equal(t, "job", decided[0].Victims[0].Owner)
				require.Empty(t, court.log.lines("level=ERROR"), "no alarm")
				if c.force {
					require.NoError(t, err)
					require.Equal(t, "forced", decided[0].After["decision"])
					require.ErrorAs(t, <-court.holder, new(*lockguard.LostError))
					return
				}
				denied := &emergency.DeniedError{}
				require.ErrorAs(t, err, &denied)
				require.Equal(t, "rules[0]", denied.By)
				require.ErrorAs(t, err, new(*lock.CleanupPendingError))
				require.NotErrorAs(t, <-court.holder, new(*lockguard.LostError))
			})
		})
	}
}

func TestAPersonDecides(t *testing.T) {
	for name, approved := range map[string]bool{"by force": true, "not": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				// given a rule that leaves it to people
				court := w.court(emergency.Policy{Deadline: time.Hour, Rules: []emergency.Rule{{Then: emergency.Ask}, {Then: emergency.Force}}})
				time.Sleep(10 * time.Second)
				question := court.asked()
				require.Equal(t, "critical", question.Requestor.Owner)
				require.Equal(t, "job", question.Holders[0].Owner)
				require.Equal(t, time.Hour, question.Deadline.Round(time.Second))
				require.Empty(t, court.request)

				// the alert says what to type
				alert := court.log.lines("level=ERROR")
				require.Len(t, alert, 1)
				require.Contains(t, alert[0], "lockkeeper approvals approve "+question.ID)

				// when
				decided := time.Now()
				require.NoError(t, court.user.Approvals().Decide(t.Context(), question.ID, opstore.Decision{Approved: approved, Force: approved, By: "ana", Reason: "payments"}))
				err := <-court.request

				// then
				require.Less(t, time.Since(decided), time.Second)
				if approved {
					require.NoError(t, err)
					require.ErrorAs(t, <-court.holder, new(*lockguard.LostError))
				} else {
					require.ErrorContains(t, err, "denied by ana ("+question.ID+"): payments")
					<-court.holder
				}
				court.noQuestionIsOpen()
				require.Len(t, w.entries(opstore.AuditApprovalOpen), 1)
				require.Empty(t, w.entries(opstore.AuditApprovalDecide), "who decides puts it on record")
				takeovers := w.entries(opstore.AuditTakeover)
				require.Equal(t, approved, len(takeovers) > 0)
				for _, e := range takeovers {
					require.Equal(t, question.ID, e.Approval)
				}
			})
		})
	}
}

func TestApprovedRequestLeavesTheHolderTheRestOfItsGrace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// given a question about a holder that was promised a minute
		court := w.court(emergency.Policy{Deadline: time.Hour})
		time.Sleep(20 * time.Second)

		// when
		require.NoError(t, court.user.Approvals().Decide(t.Context(), court.asked().ID, opstore.Decision{Approved: true, By: "ana", Reason: "payments"}))

		// then it has the rest of that, and finishes in it
		require.NoError(t, <-court.request)
		require.InDelta(t, time.Minute, time.Since(court.began), float64(time.Second))
		require.NotErrorAs(t, <-court.holder, new(*lockguard.LostError))
		require.Empty(t, w.entries(opstore.AuditTakeover))
	})
}

func TestApprovalIsDeniedAtItsDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		court := w.court(emergency.Policy{Deadline: 20 * time.Second})
		err := <-court.request
		require.InDelta(t, 21*time.Second, time.Since(court.began), float64(100*time.Millisecond))
		require.ErrorContains(t, err, "denied by the deadline")
		require.ErrorContains(t, err, "no decision within 20s")
		require.ErrorAs(t, err, new(*lock.CleanupPendingError))
		require.Equal(t, "the deadline", w.entries(opstore.AuditApprovalDecide)[0].By)
		court.noQuestionIsOpen()
		<-court.holder
	})
}

func TestQuestionIsClosedWhenTheHolderHasGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		court := w.court(emergency.Policy{Deadline: time.Hour})
		time.Sleep(30 * time.Second)
		court.asked()
		require.ErrorAs(t, <-court.holder, new(*lockguard.PreemptedError))
		require.NoError(t, <-court.request)
		time.Sleep(time.Second)
		court.noQuestionIsOpen()
	})
}

func TestPeopleAreAskedAnewWhenTheSessionEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		court := w.court(emergency.Policy{Deadline: time.Hour})
		time.Sleep(5 * time.Second)
		first := court.asked()
		id, _ := court.client.Session()
		w.zk.Expire(id)
		time.Sleep(5 * time.Second)
		second := court.asked()
		require.NotEqual(t, first.ID, second.ID)
		require.NoError(t, court.user.Approvals().Decide(t.Context(), second.ID, opstore.Decision{Approved: true, Force: true, By: "ana", Reason: "payments"}))
		require.NoError(t, <-court.request)
		<-court.holder
	})
}

func TestATakeoverByARuleNeedsAnAuditRecord(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		client := w.client("a")
		d := &daemon{w: w, deaf: errors.New("the trail is full")}
		approvals, err := emergency.NewApprovals(emergency.ApprovalsConfig{
			Auditor: d, Forum: emergency.OnBoard(client.Approvals()), Policy: emergency.Policy{Rules: []emergency.Rule{{Name: "all", Then: emergency.Force}}},
		})
		require.NoError(t, err)
		_, err = approvals.Approve(t.Context(), lockguard.Pending{Subject: lockguard.Subject{Scope: orders}, Err: &lock.CleanupPendingError{}})
		require.ErrorContains(t, err, "the trail is full")
	})
}

// Removing a question again and again does not flood the audit trail.
func TestQuestionThatIsRemovedIsAskedAnewInTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		court := w.court(emergency.Policy{Deadline: time.Hour})
		for range 200 {
			time.Sleep(15 * time.Millisecond)
			for _, node := range w.zk.Tree("/lockkeeper/approvals") {
				if node.Path != "/lockkeeper/approvals" {
					require.NoError(t, w.zk.Delete(node.Path))
				}
			}
		}
		asked := len(w.entries(opstore.AuditApprovalOpen))
		require.Greater(t, asked, 1)
		require.LessOrEqual(t, asked, 3)
		require.NoError(t, <-court.request)
		<-court.holder
	})
}
