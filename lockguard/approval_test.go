package lockguard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A fakeApprover decides when a test does.
type fakeApprover struct {
	asked chan Pending
	ended chan error // the context of one that was not needed any more
	say   chan func() (Decision, error)
}

func newFakeApprover() *fakeApprover {
	return &fakeApprover{asked: make(chan Pending, 9), ended: make(chan error, 9), say: make(chan func() (Decision, error))}
}

func (f *fakeApprover) Approve(ctx context.Context, pending Pending) (Decision, error) {
	f.asked <- pending
	select {
	case decide := <-f.say:
		return decide()
	case <-ctx.Done():
		f.ended <- ctx.Err()
		return Decision{}, ctx.Err()
	}
}

func (f *fakeApprover) decide(d Decision, err error) {
	f.say <- func() (Decision, error) { return d, err }
	synctest.Wait()
}

var batch = []lock.Contender{{ID: "g1", Identity: priority.Identity{Owner: "batch"}, Token: 42}, {ID: "g2", Identity: priority.Identity{Owner: "report"}, Token: 43}}

// pending brings a polite request to where an approval is needed.
func pending(t *testing.T, o operated, f *fakeApprover, change ...func(*Requirement)) (*call, *queuePlace, Pending) {
	t.Helper()
	r := Requirement{Scope: scope, Terms: priority.Terms{Priority: 9, WaitingTimeout: new(30 * time.Second)}, Job: "nightly", Labels: map[string]string{"team": "orders"}}
	for _, f := range change {
		f(&r)
	}
	c := o.do(t.Context(), r)
	place := o.queue.only()
	require.True(t, place.request.Patient)
	time.Sleep(30 * time.Second)
	place.request.Notify(lock.CleanupPending{Holders: batch, Waited: 30 * time.Second})
	synctest.Wait()
	return c, place, <-f.asked
}

func TestApprovedRequestTakesTheLockByForceInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a polite request whose holders do not finish
		approver := newFakeApprover()
		o := newQueued(t, WithApprover(approver))
		c, place, asked := pending(t, o, approver)
		require.Equal(t, Pending{
			Subject: asked.Subject, Job: "nightly", Labels: map[string]string{"team": "orders"}, Holders: batch,
			Err: &lock.CleanupPendingError{Scope: scope, Waited: 30 * time.Second, Holders: batch},
		}, asked)
		require.Equal(t, c.id(t, o), asked.Subject.ID)
		require.False(t, place.asks().Forceful)

		// when that is approved
		approver.decide(Decision{ID: "a-7", By: "ana", Reason: "month's end"}, nil)

		// then it becomes forceful, at once, in its place
		require.Same(t, place, o.queue.only())
		require.True(t, place.asks().Forceful)
		require.Zero(t, *place.asks().WaitingTimeout)

		// and what it does then names the approval
		require.NoError(t, place.request.Authorize(t.Context(), batch))
		require.Equal(t, "a-7", o.audit.list()[0].Approval)

		// overrides change other things
		o.put(boost(20), incident(override.Cap, func(o *override.Override) { o.ID, o.Forceful = "INC-8", new(false) }))
		require.True(t, place.asks().Forceful)
		require.EqualValues(t, 20, place.asks().Priority)

		close(place.open)
		require.NoError(t, c.finish(t))
		require.Equal(t, []string{"Waiting", "Queued", "ApprovalPending", "ApprovalDecided", "Overridden", "Acquired", "Released"}, o.events.names())
		require.Equal(t, batch, only[ApprovalPending](t, o.events).Holders)
		require.Equal(t, Decision{ID: "a-7", By: "ana", Reason: "month's end"}, only[ApprovalDecided](t, o.events).Decision)
	})
}

// id is that of the only request.
func (c *call) id(t *testing.T, o operated) string {
	t.Helper()
	return about[Waiting](t, o.events).ID
}

func TestDecisionThatComesWithTheGrantChangesNothing(t *testing.T) {
	for _, no := range []error{nil, errors.New("denied")} {
		synctest.Test(t, func(t *testing.T) {
			approver := newFakeApprover()
			o := newQueued(t, WithApprover(approver))
			o.locker.prepare = func(g *fakeGrant) {
				token := g.token
				g.token = func(ctx context.Context) (lock.Token, error) { // granted, and not open yet
					approver.say <- func() (Decision, error) { return Decision{ID: "a-7"}, no }
					time.Sleep(time.Second)
					return token(ctx)
				}
			}
			c, place, _ := pending(t, o, approver)
			close(place.open)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.NotNil(t, c.hold)
			require.NoError(t, c.finish(t))
		})
	}
}

func TestFrozenRequestNeedsNoDecisionAndIsDecidedAboutAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		approver := newFakeApprover()
		o := newQueued(t, WithApprover(approver))
		c, place, _ := pending(t, o, approver)
		approver.decide(Decision{}, nil)
		require.True(t, place.asks().Forceful)

		o.put(freeze())
		o.put()
		place = o.queue.only()
		require.False(t, place.asks().Forceful, "the holder may be another one")
		place.request.Notify(lock.CleanupPending{Holders: batch})
		place.request.Notify(lock.CleanupPending{Holders: batch})
		synctest.Wait()
		require.Len(t, approver.asked, 1, "once for each time that it is made")

		o.put(freeze())
		require.Len(t, approver.ended, 1)
		o.put()
		close(o.queue.only().open)
		require.NoError(t, c.finish(t))
	})
}

func TestDeniedRequestFailsAndSaysWhy(t *testing.T) {
	errNo := errors.New("denied by ana: let it finish")
	for why, decide := range map[string]func() (Decision, error){
		errNo.Error():                    func() (Decision, error) { return Decision{ID: "a-7", By: "ana"}, errNo },
		"approver panicked: broken rule": func() (Decision, error) { panic("broken rule") },
	} {
		synctest.Test(t, func(t *testing.T) {
			approver := newFakeApprover()
			o := newQueued(t, WithApprover(approver))
			c, _, asked := pending(t, o, approver)
			approver.say <- decide
			err := c.returned(t)
			cleanup := as[*lock.CleanupPendingError](t, err)
			require.Equal(t, asked.Err, cleanup)
			require.EqualError(t, err, asked.Err.Error()+"; "+why)
			require.Equal(t, []string{"Waiting", "Queued", "ApprovalPending", "ApprovalDecided", "NotAcquired"}, o.events.names())
			require.EqualError(t, only[ApprovalDecided](t, o.events).Err, why)
		})
	}
}
