package lockguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

var errAudit = errors.New("the audit trail is full")

func TestWhatAnOverrideDoesIsOnRecordBeforeItDoesIt(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given an auditor that looks what has happened by then
		o.audit.write = func(context.Context, opstore.AuditEntry) error {
			require.Empty(t, o.locker.grants)
			require.Equal(t, []string{"Waiting"}, o.events.names())
			return nil
		}
		b := incident(override.Boost, func(o *override.Override) {
			o.Priority, o.Forceful, o.WaitingTimeout = new(priority.Level(20)), new(true), new(time.Second)
		})
		o.overrides.put(b, capped(10))

		// when a request is changed by two overrides
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}, Job: "nightly"})
		require.NoError(t, c.finish(t))

		// then each of them has an entry that says what it has changed
		host, _ := os.Hostname()
		requestor := &opstore.AuditParty{Owner: "compact", Host: host, PID: os.Getpid(), Priority: 5}
		require.Equal(t, []opstore.AuditEntry{{
			Action: "override.act", Phase: "intent", Scope: scope, Job: "nightly", By: "ana", Reason: "failing disks", Override: "INC-7",
			Requestor: requestor,
			Before:    map[string]string{"priority": "5", "forceful": "false", "waiting_timeout": "unset"},
			After:     map[string]string{"priority": "20", "forceful": "true", "waiting_timeout": "1s"},
		}, {
			Action: "override.act", Phase: "intent", Scope: scope, Job: "nightly", By: "ana", Reason: "failing disks", Override: "INC-8",
			Requestor: requestor,
			Before:    map[string]string{"priority": "20"},
			After:     map[string]string{"priority": "10"},
		}}, o.audit.list())
	})
}

func TestActIsOnRecordOnceForEachOverrideJobAndLock(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		run := func(r Requirement) {
			require.NoError(t, o.do(t.Context(), r).finish(t))
		}
		o.overrides.put(boost(9))
		for range 3 {
			run(required())
		}
		retrying, err := o.Retrying(Retry{})
		require.NoError(t, err)
		require.NoError(t, retrying.Do(t.Context(), required(), func(context.Context) error { return nil }))
		require.Len(t, o.audit.list(), 1)

		// another lock, another job, another owner
		run(Requirement{Scope: "other"})
		run(Requirement{Scope: scope, Job: "other"})
		run(Requirement{Scope: scope, Owner: "other", Job: "compact"})
		require.Len(t, o.audit.list(), 4)

		// the same override applied anew: longer, or saying something else
		longer := boost(9)
		longer.Until = longer.Until.Add(time.Hour)
		o.overrides.put(longer)
		run(required())
		higher := longer
		higher.Priority = new(priority.Level(10))
		o.overrides.put(higher)
		run(required())
		run(required())
		require.Len(t, o.audit.list(), 6)

		// and nothing is remembered of those that are gone
		o.overrides.put(capped(3))
		run(Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}})
		require.Len(t, o.acts.of, 1)
		o.overrides.put(higher)
		run(required())
		require.Len(t, o.audit.list(), 8)
	})
}

func TestLongerLeaseOfAHolderDoesNotPutTheRestOnRecordAgain(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a boost that is on record, and a holder
		o.overrides.put(boost(9))
		require.NoError(t, o.do(t.Context(), Requirement{Scope: "other"}).finish(t))
		c := o.do(t.Context(), required())
		require.Len(t, o.audit.list(), 2)

		// when an override makes its lease longer
		longer := extend(time.Hour)
		longer.ID, longer.WaitingTimeout = "INC-9", new(time.Minute)
		o.put(boost(9), longer)
		require.Len(t, o.audit.list(), 3)

		// then that is new, and nothing else
		require.NoError(t, o.do(t.Context(), Requirement{Scope: "other", Terms: priority.Terms{LeaseTimeout: 2 * time.Hour}}).finish(t))
		o.put(boost(9), longer, capped(50))
		require.Len(t, o.audit.list(), 3)
		require.NoError(t, c.finish(t))
	})
}

func TestManyRequestsAtOnceMakeOneEntry(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		first := true
		o.audit.write = func(ctx context.Context, _ opstore.AuditEntry) error {
			if first { // its request gives up meanwhile; the others do not
				first = false
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Second)
			return nil
		}
		o.overrides.put(boost(9))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = o.Do(ctx, required(), func(context.Context) error { panic("not begun") }) }()
		synctest.Wait()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_ = o.Do(t.Context(), required(), func(context.Context) error { return nil })
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		require.Len(t, o.audit.list(), 1)
		for _, g := range o.locker.grants {
			require.Equal(t, priority.Level(9), g.request.Priority)
		}
	})
}

func TestMemoryOfActsIsBounded(t *testing.T) {
	a := &acts{}
	for i := range maxActs + 2 {
		require.NoError(t, a.once(t.Context(), "override", act{scope: fmt.Sprint(i)}, func(context.Context) error { return nil }))
	}
	require.LessOrEqual(t, len(a.of["override"]), maxActs)
}

