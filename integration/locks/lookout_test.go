package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// gap between two looks at a lock, in these tests.
const gap = 10 * time.Millisecond

// onlooker is a Lookout that runs, and what it was told.
type onlooker struct {
	f      *fixture
	client *lock.Client

	mu     sync.Mutex
	states map[string]lock.State // of the locks that there are
	moved  map[string]lock.Token
	seen   []lock.Sighting
	synced int
	blind  bool // and not synced since
	free   int  // how many of the locks called many/… were free when it was synced last
}

// lookout starts one with a client of its own.
func (f *fixture) lookout(change ...func(*lock.Config)) *onlooker {
	f.Helper()
	o := &onlooker{f: f, client: f.Client(change...), states: map[string]lock.State{}, moved: map[string]lock.Token{}}
	look, err := o.client.Lookout(lock.LookoutOptions{Gap: gap})
	require.NoError(f, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	errEnough := errors.New("enough")
	ended := make(chan error, 1)
	go func() { ended <- look.Run(ctx, o.note) }()
	f.Cleanup(func() {
		cancel(errEnough)
		require.ErrorIs(f, harness.Receive(f, ended, "the lookout does not end"), errEnough)
	})
	return o
}

func (o *onlooker) note(s lock.Sighting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, s)
	scope := s.State.Scope
	switch {
	case s.Synced:
		o.synced++
		o.blind = false
		o.free = 0
		for scope, s := range o.states {
			if strings.HasPrefix(scope, "many/") && len(s.Holders) == 0 {
				o.free++
			}
		}
	case s.Blind != nil:
		o.blind = true
	case s.Gone:
		delete(o.states, scope)
	default:
		o.states[scope], o.moved[scope] = s.State, s.Moved
	}
	if scope != "" {
		o.f.History.Add("lookout", "%s: held by %v, waiting %v, gone %v",
			scope, harness.Owners(s.State.Holders), harness.Owners(s.State.Waiters), s.Gone)
	}
}

// until waits until what was told is as it should be.
func (o *onlooker) until(what string, is func() bool) {
	o.f.Helper()
	harness.Eventually(o.f, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return is()
	}, "the lookout has seen: %s", what)
}

// sees waits for a state of the scope "users".
func (o *onlooker) sees(what string, is func(lock.State) bool) (found lock.State) {
	o.f.Helper()
	o.until(what, func() (ok bool) {
		found, ok = o.states["users"]
		return ok && is(found)
	})
	return found
}

// hasRead waits until nothing is left to be read of locks, which have nodes: that a request has gone may be seen by its
// own node first, and is reported again as the list is read.
func (o *onlooker) hasRead(nodes map[string]string) {
	o.f.Helper()
	for scope, node := range nodes {
		_, stat := o.f.Get(node)
		o.until(scope+" as it is", func() bool { return o.moved[scope] == lock.Token(stat.Pzxid) })
	}
}

// agrees waits until what it was told last is what there is.
func (o *onlooker) agrees(c *lock.Client) {
	o.f.Helper()
	var is, seen string
	defer func() { o.f.History.Add("lookout", "there is: %s\nit has seen: %s", is, seen) }()
	harness.Eventually(o.f, func() bool {
		all, _, err := c.Locks(o.f.Context())
		require.NoError(o.f, err)
		o.mu.Lock()
		defer o.mu.Unlock()
		var told []lock.State
		for _, s := range o.states {
			told = append(told, s)
		}
		slices.SortFunc(told, func(a, b lock.State) int { return strings.Compare(a.Scope, b.Scope) })
		is, seen = timeless(all), timeless(told)
		return is == seen
	}, "the lookout agrees with the locks")
}

// timeless prints what of states does not depend on when they were looked at.
func timeless(states []lock.State) string {
	states = slices.Clone(states)
	for i := range states {
		s := &states[i]
		s.At = time.Time{}
		s.Holders = slices.Clone(s.Holders)
		for j := range s.Holders {
			s.Holders[j].LeaseLeft, s.Holders[j].MinRuntimeLeft = 0, 0
		}
	}
	return fmt.Sprintf("%+v", states)
}

