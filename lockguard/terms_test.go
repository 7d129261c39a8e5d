package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An operated setup is a Guard in the hands of operators, with a queue.
type operated struct {
	setup
	overrides *fakeOverrides
	audit     *fakeAuditor
	queue     *queue
}

// newOperated lets every request in at once; with queue.wait as the locker's
// before, they wait.
func newOperated(t *testing.T, options ...Option) operated {
	t.Helper()
	o := operated{overrides: &fakeOverrides{}, audit: &fakeAuditor{}, queue: &queue{}}
	o.setup = newSetup(t, append([]Option{WithOverrides(o.overrides), WithAuditor(o.audit)}, options...)...)
	return o
}

// newQueued is newOperated with requests that wait.
func newQueued(t *testing.T, options ...Option) operated {
	t.Helper()
	o := newOperated(t, options...)
	o.locker.before = o.queue.wait
	return o
}

// put brings these into force, in place of all others, and lets all requests follow.
func (o operated) put(all ...override.Override) {
	o.overrides.put(all...)
	synctest.Wait()
}

// underOverrides is virtual with overrides, and queuing with requests that wait as well.
func underOverrides(t *testing.T, f func(t *testing.T, o operated)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newOperated(t)) })
}

func queuing(t *testing.T, f func(t *testing.T, o operated)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newQueued(t)) })
}

// A call is a Do that runs in the background.
type call struct {
	done chan struct{}
	err  error
	hold *Hold // while, and after, the work runs
	end  chan struct{}
}

// do calls Do and lets it come as far as it does. The work ends with finish.
func (o operated) do(ctx context.Context, requirements ...Requirement) *call {
	c := &call{done: make(chan struct{}), end: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = o.DoAll(ctx, requirements, func(ctx context.Context) error {
			c.hold, _ = FromContext(ctx)
			select {
			case <-c.end:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	synctest.Wait()
	return c
}

// finish lets the work return, and the call.
func (c *call) finish(t *testing.T) error {
	t.Helper()
	close(c.end)
	return c.returned(t)
}

func (c *call) returned(t *testing.T) error {
	t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
	default:
		require.FailNow(t, "the call has not returned")
	}
	return c.err
}

func boost(to priority.Level) override.Override {
	return incident(override.Boost, func(o *override.Override) { o.Priority = &to })
}

func capped(to priority.Level) override.Override {
	return incident(override.Cap, func(o *override.Override) { o.ID, o.Priority = "INC-8", &to })
}

func freeze() override.Override { return incident(override.Freeze) }

func extend(lease time.Duration) override.Override {
	return incident(override.Extend, func(o *override.Override) { o.LeaseTimeout = &lease })
}

func TestNewRequestAsksForWhatOverridesMakeOfIt(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a boost to emergency, that makes forceful and impatient
		o.overrides.put(incident(override.Boost, func(o *override.Override) {
			o.Priority, o.Forceful, o.WaitingTimeout = new(priority.Emergency), new(true), new(5*time.Second)
		}))

		// when a request is made
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Priority: 3, CleanupTimeout: time.Minute}})

		// then it asks for that, in the name of the override
		r := o.locker.last().request
		require.Equal(t, priority.Emergency, r.Priority)
		require.True(t, r.Forceful)
		require.Equal(t, 5*time.Second, *r.WaitingTimeout)
		require.Equal(t, &lock.Mark{ID: "INC-7", By: "ana", Reason: "failing disks"}, r.Override)
		terms, _ := r.Revise()
		require.Equal(t, lock.Revision{
			Terms: priority.Terms{
				Priority: priority.Emergency, Forceful: true, WaitingTimeout: r.WaitingTimeout,
				LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute,
			},
			Override: r.Override,
		}, terms)

		// and says so, right after Waiting
		require.Equal(t, []string{"Waiting", "Overridden", "Acquired"}, o.events.names())
		require.Equal(t, priority.Level(3), about[Waiting](t, o.events).Priority)
		overridden := only[Overridden](t, o.events)
		require.Equal(t, priority.Emergency, about[Overridden](t, o.events).Priority)
		require.Equal(t, "INC-7", overridden.Effect.By().ID)
		require.Equal(t, priority.Emergency, about[Acquired](t, o.events).Priority)
		require.Equal(t, priority.Emergency, c.hold.Info().Requirement.Priority)
		require.NoError(t, c.finish(t))
	})
}

