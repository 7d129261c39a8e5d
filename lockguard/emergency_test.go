package lockguard

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// hold takes the lock for a person, for an hour.
func hold() override.Override {
	return incident(override.Hold, func(o *override.Override) { o.Match.Scope = scope })
}

func TestOverrideTakesTheLockForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given an operator's word, and others that would stop all requests
		o := newOperated(t, WithApprover(newFakeApprover()))
		o.overrides.put(freeze(), bypass(scope), capped(1))
		want := hold()
		want.WaitingTimeout = new(5 * time.Second)

		// when it is carried out
		err := o.Override(t.Context(), want, func(ctx context.Context) error {
			// then it is on record before anything else
			require.Len(t, o.audit.list(), 1)
			entry := o.audit.list()[0]
			require.Equal(t, opstore.AuditOverrideAct, entry.Action)
			require.Equal(t, []string{"INC-7", "ana", "failing disks", scope, ""}, []string{entry.Override, entry.By, entry.Reason, entry.Scope, entry.Job})
			require.Equal(t, map[string]string{"hold": "until 2000-01-01T01:00:00Z"}, entry.After)

			// and asks for all that there is
			r := o.locker.last().request
			require.Equal(t, priority.Emergency, r.Priority)
			require.Equal(t, priority.Exclusive, r.Mode)
			require.True(t, r.Forceful)
			require.False(t, r.Patient)
			require.Nil(t, r.Revise)
			require.Equal(t, 5*time.Second, *r.WaitingTimeout)
			require.Equal(t, time.Hour, r.LeaseTimeout)
			require.Equal(t, time.Hour, *r.AcquireTimeout)
			require.Equal(t, &lock.Mark{ID: "INC-7", By: "ana", Reason: "failing disks"}, r.Override)
			require.Equal(t, "ana", r.Owner)
			require.Equal(t, "override INC-7: failing disks", r.Message)

			// and evicts on record
			require.NoError(t, r.Authorize(ctx, batch))
			require.Equal(t, "INC-7", o.audit.list()[1].Override)

			hold, ok := FromContext(ctx)
			require.True(t, ok)
			require.Equal(t, Token(101), hold.Token())
			o.put(freeze(), extend(100*time.Hour))
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, []string{"Waiting", "Acquired", "Released"}, o.events.names())
	})
}

func TestOverrideThatIsNotOnRecordIsNotCarriedOut(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.audit.fail(errAudit)
		err := o.Override(t.Context(), hold(), func(context.Context) error { panic("not begun") })
		require.ErrorIs(t, err, errAudit)
		require.ErrorContains(t, err, `lock "cluster/orders" not taken for override INC-7`)
		require.Empty(t, o.locker.grants)
		require.Equal(t, []string{"Waiting", "NotAcquired"}, o.events.names())
	})
}

func TestOverrideWithoutWhoWhyOrUntilIsRefused(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		work := func(context.Context) error { panic("not begun") }
		err := s.Override(t.Context(), override.Override{WaitingTimeout: new(-time.Second)}, work)
		for _, field := range []string{"scope", "id", "by", "reason", "until", "waiting_timeout"} {
			require.ErrorContains(t, err, "lockkeeper: "+field+": ")
		}
		require.Empty(t, s.events.names())

		over := hold()
		over.Until = time.Now()
		require.ErrorContains(t, s.Override(t.Context(), over, work), "until: 2000-01-01T00:00:00Z is over already")
		require.ErrorAs(t, s.Override(t.Context(), hold(), nil), new(*RequestError))

		c := acquire(t.Context(), t, s, required())
		require.ErrorContains(t, s.Override(c.Context(), hold(), work), "held by this context already")
		require.NoError(t, c.Release(t.Context()))
	})
}

func TestWorkOfAnOverrideEndsAsAnyOther(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		require.Same(t, errWork, s.Override(t.Context(), hold(), func(context.Context) error { return errWork }))
		require.ErrorAs(t, s.Override(t.Context(), hold(), func(context.Context) error { panic("oops") }), new(*PanicError))

		ctx, cancel := context.WithCancelCause(t.Context())
		err := s.Override(ctx, hold(), func(ctx context.Context) error {
			cancel(ErrShutdown)
			return untilCancelled(ctx)
		})
		require.ErrorIs(t, err, ErrShutdown)
		for _, g := range s.locker.grants {
			require.Equal(t, 1, g.released())
		}
	})
}

// A clockedLocker has the servers' clock, which is an hour ahead.
type clockedLocker struct{ *fakeLocker }

func (clockedLocker) now() time.Time { return time.Now().Add(time.Hour) }

func TestOverrideEndsByTheServersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := clockedLocker{&fakeLocker{}}
		g, err := newGuard(locker)
		require.NoError(t, err)
		over := hold()
		require.ErrorContains(t, g.Override(t.Context(), over, func(context.Context) error { panic("not begun") }), "over already")
		over.Until = over.Until.Add(time.Minute)
		require.NoError(t, g.Override(t.Context(), over, func(context.Context) error { return nil }))
		require.Equal(t, time.Minute, locker.last().request.LeaseTimeout)
	})
}

func TestRefusalOfEmergencyPrioritySaysOnceThatTheLockIsNotAcquired(t *testing.T) {
	err := notAcquired(t.Context(), scope, &lock.EmergencyError{Scope: scope})
	require.Equal(t, 1, strings.Count(err.Error(), "not acquired"), err.Error())
}
