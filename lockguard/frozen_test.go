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
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// frozen freezes one scope.
func frozen(scope string) override.Override {
	return incident(override.Freeze, func(o *override.Override) { o.ID, o.Match.Scope = "freeze-"+scope, scope })
}

func TestFrozenRequestIsNotMadeUntilItThaws(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a freeze
		o.overrides.put(freeze())

		// when a request comes
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(time.Hour)}})
		time.Sleep(10 * time.Minute)
		synctest.Wait()

		// then it stands in no queue, also when something else changes
		o.put(freeze(), boost(3))
		require.Empty(t, o.locker.grants)
		require.Equal(t, []string{"Waiting", "Frozen"}, o.events.names())
		require.Equal(t, "INC-7", only[Frozen](t, o.events).Override.ID)

		// and is made with what is left of its time afterwards
		o.put()
		require.Equal(t, 50*time.Minute, *o.locker.last().request.AcquireTimeout)
		require.Equal(t, []string{"Waiting", "Frozen", "Thawed", "Acquired"}, o.events.names())
		require.Equal(t, 10*time.Minute, only[Acquired](t, o.events).Waited)
		require.NoError(t, c.finish(t))
	})
}

func TestWaitingRequestLeavesTheQueueWhileItIsFrozen(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(time.Hour)}})
		first := o.queue.only()
		for range 3 {
			time.Sleep(time.Minute)
			o.put(freeze())
			require.Empty(t, o.queue.waiting())
			time.Sleep(time.Minute)
			o.put()
		}
		place := o.queue.only()
		require.NotSame(t, first, place)
		require.Equal(t, 54*time.Minute, *place.request.AcquireTimeout)
		close(place.open)
		require.NoError(t, c.finish(t))
		require.Equal(t, []string{
			"Waiting", "Queued", "Frozen", "Thawed", "Queued", "Frozen", "Thawed", "Queued", "Frozen", "Thawed", "Queued", "Acquired", "Released",
		}, o.events.names())
	})
}

func TestFreezeThatIsOverBeforeItIsNoticedCostsNoPlace(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		c := o.do(t.Context(), Requirement{Scope: scope})
		place := o.queue.only()
		o.overrides.put(freeze())
		o.put()
		require.Same(t, place, o.queue.only())
		close(place.open)
		require.NoError(t, c.finish(t))
	})
}

func TestGrantThatRacesWithAFreezeIsReleasedUnstarted(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a grant that comes when the freeze does
		once := true
		o.locker.prepare = func(g *fakeGrant) {
			if once {
				once = false
				o.overrides.put(freeze())
				g.release = func(context.Context) error {
					// a preemption and a takeover then find no holder
					g.preempt(time.Second)
					g.request.Notify(lock.Lost{Err: &LostError{Scope: scope}})
					return nil
				}
			}
		}

		// when it arrives
		c := o.do(t.Context(), required())

		// then it is released, and no work has run
		require.Equal(t, 1, o.locker.last().released())
		require.Nil(t, c.hold)
		require.Equal(t, []string{"Waiting", "Frozen"}, o.events.names())

		// and it is made anew afterwards, unimpressed by what became of that grant
		o.put()
		require.Len(t, o.locker.grants, 2)
		require.NoError(t, c.hold.Context().Err())
		require.NoError(t, c.finish(t))
		require.Equal(t, []string{"Waiting", "Frozen", "Thawed", "Acquired", "Released"}, o.events.names())
	})
}

func TestTryOfAFrozenLockFailsAtOnceAndSaysWhy(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(freeze())
		err := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(time.Duration(0))}}).returned(t)
		require.True(t, lock.IsNotAcquired(err))
		frozen := as[*FrozenError](t, err)
		require.Equal(t, freeze(), frozen.Override)
		require.EqualError(t, err, `lock "cluster/orders" not acquired: frozen by ana until 2000-01-01T01:00:00Z (INC-7: failing disks)`)
		require.Equal(t, []string{"Waiting", "Frozen", "NotAcquired"}, o.events.names())
		require.Empty(t, o.locker.grants)

		err = o.do(t.Context(), Requirement{Scope: "a"}, Requirement{Scope: "b", Terms: priority.Terms{AcquireTimeout: new(time.Duration(0))}}).returned(t)
		require.ErrorAs(t, err, &frozen, "of several")
	})
}