// holdersAre returns a condition on who holds a lock.
func holdersAre(names ...string) func(lock.State) bool {
	return func(s lock.State) bool { return slices.Equal(harness.Owners(s.Holders), names) }
}

// asked returns a condition on how many preempt the one holder.
func asked(by int) func(lock.State) bool {
	return func(s lock.State) bool { return len(s.Holders) == 1 && len(s.Holders[0].PreemptedBy) == by }
}

// waiting returns a condition on how many wait for a lock.
func waiting(n int) func(lock.State) bool {
	return func(s lock.State) bool { return len(s.Waiters) == n }
}

func TestLookingMakesNothing(t *testing.T) {
	h := share(t)
	o := h.lookout()
	o.until("that there is nothing", func() bool { return o.synced >= 1 })

	// when everything is looked at, and the servers' clock is asked for
	o.client.Now()
	_, _, err := o.client.Locks(t.Context())
	require.NoError(t, err)
	_, err = o.client.Lock(t.Context(), "users")
	require.NoError(t, err)

	// then nothing is there that was not
	require.False(t, h.Exists(h.Root))

	// and it is asked for when there is something
	h.hold("ann")
	harness.Eventually(t, func() bool { o.client.Now(); return h.Exists(h.Root + "/clock") }, "the servers are asked for their clock")
}

func TestLookoutSeesEveryStepOfALock(t *testing.T) {
	h := share(t)
	c := h.Client()

	// given one that looks before there is anything
	o := h.lookout()
	o.until("that there is nothing", func() bool { return o.synced >= 1 })

	// a grant
	ann := h.Hold(h.lock(c), "ann", harness.At(3), harness.Cleanup(time.Minute), harness.Lease(time.Hour))
	s := o.sees("ann holds", holdersAre("ann"))
	require.Equal(t, ann.Token(), s.Holders[0].Token)
	require.Equal(t, time.Hour, s.Holders[0].LeaseTimeout)

	// joins, in order
	bob := h.Acquire(h.lock(c), "bob", harness.At(1))
	bob.Queued()
	cid := h.Acquire(h.lock(c), "cid", harness.At(2))
	cid.Queued()
	o.sees("cid is before bob", func(s lock.State) bool { return slices.Equal(harness.Owners(s.Waiters), []string{"cid", "bob"}) })

	// a new lease
	require.NoError(t, ann.Granted().Extend(t.Context(), 2*time.Hour))
	o.sees("ann's lease is longer", func(s lock.State) bool { return s.Holders[0].LeaseTimeout == 2*time.Hour })

	// a preemption, and its end
	dan := h.Acquire(h.lock(c), "dan", harness.At(9))
	s = o.sees("ann is preempted", asked(1))
	require.Equal(t, "dan", s.Holders[0].PreemptedBy[0].Owner)
	require.Equal(t, []string{"dan", "cid", "bob"}, harness.Owners(s.Waiters))
	require.False(t, s.Holders[0].PreemptedBy[0].At.IsZero())
	dan.Cancel()
	require.Error(t, dan.Refused())
	o.sees("the preemption of ann is withdrawn", asked(0))

	// a hand-over
	ann.Release()
	cid.Granted()
	o.sees("cid holds", holdersAre("cid"))
	o.mu.Lock()
	last := o.moved["users"]
	o.mu.Unlock()
	// later if ann's client has ended its watch since
	require.GreaterOrEqual(t, last, cid.Token(), "ann went in the transaction that granted cid")

	// a takeover
	eve := h.Acquire(h.lock(c), "eve", harness.At(9), harness.Forceful)
	eve.Granted()
	s = o.sees("eve took it from cid", holdersAre("eve"))
	require.Len(t, s.Evicted, 1)
	require.Equal(t, "cid", s.Evicted[0].Owner)
	require.Equal(t, priority.Outranked, s.Evicted[0].Reason)

	// a break
	h.breakHold(eve.Token())
	bob.Granted()
	s = o.sees("bob holds after a break", holdersAre("bob"))
	require.Len(t, s.Evicted, 2)
	require.Equal(t, "stuck", s.Evicted[1].Why)
	bob.Release()
	o.sees("it is free", func(s lock.State) bool { return len(s.Holders)+len(s.Waiters) == 0 })
	o.agrees(c)
}

