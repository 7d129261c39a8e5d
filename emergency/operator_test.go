package emergency_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A diary is an audit trail that the test reads.
type diary struct {
	entries []opstore.AuditEntry
	before  func()                                          // called when something is about to be put on record
	refuse  func(context.Context, opstore.AuditEntry) error // nil: nothing is refused
}

func (d *diary) Append(ctx context.Context, e opstore.AuditEntry) (opstore.AuditRecord, error) {
	if d.before != nil {
		d.before()
	}
	if d.refuse != nil {
		if err := d.refuse(ctx, e); err != nil {
			return opstore.AuditRecord{}, err
		}
	}
	if e.Act == "" {
		e.Act = "act-" + strconv.Itoa(len(d.entries)+1)
	}
	d.entries = append(d.entries, e)
	return opstore.AuditRecord{AuditEntry: e}, nil
}

// A counter has an operator, and what operators do something about.
type counter struct {
	*testing.T
	client *lock.Client
	diary  *diary
	does   *emergency.Operator

	grant *lock.Grant           // of the lock orders
	token lock.Token            // of it
	asked *opstore.OpenApproval // a question that is open
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	zk := zktest.RunT(t)
	client, err := lock.NewClient(lock.Config{Servers: []string{zk.Addr()}, Auth: &lock.Digest{User: "ana", Password: "secret"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = client.Close(ctx)
	})
	require.NoError(t, client.Ready(t.Context()))
	c := &counter{T: t, client: client, diary: &diary{}}
	c.does, err = emergency.NewOperator(client, c.diary)
	require.NoError(t, err)
	l, err := client.PriorityLock(orders)
	require.NoError(t, err)
	c.grant, err = l.Acquire(t.Context(), lock.Request{Identity: priority.Identity{Owner: "batch"}})
	require.NoError(t, err)
	c.token, err = c.grant.Token(t.Context())
	require.NoError(t, err)
	c.asked, err = client.Approvals().Open(t.Context(), opstore.ApprovalRequest{Scope: orders, Reason: "payments are stuck", Deadline: time.Hour})
	require.NoError(t, err)
	_, err = client.Overrides().Apply(t.Context(), c.freeze("INC-1", "db/*"))
	require.NoError(t, err)
	_, err = client.TickLedger("").Pause(t.Context(), "paused", ticks.Pause{By: "ben", Reason: "INC-2"})
	require.NoError(t, err)
	_, err = client.TickLedger("").Begin(t.Context(), "backup", time.Now())
	require.NoError(t, err)
	return c
}

func (c *counter) freeze(id, scope string) override.Override {
	return override.Override{ID: id, Kind: override.Freeze, Match: override.Match{Scope: scope}, Until: c.client.Now().Add(time.Hour), By: "ana", Reason: "disk is full"}
}

func (c *counter) paused(job string) bool {
	c.Helper()
	state, err := c.client.TickLedger("").State(context.WithoutCancel(c.Context()), job)
	require.NoError(c, err)
	return state.Paused != nil
}

func (c *counter) applied(id string) bool {
	c.Helper()
	all, err := c.client.Overrides().List(context.WithoutCancel(c.Context()))
	require.NoError(c, err)
	for _, o := range all {
		if o.Override.ID == id {
			return true
		}
	}
	return false
}

// deeds are all that an operator does, but for preemptions: how, and how one sees
// that it was done.
var deeds = map[string]struct {
	action opstore.AuditAction
	do     func(ctx context.Context, c *counter, by emergency.By) (act string, err error)
	done   func(c *counter) bool
}{
	"apply": {opstore.AuditOverrideApply, func(ctx context.Context, c *counter, by emergency.By) (string, error) {
		o := c.freeze("INC-3", "cluster/*")
		o.By, o.Reason = by.Name, by.Reason
		_, acts, err := c.does.Apply(ctx, []override.Override{o})
		return acts[0], err
	}, func(c *counter) bool { return c.applied("INC-3") }},
	"clear": {opstore.AuditOverrideClear, func(ctx context.Context, c *counter, by emergency.By) (string, error) {
		_, act, err := c.does.Clear(ctx, "INC-1", by)
		return act, err
	}, func(c *counter) bool { return !c.applied("INC-1") }},
	"decide": {opstore.AuditApprovalDecide, func(ctx context.Context, c *counter, by emergency.By) (string, error) {
		_, act, err := c.does.Decide(ctx, c.asked.ID(), opstore.Decision{Approved: true, By: by.Name, Reason: by.Reason})
		return act, err
	}, func(c *counter) bool {
		all, _, err := c.client.Approvals().List(context.WithoutCancel(c.Context()))
		require.NoError(c, err)
		return len(all) == 0 || all[0].Decision != nil
	}},
	"break": {opstore.AuditBreak, func(ctx context.Context, c *counter, by emergency.By) (string, error) {
		broken, err := c.does.Break(ctx, orders, c.token, by)
		return broken.Act, err
	}, func(c *counter) bool {
		state, err := c.client.Lock(context.WithoutCancel(c.Context()), orders)
		require.NoError(c, err)
		return !state.Held()
	}},
	"pause": {opstore.AuditJobPause, func(ctx context.Context, c *counter, by emergency.By) (string, error) {
		_, act, err := c.does.Pause(ctx, "backup", time.Time{}, by)
		return act, err
	}, func(c *counter) bool { return c.paused("backup") }},
	"resume": {opstore.AuditJobResume, func(ctx context.Context, c *counter, by emergency.By) (string, error) {
		was, act, err := c.does.Resume(ctx, "paused", by)
		if err == nil {
			require.Equal(c, "ben", was.By)
		}
		return act, err
	}, func(c *counter) bool { return !c.paused("paused") }},
	"run": {opstore.AuditJobRun, func(ctx context.Context, c *counter, by emergency.By) (string, error) {
		run, act, err := c.does.Run(ctx, "backup", 20*time.Second, by)
		if err == nil {
			require.Equal(c, run, c.diary.entries[1].After["run"])
		}
		return act, err
	}, func(c *counter) bool {
		state, err := c.client.TickLedger("").State(context.WithoutCancel(c.Context()), "backup")
		require.NoError(c, err)
		return len(state.Runs) > 0
	}},
}

// takes has a daemon take the first request to run a job.
func (c *counter) takes() {
	daemon := c.client.TickLedger("daemon")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		standing, err := daemon.AwaitRequests(ctx, ticks.Requests{})
		if err == nil && len(standing.Standing) > 0 {
			_, _ = daemon.ClaimRequest(ctx, standing.Standing[0], 1)
		}
	}()
	c.Cleanup(func() { cancel(); <-done })
}