func TestRequestWhoseTimeEndsWhileItIsFrozenSaysWhatKeptItOut(t *testing.T) {
	queuing(t, func(t *testing.T, o operated) {
		start := time.Now()
		c := o.do(t.Context(), Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(time.Minute)}})
		time.Sleep(20 * time.Second)
		o.overrides.put(freeze())
		<-c.done
		require.Equal(t, time.Minute, time.Since(start))
		require.EqualError(t, c.err, `lock "cluster/orders" not acquired within 1m0s: frozen by ana until 2000-01-01T01:00:00Z (INC-7: failing disks)`)
		require.ErrorAs(t, c.err, new(*lock.NotAcquiredError))

		ctx, cancel := context.WithCancelCause(t.Context())
		c = o.do(ctx, Requirement{Scope: scope})
		cancel(ErrShutdown)
		err := c.returned(t)
		require.ErrorIs(t, err, ErrShutdown)
		require.ErrorAs(t, err, new(*FrozenError))
	})
}

func TestOfSeveralLocksNoneIsHeldWhileOneIsFrozen(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		// given a request for three locks, one of which is frozen when it comes to it
		o.locker.before = func(_ context.Context, g *fakeGrant) error {
			if g.scope == "a" && len(o.locker.grants) == 0 {
				o.overrides.put(frozen("b"))
			}
			return nil
		}

		// when the others are there already
		c := o.do(t.Context(), three(func(r *Requirement) { r.AcquireTimeout = new(time.Hour) })...)

		// then they are given back, and all wait together
		require.Nil(t, c.hold)
		require.Equal(t, []string{"Waiting", "Acquired", "Released"}, o.events.of("a"))
		require.Equal(t, []string{"Waiting", "Frozen"}, o.events.of("b"))
		require.Empty(t, o.events.of("c"))
		require.Equal(t, 1, o.locker.of(t, "a").released())

		// and another freeze goes on with that
		o.put(frozen("c"))
		require.Equal(t, []string{"Waiting", "Frozen"}, o.events.of("c"))
		require.Len(t, o.locker.grants, 1)

		// until nothing is frozen any more
		time.Sleep(time.Minute)
		o.put()
		require.NotNil(t, c.hold)
		require.Equal(t, 59*time.Minute, *o.locker.of(t, "a").request.AcquireTimeout)
		require.Equal(t, 59*time.Minute, *o.locker.of(t, "c").request.AcquireTimeout)
		require.Equal(t, []string{"Waiting", "Acquired", "Released", "Waiting", "Acquired"}, o.events.of("a"))
		require.Equal(t, []string{"Waiting", "Frozen", "Thawed", "Acquired"}, o.events.of("b"))
		require.Equal(t, []string{"Waiting", "Frozen", "Thawed", "Acquired"}, o.events.of("c"))
		require.NoError(t, c.finish(t))
	})
}