func TestLookoutSeesSharedHoldersCompanionsDelaysAndRevisions(t *testing.T) {
	h := share(t)
	c := h.Client(allSeen)
	o := h.lookout()

	// shared holders, a downgrade
	ann := h.Hold(h.lock(c), "ann")
	require.NoError(t, ann.Granted().Downgrade(t.Context()))
	o.sees("ann shares", func(s lock.State) bool { return len(s.Holders) == 1 && s.Holders[0].Mode == priority.Shared })
	bob := h.Hold(h.lock(c), "bob", harness.Shared)
	o.sees("both share", func(s lock.State) bool { return len(s.Holders) == 2 })
	ann.Release()
	bob.Release()

	// readers by the fast path, who do not write the lock node
	openers, _ := h.open()
	walker := h.walker(h.Client(), "walker")
	o.sees("all readers", func(s lock.State) bool { return len(s.Holders) == 3 })
	walker.Release()
	o.sees("the openers", func(s lock.State) bool { return len(s.Holders) == 2 })
	for _, r := range openers {
		r.Release()
	}

	// companions
	first := h.Hold(h.lock(c), "first", ofHold)
	second := h.join("second", h.reference(first))
	second.Granted()
	o.sees("companions", func(s lock.State) bool {
		return len(s.Holders) == 2 && s.Holders[0].Token == s.Holders[1].Token && s.Holders[0].Hold == holdID
	})
	second.Release()
	first.Release()

	// what a waiter asks for changes in its place
	terms, revise := changingTerms(lock.Revision{Terms: priority.Terms{LeaseTimeout: time.Minute}})
	fay := h.Hold(h.lock(c), "fay")
	gus := h.Acquire(h.lock(c), "gus", func(r *lock.Request) { r.Revise = terms })
	gus.Queued()
	o.sees("gus waits", func(s lock.State) bool { return len(s.Waiters) == 1 && !s.Waiters[0].Forceful })
	revise(lock.Revision{Terms: priority.Terms{LeaseTimeout: time.Minute, Forceful: true}})
	o.sees("gus is forceful now", func(s lock.State) bool { return len(s.Waiters) == 1 && s.Waiters[0].Forceful })
	fay.Release()
	gus.Release()

	// an unclean end
	frail := h.Client()
	h.Hold(h.lock(frail), "hal", delayed(time.Minute))
	o.sees("hal holds", holdersAre("hal"))
	h.Expire(frail)
	s := o.sees("the lock is delayed", func(s lock.State) bool { return len(s.Holders) == 0 && len(s.Delays) == 1 })
	require.Equal(t, "hal", s.Delays[0].Owner)
	require.True(t, s.Delays[0].Until.IsZero())
	ivy := h.Acquire(h.lock(c), "ivy")
	s = o.sees("the delay has begun", func(s lock.State) bool {
		return len(s.Waiters) == 1 && len(s.Delays) == 1 && !s.Delays[0].Until.IsZero()
	})
	require.Equal(t, time.Minute, s.Delays[0].Until.Sub(s.Delays[0].Since))
	o.agrees(c)
	ivy.Cancel()
	require.Error(t, ivy.Refused())
}

func TestLookoutSeesLocksThatAreCollectedAndUsedAgain(t *testing.T) {
	h := share(t)
	c := h.Client()
	o := h.lookout()
	for range 5 {
		// given a lock that was used
		ann := h.Hold(h.lock(c), "ann")
		node := lockNode(ann)
		o.sees("ann holds", func(s lock.State) bool { return len(s.Holders) == 1 })
		ann.Release()
		o.sees("ann has gone", func(s lock.State) bool { return len(s.Holders) == 0 })

		// when it is collected
		h.collect(node)

		// then that is seen, unless it is there again before the next read
		o.until("the lock is gone", func() bool { _, there := o.states["users"]; return !there })
	}
	again := h.Hold(h.lock(c), "again")
	o.sees("it is there again", func(s lock.State) bool { return len(s.Holders) == 1 })
	again.Release()
	o.agrees(c)
}

