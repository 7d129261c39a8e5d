package multi

import (
	"context"
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Curator M1
func TestLocksAreHeldInsideTheScopeAndNotAfterIt(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	m := h.multi(h.client(), parts(recipes.Request{}, "b", "c", "a")...)
	require.Equal(t, []string{"a", "b", "c"}, m.Scopes())
	inside := func() {
		// given free locks, when they are acquired
		grant, err := m.Acquire(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, grant.Release(t.Context())) }()

		// then all are held, each with a token of its own
		require.Equal(t, []string{"a", "b", "c"}, h.scopes())
		require.NoError(t, grant.Check())
		tokens, err := grant.Tokens(t.Context())
		require.NoError(t, err)
		require.Len(t, tokens, 3)
		require.Less(t, tokens["a"], tokens["b"], "taken in order")
		require.Less(t, tokens["b"], tokens["c"])
		require.NoError(t, grant.Extend(t.Context(), time.Hour))
	}
	inside()

	// and after it none is
	require.Empty(t, h.contenders())
	inside()
	require.Empty(t, h.contenders())
}

// Two that want the same locks in different orders would wait for each other if
// each took them in its own.
func TestMultisInOppositeOrderNeverWaitForEachOther(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const turns = 120
	orders := [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"c", "a"}, {"b", "a"}}
	rooms := map[string]*room{"a": {}, "b": {}, "c": {}}
	visits := map[string]int{}

	// given four clients, each with an order of its own
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	var all errgroup.Group
	for _, scopes := range orders {
		m := h.multi(h.client(), parts(recipes.Request{}, scopes...)...)
		for _, scope := range scopes {
			visits[scope] += turns
		}
		// when each takes its locks many times
		all.Go(func() error {
			for range turns {
				grant, err := m.Acquire(ctx)
				if err != nil {
					return err
				}
				tokens, err := grant.Tokens(ctx)
				if err != nil {
					return err
				}
				for scope, token := range tokens {
					rooms[scope].enter(token)
				}
				for scope := range tokens {
					rooms[scope].leave()
				}
				if err := grant.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}

	// then all get through, one at a time in each room
	require.NoError(t, all.Wait())
	for scope, room := range rooms {
		room.wasOrderly(t, visits[scope])
	}
	h.nobodyThere()
}

// Curator M6
func TestOneMultiSharedByTenHoldsOnceAtATime(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	m := h.multi(h.client(), parts(recipes.Request{}, "a", "b")...)
	var r room
	var all errgroup.Group
	for range 10 {
		all.Go(func() error {
			for range 5 {
				grant, err := m.Acquire(t.Context())
				if err != nil {
					return err
				}
				token, err := grant.Grants()[1].Token(t.Context())
				if err != nil {
					return err
				}
				r.enter(token)
				r.leave()
				if err := grant.Release(t.Context()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	r.wasOrderly(t, 50)
	h.nobodyThere()
}

// Curator M9
func TestTwoClientsTakeTurnsWithAllLocks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()
	ann := h.ask(h.multi(h.client(), parts(at(0, "ann"), "a", "b")...)).granted()
	bob := h.ask(h.multi(h.client(), parts(at(0, "bob"), "b", "a")...))
	h.queued(onlooker, "a")
	bob.waits()
	require.Equal(t, []string{"ann"}, h.owners(onlooker, "b"))
	require.NoError(t, ann.Release(t.Context()))
	bob.granted()
	require.Equal(t, []string{"bob"}, h.owners(onlooker, "a"))
	require.Equal(t, []string{"bob"}, h.owners(onlooker, "b"))
	require.NoError(t, bob.grant.Release(t.Context()))
}

// Curator M5
func TestMultiInAChroot(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	tenant := func(name string) *recipes.Multi {
		return h.multi(h.client(func(cfg *recipes.Config) { cfg.Chroot, cfg.Root = path.Join(h.root, name), "/locks" }), parts(within(0), "a", "b")...)
	}
	ann, err := tenant("ann").Acquire(t.Context())
	require.NoError(t, err)
	bob, err := tenant("bob").Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a", "b", "b"}, h.scopes())
	require.NoError(t, ann.Release(t.Context()))
	require.NoError(t, bob.Release(t.Context()))
	require.Empty(t, h.contenders())
}

// Curator ML1
func TestMemberThatCannotBeReleasedDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	grant := h.ask(h.multi(h.client(), parts(recipes.Request{}, "a", "b", "c")...)).granted()

	// given two members that were deleted by an administrator
	conn := testbed.Shell(t, h.server)
	for _, node := range h.contenders() {
		if scope := path.Base(path.Dir(node)); scope != "b" {
			require.NoError(t, conn.Delete(node, -1))
		}
	}

	// when all are released
	err := grant.Release(t.Context())

	// then both errors are told, the last lock's first, and the third lock is free
	var lost []string
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		loss, ok := errors.AsType[*recipes.LostError](err)
		require.True(t, ok, "%v", err)
		lost = append(lost, loss.Scope)
	}
	require.Equal(t, []string{"c", "a"}, lost)
	require.Empty(t, h.contenders())
	require.ErrorIs(t, grant.Release(t.Context()), recipes.ErrReleased)
}

// Curator ML2
func TestMemberThatCannotBeAcquiredGivesTheFirstBack(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"at once": 0, "in time": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			c := h.client()

			// given that somebody holds the second of three
			holder := h.hold(h.client(), "b", at(0, "holder"))

			// when they are acquired
			start := time.Now()
			_, err := h.multi(c, parts(within(timeout), "a", "b", "c")...).Acquire(t.Context())

			// then the error is about that one, and nothing is left behind
			busy, ok := errors.AsType[*recipes.NotAcquiredError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "b", busy.Scope)
			require.Equal(t, "holder", busy.Holders[0].Owner)
			if timeout > 0 {
				require.GreaterOrEqual(t, busy.Waited, timeout)
				require.LessOrEqual(t, busy.Waited, time.Since(start))
			} else {
				require.Zero(t, busy.Waited)
			}
			require.Equal(t, []string{"b"}, h.scopes())
			require.NoError(t, holder.Release(t.Context()))
		})
	}
}

// The time counts from the call, whatever number of locks is waited for.
func TestDeadlineIsOneForAllLocks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	others := h.client()
	first, second := h.hold(others, "a", recipes.Request{}), h.hold(others, "b", recipes.Request{})

	// given a Multi whose shortest acquire timeout is a second
	const limit = 3 * time.Second
	m := h.multi(h.client(), recipes.Part{Scope: "a", Request: within(time.Hour)}, recipes.Part{Scope: "b", Request: within(limit)})
	start := time.Now()
	p := h.ask(m)
	h.queued(others, "a")

	// when it gets the first after more than a half of that, and the second never
	<-time.After(limit * 6 / 10)
	require.NoError(t, first.Release(t.Context()))
	<-p.done
	took := time.Since(start)

	// then it gives up when the second is over
	busy, ok := errors.AsType[*recipes.NotAcquiredError](p.err)
	require.True(t, ok, "%v", p.err)
	require.Equal(t, "b", busy.Scope)
	require.GreaterOrEqual(t, busy.Waited, limit)
	require.GreaterOrEqual(t, took, limit)
	require.Less(t, took, limit*15/10, "1.8s for the first and 3s for the second")
	require.NoError(t, second.Release(t.Context()))
	h.nobodyThere()
}