func TestWaitingRequestFollowsTheOverrides(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		// given a request that waits
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}})
		place := o.queue.only()
		require.Equal(t, priority.Level(5), place.asks().Priority)

		// when it is boosted, then capped, then left alone
		var levels []priority.Level
		for _, all := range [][]override.Override{{boost(20)}, {boost(20), capped(2)}, {capped(2)}, {}} {
			o.put(all...)
			levels = append(levels, place.asks().Priority)
		}

		// then it asks for what that comes to, in the same place
		require.Equal(t, []priority.Level{20, 2, 2, 5}, levels)
		require.Same(t, place, o.queue.only())
		close(place.open)
		synctest.Wait()
		require.Equal(t, []string{"Waiting", "Queued", "Overridden", "Overridden", "Overridden", "Overridden", "Acquired"}, o.events.names())
		var told []priority.Level
		for _, e := range o.events.list() {
			if n, ok := e.Notice.(Overridden); ok {
				told = append(told, e.Priority)
				require.Equal(t, e.Priority, n.Effect.Terms.Priority)
			}
		}
		require.Equal(t, levels, told)
		require.Equal(t, priority.Level(5), c.hold.Info().Requirement.Priority)

		// and a holder is left alone
		o.put(boost(30))
		require.Equal(t, priority.Level(5), c.hold.Info().Requirement.Priority)
		require.NoError(t, c.finish(t))
		require.Equal(t, priority.Level(5), about[Released](t, o.events).Priority)
	})
}

// Given a request whose hold only the end of its lease is to end, when an override lengthens the lease while it waits, then
// that stays so for the whole of it.
func TestMinRuntimeThatIsTheLeaseGrowsWithIt(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{LeaseTimeout: time.Hour, MinRuntime: time.Hour}})
		place := o.queue.only()

		o.put(extend(2 * time.Hour))

		require.Equal(t, 2*time.Hour, place.asks().LeaseTimeout)
		require.Equal(t, 2*time.Hour, place.asks().MinRuntime)
		close(place.open)
		synctest.Wait()
		require.NoError(t, c.finish(t))
	})
}

func TestCapAndExtensionAreNoReasonForHoldersToGo(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		for _, all := range [][]override.Override{{capped(2)}, {extend(time.Hour)}} {
			o.overrides.put(all...)
			c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}})
			require.Nil(t, o.locker.last().request.Override)
			require.NoError(t, c.finish(t))
		}
		o.overrides.put(boost(9), capped(7))
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{Priority: 5}})
		require.Equal(t, "INC-7", o.locker.last().request.Override.ID)
		require.NoError(t, c.finish(t))
	})
}

func TestNewRequestGetsMoreTime(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(incident(override.Extend, func(o *override.Override) {
			o.LeaseTimeout, o.CleanupTimeout, o.AcquireTimeout = new(time.Hour), new(2*time.Minute), new(30*time.Second)
		}))
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{LeaseTimeout: time.Minute, MinRuntime: time.Minute, AcquireTimeout: new(time.Second)}})
		r := o.locker.last().request
		require.Equal(t, time.Hour, r.LeaseTimeout)
		require.Equal(t, time.Hour, r.MinRuntime, "as long as the lease stays that")
		require.Equal(t, 2*time.Minute, r.CleanupTimeout)
		require.Equal(t, 30*time.Second, *r.AcquireTimeout)
		require.Equal(t, time.Now().Add(time.Hour), c.hold.Info().LeaseDeadline)
		require.NoError(t, c.hold.OnCleanup(func(context.Context) error { return nil }), "there is time for hooks")
		require.NoError(t, c.finish(t))
	})
}

func TestAcquireTimeoutOfAWaitingRequestStays(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		start := time.Now()
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(10 * time.Second)}})
		o.overrides.put(incident(override.Extend, func(o *override.Override) { o.AcquireTimeout = new(time.Hour) }))
		<-c.done
		require.ErrorAs(t, c.err, new(*lock.NotAcquiredError))
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestHolderGetsALongerLease(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a holder that has used five minutes of its lease of ten
		var leases []time.Duration
		o.locker.prepare = func(g *fakeGrant) {
			g.extend = func(_ context.Context, lease time.Duration) error {
				leases = append(leases, lease)
				return nil
			}
		}
		c := o.do(t.Context(), required())
		granted := time.Now()
		time.Sleep(5 * time.Minute)

		// when an extension says that it is to have twenty
		o.put(extend(20 * time.Minute))

		// then it has what is missing, counted from the grant
		require.Equal(t, []time.Duration{15*time.Minute + time.Millisecond}, leases)
		require.WithinDuration(t, granted.Add(20*time.Minute), c.hold.Info().LeaseDeadline, time.Millisecond)
		require.Equal(t, leases[0], only[Extended](t, o.events).Lease, "from now on")

		// and nothing more happens by the same extension, by a shorter one, or by its end
		o.put(extend(20*time.Minute), boost(4))
		o.put(extend(12 * time.Minute))
		o.put()
		require.Len(t, leases, 1)

		// nor when the work itself makes do with less
		require.NoError(t, c.hold.Extend(t.Context(), 2*time.Minute))
		o.put(extend(20 * time.Minute))
		require.Len(t, leases, 2)
		require.NoError(t, c.finish(t))
		require.Equal(t, []string{"Waiting", "Acquired", "Extended", "Extended", "Released"}, o.events.names())
		require.Equal(t, []string{"lease_timeout"}, keys(o.audit.list()[0].After))
	})
}

func keys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	return all
}