// seesAgain waits until the lookout says that it sees nothing, lets it connect, and waits until it sees everything.
func (o *onlooker) seesAgain(proxy *netfault.Proxy) {
	o.f.Helper()
	o.until("that it is blind", func() bool { return o.blind })
	require.NoError(o.f, proxy.Pass())
	o.until("that it sees again", func() bool { return !o.blind })
}

func TestLookoutLosesNothingWithItsConnectionOrItsSession(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*testing.T, *onlooker, *netfault.Proxy, func()){
		"connection": func(t *testing.T, _ *onlooker, proxy *netfault.Proxy, meanwhile func()) {
			require.NoError(t, proxy.Cut())
			meanwhile()
			require.NoError(t, proxy.Pass())
		},
		"session": func(_ *testing.T, o *onlooker, _ *netfault.Proxy, meanwhile func()) {
			o.f.Expire(o.client)
			meanwhile()
		},
		"connection, for long": func(t *testing.T, o *onlooker, proxy *netfault.Proxy, meanwhile func()) {
			require.NoError(t, proxy.Cut())
			meanwhile()
			o.seesAgain(proxy)
			o.until("everything before that", func() bool { return o.free == 30 })
		},
		"both": func(t *testing.T, o *onlooker, proxy *netfault.Proxy, meanwhile func()) {
			require.NoError(t, proxy.Cut())
			o.f.Expire(o.client)
			meanwhile()
			o.seesAgain(proxy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := share(t)
			proxy := netfault.New(t, h.Server.Addr())
			c := h.Client(allSeen)
			nodes := map[string]string{} // of all locks
			var many []*harness.Request
			for i := range 30 {
				scope := fmt.Sprintf("many/%d", i)
				u := h.Hold(h.Lock(c, scope), "ann")
				many, nodes[scope] = append(many, u), lockNode(u)
			}
			o := h.lookout(harness.Servers(proxy.Addr()))
			ann := h.Hold(h.lock(c), "ann")
			bob := h.Acquire(h.lock(c), "bob")
			other := h.Hold(h.Lock(c, "other"), "ann")
			o.until("everything", func() bool { return o.synced >= 1 })
			o.sees("bob waits", waiting(1))

			nodes["users"], nodes["other"] = lockNode(ann), lockNode(other)
			away(t, o, proxy, func() {
				ann.Release()
				bob.Granted()
				h.Acquire(h.lock(c), "cid").Queued()
				other.Release()
				nodes["new"] = lockNode(h.Hold(h.Lock(c, "new"), "dan"))
				for _, u := range many {
					u.Release()
				}
			})

			o.sees("bob holds, cid waits", func(s lock.State) bool { return holdersAre("bob")(s) && waiting(1)(s) })
			o.agrees(c)

			// and what happens then, in the nodes that were there, is seen
			eve := h.Acquire(h.lock(c), "eve", harness.At(9))
			o.sees("eve preempts bob", asked(1))
			eve.Cancel()
			require.Error(t, eve.Refused())
			o.sees("she has left", func(s lock.State) bool { return asked(0)(s) && waiting(1)(s) })

			// and what is the same is not told again
			o.hasRead(nodes)
			o.mu.Lock()
			told := len(o.seen)
			o.mu.Unlock()
			h.Expire(o.client)
			h.Hold(h.Lock(c, "last"), "eve")
			o.until("eve holds", func() bool { return len(o.states["last"].Holders) == 1 })
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, s := range o.seen[told:] {
				require.Contains(t, []string{"", "last"}, s.State.Scope)
			}
		})
	}
}