func TestRequestsThatCanNeverWorkAreRefusedAllAtOnce(t *testing.T) {
	t.Parallel()
	c := shareHouse(t).client()
	_, err := c.Multi()
	require.ErrorContains(t, err, "scope: there is none; give a part for each lock")

	_, err = c.Multi(recipes.Part{Scope: "a"}, recipes.Part{Scope: "b//c"}, recipes.Part{Scope: "a"},
		recipes.Part{Scope: "d", Request: recipes.Request{LeaseTimeout: -1}})
	require.ErrorContains(t, err, `scope: "a" is there twice; give each scope once`)
	require.ErrorContains(t, err, `"b//c" has an empty part`)
	require.ErrorContains(t, err, `lock "d": lockkeeper: lease_timeout: `)
	require.ErrorAs(t, err, new(*recipes.RequestError))
}

// What it holds is no use to it, and somebody more important wants it.
func TestMultiThatIsAskedToGiveUpAnEarlierLockBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mine, others recipes.Request
	}{
		"preempted":  {at(1, "multi"), at(5, "boss")},
		"lease over": {recipes.Request{Owner: "multi", LeaseTimeout: 300 * time.Millisecond}, at(0, "next")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			onlooker := h.client()

			// given a Multi that holds a and b, and waits for c
			blocker := h.hold(h.client(), "c", at(9, "blocker"))
			var n told
			p := h.ask(h.multi(h.client(), n.part("a", c.mine), n.part("b", c.mine), n.part("c", c.mine)))
			n.eventually(t, "c Queued")
			require.Equal(t, []string{"multi"}, h.owners(onlooker, "b"))

			// when somebody wants b
			other := h.hold(h.client(), "b", c.others)

			// then that one gets it, and the Multi gives back all and queues for it anew
			n.eventually(t, "b Queued")
			require.True(t, n.has("b PreemptAsked"))
			for _, scope := range []string{"a", "b", "c"} {
				require.True(t, n.has(scope+" StartedAnew"), scope)
			}
			require.Equal(t, []string{"multi"}, h.owners(onlooker, "a"), "again")
			require.Equal(t, []string{c.others.Owner}, h.owners(onlooker, "b"))
			require.Equal(t, []string{"a", "b", "b", "c"}, h.scopes(), "it does not wait for c any more")
			p.waits()

			// and in the end gets all
			require.NoError(t, other.Release(t.Context()))
			require.NoError(t, blocker.Release(t.Context()))
			p.granted()
			require.NoError(t, p.grant.Check())
			require.NoError(t, p.grant.Release(t.Context()))
			h.nobodyThere()
		})
	}
}