var ana = emergency.By{Name: "ana", Reason: "INC-4411"}

func TestDeedsAreOnRecordBeforeTheyAreDoneAndAfter(t *testing.T) {
	for name, deed := range deeds {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t)
			c.takes()
			var done []bool // when something was put on record
			c.diary.before = func() { done = append(done, deed.done(c)) }

			// when
			act, err := deed.do(t.Context(), c, ana)

			// then
			require.NoError(t, err)
			require.Equal(t, []bool{false, true}, done)
			require.Len(t, c.diary.entries, 2)
			require.Equal(t, opstore.AuditIntent, c.diary.entries[0].Phase)
			require.Equal(t, opstore.AuditOutcome, c.diary.entries[1].Phase)
			require.Equal(t, opstore.AuditDone, c.diary.entries[1].Result)
			for _, e := range c.diary.entries {
				require.Equal(t, deed.action, e.Action)
				require.Equal(t, emergency.By{Name: e.By, Reason: e.Reason}, ana)
				require.Equal(t, act, e.Act)
				if name == "break" {
					require.Equal(t, c.token, e.Victims[0].Token)
				}
			}
		})
	}
}

func TestNoDeedIsDoneThatCannotBePutOnRecord(t *testing.T) {
	full := errors.New("the trail is full")
	for name, deed := range deeds {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t)
			c.takes()
			c.diary.refuse = func(context.Context, opstore.AuditEntry) error { return full }

			// when
			_, err := deed.do(t.Context(), c, ana)

			// then
			require.ErrorIs(t, err, full)
			require.False(t, deed.done(c))
		})
	}
}

func TestNoDeedIsDoneWithoutAReasonOrAName(t *testing.T) {
	for name, deed := range deeds {
		for _, by := range []emergency.By{{Name: "ana"}, {Reason: "INC-4411"}} {
			t.Run(fmt.Sprintf("%s by %q", name, by.Name), func(t *testing.T) {
				c := newCounter(t)
				c.takes()

				// when
				_, err := deed.do(t.Context(), c, by)

				// then
				var request *lock.RequestError
				require.ErrorAs(t, err, &request)
				require.Empty(t, c.diary.entries)
				require.False(t, deed.done(c))
			})
		}
	}
}