func TestWithoutARecordBoostExtendAndBypassDoNotAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := newQueued(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		o.audit.fail(errAudit)
		below := incident(override.Freeze, func(o *override.Override) { o.ID, o.Match.PriorityBelow = "INC-9", new(priority.Level(3)) })
		o.overrides.put(bypass(scope), boost(9), extend(time.Hour), below)

		// as if they were not there: neither is the freeze that they lift the request over
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}})
		require.Equal(t, priority.Level(5), o.queue.only().asks().Priority)
		require.Equal(t, 10*time.Minute, o.queue.only().asks().LeaseTimeout)
		low := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Priority: 1}})
		require.Len(t, o.queue.waiting(), 1, "the other one is frozen")
		require.Contains(t, log.String(), "the audit trail is full")
		require.Contains(t, log.String(), "override=INC-7 kind=boost acts=false")
		require.Contains(t, log.String(), "override=INC-9 kind=freeze acts=true")

		// the next change is the next try
		o.audit.fail(nil)
		o.put(boost(9), extend(time.Hour), below)
		require.Len(t, o.queue.waiting(), 2)
		for _, place := range o.queue.waiting() {
			require.Equal(t, priority.Level(9), place.asks().Priority)
			require.Equal(t, time.Hour, place.asks().LeaseTimeout)
			close(place.open)
		}
		require.NoError(t, c.finish(t))
		require.NoError(t, low.finish(t))
	})
}

func TestAuditorThatHangsOrPanicsDoesNotHoldUpTheSafeSide(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		o.audit.write = func(ctx context.Context, _ opstore.AuditEntry) error {
			<-ctx.Done()
			return ctx.Err()
		}
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(time.Minute)}})
		place := o.queue.only()
		o.put(freeze())
		require.Same(t, place, o.queue.only(), "it waits for the record")

		// a grant that comes meanwhile is given back
		close(place.open)
		synctest.Wait()
		require.Nil(t, c.hold)
		require.Equal(t, 1, o.locker.last().released())
		time.Sleep(auditLimit)
		synctest.Wait()
		require.Equal(t, []string{"Waiting", "Queued", "Frozen"}, o.events.names())

		o.audit.write = func(context.Context, opstore.AuditEntry) error { panic("broken") }
		o.put(boost(3))
		require.Zero(t, o.queue.only().asks().Priority)
		close(o.queue.only().open)
		require.NoError(t, c.finish(t))
	})
}

func TestAcquireTimeoutBoundsTheAuditToo(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		o.audit.write = func(ctx context.Context, _ opstore.AuditEntry) error {
			<-ctx.Done()
			return ctx.Err()
		}
		o.overrides.put(boost(9))
		start := time.Now()
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(time.Second)}})
		<-c.done
		require.Less(t, time.Since(start), 1100*time.Millisecond)
		require.ErrorAs(t, c.err, new(*lock.NotAcquiredError))
	})
}

func TestTakeoverIsOnRecordBeforeItIsDone(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(boost(9))
		holders := []lock.Contender{
			{ID: "g1", Identity: priority.Identity{Owner: "backup", Host: "h1", PID: 7}, Terms: priority.Terms{Priority: 1}, Token: 42},
			{ID: "g2", Identity: priority.Identity{Owner: "report", Host: "h2", PID: 8}, Terms: priority.Terms{Priority: 9}, Token: 43},
		}
		var act string
		o.locker.before = func(ctx context.Context, g *fakeGrant) error {
			g.request.Notify(lock.PreemptSent{Holder: holders[0], Reason: priority.Outranked})
			g.request.Notify(lock.PreemptSent{Holder: holders[1], Reason: priority.LeaseExpired})
			return g.request.Authorize(ctx, holders)
		}
		require.NoError(t, o.do(t.Context(), Requirement{Scope: scope, Job: "nightly", Terms: priority.Terms{Priority: 2}}).finish(t))
		act = about[Acquired](t, o.events).ID

		host, _ := os.Hostname()
		require.Equal(t, opstore.AuditEntry{
			Act: act, Action: "takeover", Phase: "intent", Scope: scope, Job: "nightly", By: "compact", Reason: "outranked, lease", Override: "INC-7",
			Requestor: &opstore.AuditParty{Owner: "compact", Host: host, PID: os.Getpid(), Priority: 9},
			Victims: []opstore.AuditParty{
				{ID: "g1", Owner: "backup", Host: "h1", PID: 7, Priority: 1, Token: 42},
				{ID: "g2", Owner: "report", Host: "h2", PID: 8, Priority: 9, Token: 43},
			},
		}, o.audit.list()[1])

		// and is not done without
		o.audit.fail(errAudit)
		err := o.do(t.Context(), Requirement{Scope: scope}).returned(t)
		require.ErrorIs(t, err, errAudit)
		require.ErrorContains(t, err, `lock "cluster/orders" not taken over: that could not be put on record`)
		require.Len(t, o.locker.grants, 1)
	})
}