// The last one goes first, also when it begins anew.
func TestMultiGivesBackInReverseOrder(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	grant := h.ask(h.multi(c, parts(recipes.Request{}, "a", "b", "c")...)).granted()
	nodes := h.nodes("a", "b", "c")
	require.NoError(t, grant.Release(t.Context()))
	require.Equal(t, []string{"c", "b", "a"}, h.departures(nodes))

	// and when the wait for the last one fails
	blocker := h.hold(h.client(), "z", recipes.Request{})
	p := h.ask(h.multi(c, parts(recipes.Request{}, "a", "b", "c", "z")...))
	h.queued(h.client(), "z")
	p.cancel()
	<-p.done
	require.ErrorIs(t, p.err, context.Canceled)
	require.Equal(t, []string{"z"}, h.scopes())
	require.Equal(t, []string{"c", "b", "a"}, h.departures(nodes))
	require.NoError(t, blocker.Release(t.Context()))
}

func TestMultiThatLosesAnEarlierLockBeginsAnew(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	blocker := h.hold(h.client(), "c", recipes.Request{})
	var n told
	p := h.ask(h.multi(h.client(), n.part("a", recipes.Request{}), n.part("b", recipes.Request{}), n.part("c", recipes.Request{})))
	n.eventually(t, "c Queued")

	// when an administrator deletes its node at the first lock
	conn := testbed.Shell(t, h.server)
	for _, node := range h.contenders() {
		if path.Base(path.Dir(node)) == "a" {
			require.NoError(t, conn.Delete(node, -1))
		}
	}

	// then it takes that again, and the others
	n.eventually(t, "c StartedAnew")
	require.True(t, n.has("a Lost"))
	require.NoError(t, blocker.Release(t.Context()))
	p.granted()
	require.Equal(t, []string{"a", "b", "c"}, h.scopes())
	require.NoError(t, p.grant.Release(t.Context()))
}

// Curator M3
func TestWaitingMultiWhoseSessionExpiresBeginsAnew(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, blockers := h.client(), h.client()
	blocker := h.hold(blockers, "c", at(0, "blocker"))
	var n told
	p := h.ask(h.multi(c, n.part("a", recipes.Request{}), n.part("b", recipes.Request{}), n.part("c", recipes.Request{})))
	n.eventually(t, "c Queued")

	// when its session ends at the server
	h.expire(c)

	// then it begins anew in the next one, and gets all
	n.eventually(t, "a StartedAnew")
	require.NoError(t, blocker.Release(t.Context()))
	p.granted()
	require.NoError(t, p.grant.Check())
	require.Equal(t, []string{"a", "b", "c"}, h.scopes())
	require.NoError(t, p.grant.Release(t.Context()))
}

func TestEndOfTheSessionEndsAllLocks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	var n told
	grant := h.ask(h.multi(c, n.part("a", recipes.Request{}), n.part("b", recipes.Request{}))).granted()
	h.expire(c)
	n.eventually(t, "a Lost")
	n.eventually(t, "b Lost")
	require.False(t, n.has("a StartedAnew"), "it was held already")
	for _, err := range []error{grant.Check(), grant.Release(t.Context())} {
		var lost *recipes.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, recipes.LossSession, lost.Reason)
	}
}