func TestADeedThatFailsIsOnRecordAsFailed(t *testing.T) {
	for name, deed := range deeds {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t)
			ctx, cancel := context.WithCancel(t.Context())
			c.diary.refuse = func(ctx context.Context, e opstore.AuditEntry) error {
				if e.Phase == opstore.AuditIntent {
					cancel() // the caller is gone
					return nil
				}
				return ctx.Err() // which is no reason not to write down what has come of it
			}

			// when
			_, err := deed.do(ctx, c, ana)

			// then
			require.ErrorIs(t, err, context.Canceled)
			require.False(t, deed.done(c))
			require.Len(t, c.diary.entries, 2)
			outcome := c.diary.entries[1]
			require.Equal(t, opstore.AuditOutcome, outcome.Phase)
			require.Equal(t, opstore.AuditFailed, outcome.Result)
			require.Contains(t, outcome.Error, context.Canceled.Error())
		})
	}
}

func TestARunThatNoDaemonTakesIsWithdrawnAndOnRecordAsFailed(t *testing.T) {
	c := newCounter(t)

	// when
	_, _, err := c.does.Run(t.Context(), "backup", time.Millisecond, ana)

	// then
	require.ErrorIs(t, err, emergency.ErrNotTaken)
	require.Len(t, c.diary.entries, 2)
	require.Equal(t, opstore.AuditFailed, c.diary.entries[1].Result)
	standing, err := c.client.TickLedger("daemon").AwaitRequests(t.Context(), ticks.Requests{Standing: []ticks.Request{{ID: "none"}}})
	require.NoError(t, err)
	require.Empty(t, standing, "it is not run later")
}

func TestAWrongTokenBreaksAndPreemptsNoHolder(t *testing.T) {
	c := newCounter(t)
	state, err := c.client.Lock(t.Context(), orders)
	require.NoError(t, err)

	// when
	_, broken := c.does.Break(t.Context(), orders, c.token-1, ana)
	wanted := emergency.Preemption{Scope: orders, By: ana, Token: c.token - 1, Force: true}
	_, preempted := c.does.Preempt(t.Context(), wanted, state, wanted.NewMark())
	_, free := c.does.Break(t.Context(), "cluster/other", c.token, ana)

	// then
	require.ErrorAs(t, broken, new(*lock.StaleTokenError))
	require.ErrorAs(t, preempted, new(*lock.StaleTokenError))
	require.ErrorAs(t, free, new(*lock.NotHeldError))
	require.Empty(t, c.diary.entries)
	require.NoError(t, c.grant.Check())
}

func TestAHolderIsAskedToGoOnRecordOrNotAtAll(t *testing.T) {
	c := newCounter(t)
	state, err := c.client.Lock(t.Context(), orders)
	require.NoError(t, err)
	full := errors.New("the trail is full")
	force := emergency.Preemption{Scope: orders, By: ana, Token: c.token, Force: true, Grace: new(time.Duration)}

	// when it cannot be put on record, or without a reason
	c.diary.refuse = func(context.Context, opstore.AuditEntry) error { return full }
	_, refused := c.does.Preempt(t.Context(), force, state, force.NewMark())
	polite := emergency.Preemption{Scope: orders, By: ana, Waiting: time.Millisecond}
	_, politely := c.does.Preempt(t.Context(), polite, state, polite.NewMark())
	c.diary.refuse = nil
	mute := force
	mute.By.Reason = ""
	_, without := c.does.Preempt(t.Context(), mute, state, mute.NewMark())

	// then
	require.ErrorIs(t, refused, full)
	require.ErrorIs(t, politely, full)
	require.ErrorAs(t, without, new(*lock.RequestError))
	require.NoError(t, c.grant.Check())
	require.Empty(t, c.diary.entries)

	// when
	mark := force.NewMark()
	done, err := c.does.Preempt(t.Context(), force, state, mark)

	// then
	require.NoError(t, err)
	require.Equal(t, emergency.PreemptedTaken, done.Outcome)
	var told []string
	for _, e := range c.diary.entries {
		told = append(told, fmt.Sprintf("%s %s %s", e.Action, e.Phase, e.Result))
		recorded := emergency.By{Name: e.By, Reason: e.Reason}
		require.Equal(t, ana, recorded)
		require.Equal(t, c.token, e.Victims[0].Token)
		require.Equal(t, mark.ID, e.Override)
	}
	require.Equal(t, []string{"preempt intent ", "takeover intent ", "preempt outcome done", "takeover outcome done"}, told)
}