func TestLockThatIsHeldWhileOthersAreWaitedForIsGivenBackWhenItFreezes(t *testing.T) {
	for _, when := range []string{"while b is waited for", "with the grant of b"} {
		t.Run(when, func(t *testing.T) {
			underOverrides(t, func(t *testing.T, o operated) {
				// given a request that has one lock and waits for another
				o.locker.before = func(ctx context.Context, g *fakeGrant) error {
					if g.scope == "b" && len(o.locker.grants) == 1 {
						return o.queue.wait(ctx, g)
					}
					return nil
				}
				if when == "with the grant of b" {
					o.locker.prepare = func(g *fakeGrant) {
						if g.scope == "b" && len(o.locker.grants) == 2 {
							o.overrides.put(frozen("a"))
						}
					}
				}
				c := o.do(t.Context(), Requirement{Scope: "a"}, Requirement{Scope: "b"})
				require.Equal(t, []string{"Waiting", "Acquired"}, o.events.of("a"))

				// when the first freezes
				if when == "with the grant of b" {
					close(o.queue.only().open)
				} else {
					o.overrides.put(frozen("a"))
				}
				synctest.Wait()

				// then it is given back, and nothing is waited for
				require.Nil(t, c.hold)
				require.Empty(t, o.queue.waiting())
				require.Equal(t, []string{"Waiting", "Acquired", "Released", "Waiting", "Frozen"}, o.events.of("a"))
				for _, g := range o.locker.grants {
					require.Equal(t, 1, g.released(), g.scope)
				}

				// until it thaws
				o.overrides.put()
				require.NoError(t, c.finish(t))
				require.NotNil(t, c.hold)
			})
		})
	}
}

// A goroutine that still evaluates overrides for a frozen request must not meet the one of the next try.
func TestRequestOfSeveralThatFrozeGoesOnWhileItsFirstTryIsStillBeingAudited(t *testing.T) {
	for range 10 { // the race detector sees every other one
		underOverrides(t, func(t *testing.T, o operated) {
			// given an auditor that takes three seconds for a boost of b, which waits
			o.audit.write = func(_ context.Context, entry opstore.AuditEntry) error {
				if entry.Scope == "b" && entry.After["priority"] != "" {
					time.Sleep(3 * time.Second)
				}
				return nil
			}
			made := make(map[string]int)
			o.locker.before = func(ctx context.Context, g *fakeGrant) error {
				made[g.scope]++
				switch {
				case g.scope == "b" && made["b"] == 1:
					return o.queue.wait(ctx, g)
				case g.scope == "a" && made["a"] == 2:
					time.Sleep(3 * time.Second)
				}
				return nil
			}
			o.locker.prepare = func(g *fakeGrant) {
				if g.scope == "b" && made["b"] == 1 {
					o.overrides.put(frozen("b"))
				}
			}
			c := o.do(t.Context(), Requirement{Scope: "a"}, Requirement{Scope: "b"})
			place := o.queue.only()
			o.put(boost(5))

			// when b is granted as it freezes, and both are acquired anew while that goes on
			close(place.open)
			time.Sleep(time.Second)
			o.overrides.put()
			time.Sleep(4 * time.Second)

			// then both are held
			require.NoError(t, c.finish(t))
			require.Equal(t, []string{"Waiting", "Queued", "Frozen", "Thawed", "Acquired", "Released"}, o.events.of("b"))
		})
	}
}

func TestSeveralLocksOneOfWhichStaysFrozenFailInTime(t *testing.T) {
	underOverrides(t, func(t *testing.T, o operated) {
		o.overrides.put(frozen("b"))
		start := time.Now()
		c := o.do(t.Context(), Requirement{Scope: "a"}, Requirement{Scope: "b", Terms: priority.Terms{AcquireTimeout: new(time.Minute)}})
		<-c.done
		require.Equal(t, time.Minute, time.Since(start))
		require.ErrorAs(t, c.err, new(*FrozenError))
		require.Equal(t, []string{"Waiting", "Frozen", "NotAcquired"}, o.events.names())
		require.Empty(t, o.locker.grants)

		// also when what thaws cannot be acquired any more
		o.locker.before = func(_ context.Context, g *fakeGrant) error {
			return &lock.NotAcquiredError{Scope: g.scope, Waited: time.Second}
		}
		c = o.do(t.Context(), Requirement{Scope: "a"}, Requirement{Scope: "b"})
		o.overrides.put()
		<-c.done
		synctest.Wait()
		require.ErrorAs(t, c.err, new(*lock.NotAcquiredError))
		require.Equal(t, []string{"Waiting", "NotAcquired"}, o.events.of("a"))
		require.Equal(t, []string{"Waiting", "Frozen", "NotAcquired", "Waiting", "Frozen", "Thawed", "NotAcquired"}, o.events.of("b"))
	})
}
