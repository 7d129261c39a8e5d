package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

func bypass(scope string) override.Override {
	return incident(override.Bypass, func(o *override.Override) { o.ID, o.Match.Scope = "bypass-"+scope, scope })
}

func TestBypassedWorkRunsWithoutTheLock(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(bypass(""), freeze())
		c := o.do(t.Context(), required())
		require.Empty(t, o.locker.grants)

		hold := c.hold
		require.Zero(t, hold.Token())
		require.Equal(t, map[string]Token{scope: 0}, hold.Tokens())
		require.Equal(t, "bypass-", hold.Info().Bypass.ID)
		require.NoError(t, hold.Check())
		require.NoError(t, hold.Extend(t.Context(), time.Hour))
		require.NoError(t, hold.Extend(t.Context(), time.Second), "whatever it is")
		require.NoError(t, hold.Downgrade(t.Context()))
		require.Greater(t, time.Until(hold.Deadline()), 24*time.Hour)
		select {
		case <-hold.Lost():
			require.Fail(t, "nothing was held")
		case <-hold.AtRisk():
			require.Fail(t, "nothing is at risk")
		default:
		}

		// and goes on when the override ends
		o.put(freeze())
		require.NoError(t, hold.Context().Err())
		require.NoError(t, c.finish(t))
		names := o.events.names()
		require.Equal(t, []string{"Waiting", "Bypassed"}, names[:2])
		require.Equal(t, "Released", names[len(names)-1])
		require.Equal(t, "bypass-", only[Bypassed](t, o.events).Override.ID)
		require.NotContains(t, names, "Extended")
		require.Equal(t, []string{"bypass-"}, o.audited(t))
	})
}

// audited are the IDs of the overrides whose acts are on record, in order.
func (o operated) audited(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, e := range o.audit.list() {
		ids = append(ids, e.Override)
	}
	return ids
}

func TestHolderKeepsTheLockWhenItIsBypassed(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.locker.prepare = func(*fakeGrant) { o.overrides.put(bypass(scope)) }
		c := o.do(t.Context(), required())
		require.Nil(t, c.hold.Info().Bypass)
		require.Equal(t, Token(101), c.hold.Token())
		require.NoError(t, c.finish(t))
		require.Equal(t, 1, o.locker.last().released())
	})
}

func TestOfSeveralLocksThoseThatAreNotBypassedAreTaken(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(bypass("b"))
		c := o.do(t.Context(), three()...)
		require.Equal(t, map[string]Token{"a": 101, "b": 0, "c": 102}, c.hold.Tokens())
		require.Equal(t, []string{o.locker.of(t, "a").ID()}, o.locker.of(t, "c").request.Under)

		// and a preempted one ends the work
		o.locker.of(t, "c").preempt(time.Minute)
		requirePreempted(t, c.returned(t))
		require.Equal(t, []string{"Waiting", "Bypassed", "Released"}, o.events.of("b"))
		require.Equal(t, 1, o.locker.of(t, "a").released())
	})
}

func TestNestedHoldOfBypassedWorkHasNoLockEither(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(bypass(scope))
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Mode: priority.Shared}})
		o.overrides.put()
		inner, err := o.Acquire(c.hold.Context(), Requirement{Scope: scope, Terms: priority.Terms{Mode: priority.Shared}})
		require.NoError(t, err)
		require.NotNil(t, inner.Info().Bypass)
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, c.finish(t))
	})
}

// A request that was given up looks at the overrides once more, late: that is no concern of the work that then runs
// without the lock.
func TestBypassedWorkIsNoConcernOfARequestThatWasGivenUpBefore(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		// given a request that waits, and is slow to see a freeze
		c := o.do(t.Context(), required(), Requirement{Scope: "other"})
		goOn := o.overrides.stall()
		o.put(frozen(scope))

		// when it is granted, given back for the freeze, and the work is let through without the lock
		close(o.queue.only().open)
		synctest.Wait()
		require.Equal(t, 1, o.locker.last().released())
		o.put(bypass(scope))
		require.Equal(t, []string{"Waiting", "Queued", "Frozen", "Bypassed"}, o.events.of(scope))
		other := o.queue.only()

		// then nothing happens to it when the bypass has ended and the first look comes to an end
		o.put(frozen(scope))
		goOn()
		synctest.Wait()
		require.Equal(t, []string{"Waiting", "Queued", "Frozen", "Bypassed"}, o.events.of(scope))
		require.Same(t, other, o.queue.only(), "in its place")
		close(other.open)
		require.NoError(t, c.finish(t))
	})
}

func TestBypassedWorkIsInterruptedByItsCallerAlone(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(bypass(scope))
		ctx, cancel := context.WithCancelCause(t.Context())
		cleaned := false
		err := o.Do(ctx, required(), func(ctx context.Context) error {
			cancel(ErrShutdown)
			return untilCancelled(ctx)
		}, func(context.Context) error {
			cleaned = true
			return nil
		})
		require.ErrorIs(t, err, ErrShutdown)
		require.True(t, cleaned)

		// a call that has ended before does not begin
		require.ErrorIs(t, o.Do(ctx, required(), func(context.Context) error { panic("not begun") }), ErrShutdown)
	})
}