// Curator M2
func TestServerThatStopsAndRestartsStopsNoMulti(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	c := h.client()
	ann := h.ask(h.multi(c, parts(at(0, "ann"), "a", "b")...)).granted()
	bob := h.ask(h.multi(c, parts(at(0, "bob"), "b", "a")...))
	h.queued(c, "a")
	require.NoError(t, h.server.Stop())
	require.NoError(t, h.server.Restart(t.Context()))
	require.NoError(t, ann.Release(t.Context()))
	require.NoError(t, bob.granted().Release(t.Context()))
	h.nobodyThere()
}

// A release that ZooKeeper does not confirm in time does not keep the others
// from being begun.
func TestReleaseDuringAnOutageGoesOnWithAllLocks(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	grant := h.ask(h.multi(h.client(), parts(recipes.Request{}, "a", "b")...)).granted()
	require.NoError(t, h.server.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := grant.Release(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 2)
	require.NoError(t, h.server.Restart(t.Context()))
	h.nobodyThere()
}

// What was used up of a lease while later locks were waited for is given again.
func TestLeaseStartsWhenAllLocksAreHeld(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()
	blocker := h.hold(h.client(), "b", recipes.Request{})
	const lease = 2 * time.Second
	p := h.ask(h.multi(h.client(), parts(recipes.Request{LeaseTimeout: lease}, "a", "b")...))
	h.queued(onlooker, "b")
	<-time.After(lease * 7 / 10)
	require.NoError(t, blocker.Release(t.Context()))
	p.granted()
	state, err := onlooker.Lock(t.Context(), "a")
	require.NoError(t, err)
	require.Greater(t, state.Holders[0].LeaseLeft, lease*7/10)
	require.NoError(t, p.grant.Release(t.Context()))
}

func TestRequestForSeveralLocksThatIsCancelledAtAnyStepHoldsNothing(t *testing.T) {
	h := shareHouse(t)
	wire := &tripwire{}
	c := h.client(func(cfg *recipes.Config) { cfg.Dialer = wire.dial })
	others := h.client()
	m, guard := h.multi(c, parts(recipes.Request{}, "a", "b", "c")...), h.guard(c, "guard")
	type held interface {
		Release(ctx context.Context) error
		Check() error
	}
	ways := map[string]func(ctx context.Context) (held, error){
		"multi": func(ctx context.Context) (held, error) { return m.Acquire(ctx) },
		"guard": func(ctx context.Context) (held, error) { return guard.AcquireAll(ctx, three()) },
	}
	for range 2 {
		for _, acquire := range ways {
			all, err := acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, all.Release(t.Context()))
		}
	}
	watches := h.watches()

	for way, acquire := range ways {
		for _, busy := range []bool{false, true} {
			for _, reads := range []bool{false, true} {
				steps := 0
				for tripped := true; tripped; steps++ {
					// given locks of which the second one may be held for a moment
					if busy {
						blocker := h.hold(others, "b", recipes.Request{})
						time.AfterFunc(20*time.Millisecond, func() { _ = blocker.Release(context.WithoutCancel(t.Context())) })
					}

					// when the caller leaves right before a request, or at an answer
					ctx, cancel := context.WithTimeout(t.Context(), soon)
					wire.set(reads, steps, cancel)
					all, err := acquire(ctx)
					tripped = wire.unset()
					if err == nil {
						require.NoError(t, all.Check())
						require.Equal(t, []string{"a", "b", "c"}, h.scopes(), "all or nothing")
						require.NoError(t, all.Release(t.Context()))
					} else {
						require.ErrorIs(t, err, context.Canceled)
					}
					cancel()

					// then nothing is left
					h.nobodyThere()
				}
				require.Greater(t, steps, 3)
				t.Logf("%s, busy %t, at an answer %t: left at each of %d", way, busy, reads, steps-1)
			}
		}
	}
	require.Eventually(t, func() bool { return h.watches() <= watches }, soon, 10*time.Millisecond, "watches are left")
}

func TestManyFailedTriesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold(h.client(), "c", recipes.Request{})
	m := h.multi(h.client(), parts(within(0), "a", "b", "c")...)
	for range 100 {
		_, err := m.Acquire(t.Context())
		require.True(t, recipes.IsNotAcquired(err), "%v", err)
	}
	require.Equal(t, []string{"c"}, slices.Compact(h.scopes()))
	require.NoError(t, holder.Release(t.Context()))
}