func TestExtensionThatComesRightBeforeTheGrantReachesTheHolder(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a request that the layer below grants with the terms that it had
		extensions := 0
		o.locker.before = func(_ context.Context, g *fakeGrant) error {
			g.request.Revise()
			o.overrides.put(extend(time.Hour))
			time.Sleep(time.Second) // the guard has thought about it
			return nil
		}
		o.locker.prepare = func(g *fakeGrant) {
			g.extend = func(context.Context, time.Duration) error { extensions++; return nil }
		}
		c := o.do(t.Context(), required())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, extensions)
		require.Equal(t, []string{"Waiting", "Acquired", "Extended"}, o.events.names())
		require.NoError(t, c.finish(t))
	})
}

// The new lease runs from a moment before ZooKeeper's answer, however long that takes.
func TestLeaseThatAnOverrideLengthensEndsNoLaterThanZooKeeperSays(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a ZooKeeper that starts the lease at once and answers after four seconds
		var end time.Time
		o.locker.prepare = func(g *fakeGrant) {
			g.extend = func(_ context.Context, lease time.Duration) error {
				end = time.Now().Add(lease)
				time.Sleep(4 * time.Second)
				return nil
			}
		}
		c := o.do(t.Context(), required())

		// when an extension has reached the holder
		o.overrides.put(extend(20 * time.Minute))
		time.Sleep(5 * time.Second)
		synctest.Wait()

		// then the lease ends for it when it does in ZooKeeper
		only[Extended](t, o.events)
		require.Equal(t, end, c.hold.Info().LeaseDeadline)
		require.NoError(t, c.finish(t))
	})
}

func TestNestedHoldIsNoConcernOfOverrides(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		c := o.do(t.Context(), required())
		o.put(freeze(), boost(9))
		inner, err := o.Acquire(c.hold.Context(), required())
		require.NoError(t, err)
		require.Equal(t, c.hold.Token(), inner.Token())
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, c.finish(t))
		require.Equal(t, []string{"Waiting", "Acquired", "Released"}, o.events.names())
		require.Empty(t, o.audit.list())
	})
}

func TestJobAndLabelsAreWhatOverridesFindRequestsBy(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(incident(override.Boost, func(o *override.Override) {
			o.Match = override.Match{Job: "nightly*", Labels: map[string]string{"team": "orders"}}
			o.Priority = new(priority.Level(9))
		}))
		for _, c := range []struct {
			r    Requirement
			want priority.Level
		}{
			{Requirement{Scope: scope, Job: "nightly-compact", Owner: "someone", Labels: map[string]string{"team": "orders"}}, 9},
			{Requirement{Scope: scope, Owner: "nightly", Labels: map[string]string{"team": "orders", "tier": "1"}}, 9},
			{Requirement{Scope: scope, Owner: "nightly"}, 0},
			{Requirement{Scope: scope, Labels: map[string]string{"team": "orders"}}, 0},
		} {
			require.NoError(t, o.do(t.Context(), c.r).finish(t))
			require.Equal(t, c.want, o.locker.last().request.Priority, "%+v", c.r)
		}
	})
}

func TestRequestSaysUnderWhichGrantsItsWorkWaits(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		ids := make(map[string][]string)
		s.locker.before = func(_ context.Context, g *fakeGrant) error {
			ids[g.scope] = g.request.Under
			return nil
		}
		id := func(scope string) string { return s.locker.of(t, scope).ID() }

		err := s.Do(t.Context(), Requirement{Scope: "outer"}, func(ctx context.Context) error {
			return s.DoAll(ctx, []Requirement{{Scope: "b"}, {Scope: "a"}, {Scope: "outer"}}, func(ctx context.Context) error {
				return s.Do(ctx, Requirement{Scope: "inner"}, func(context.Context) error { return nil })
			})
		})
		require.NoError(t, err)
		require.Empty(t, ids["outer"])
		require.Equal(t, []string{id("outer")}, ids["a"])
		require.ElementsMatch(t, []string{id("outer"), id("a")}, ids["b"])
		require.ElementsMatch(t, []string{id("outer"), id("a"), id("b")}, ids["inner"])
	})
}

func TestHolderThatHasToGoForAnOverrideIsToldByWhom(t *testing.T) {
	for _, reason := range []priority.Reason{priority.Outranked, priority.LeaseExpired} {
		virtual(t, func(t *testing.T, s setup) {
			mark := lock.Mark{ID: "INC-7", By: "ana", Reason: "failing disks"}
			err := s.Do(t.Context(), required(), func(ctx context.Context) error {
				s.locker.last().request.Notify(lock.PreemptRequested{
					By: lock.Contender{Identity: priority.Identity{Owner: "ana"}, Terms: priority.Terms{Priority: priority.Emergency}}, Reason: reason,
					Grace: time.Second, Deadline: time.Now().Add(time.Second), Forceful: true, Override: &mark,
				})
				return untilCancelled(ctx)
			})
			overridden := as[*OverriddenError](t, err)
			require.Equal(t, OverriddenError{Scope: scope, Override: mark, Grace: time.Second, Deadline: time.Now().Add(time.Second), Forceful: true}, *overridden)
			require.NotErrorAs(t, err, new(*PreemptedError))
			require.NotErrorAs(t, err, new(*LeaseExpiredError))
			require.Equal(t, &mark, only[lock.PreemptRequested](t, s.events).Override)
		})
	}
}
