package locks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// gap between two looks at a lock, in these tests.
const gap = 10 * time.Millisecond

// An onlooker is a Lookout that runs, and what it was told.
type onlooker struct {
	h      *house
	client *recipes.Client
	wire   *wire
	stop   func() error

	mu     sync.Mutex
	states map[string]recipes.LockState // of the locks that there are
	seen   []recipes.Sighting
	synced int
	blind  int
	// of the locks called many
	freeWhenSynced int

	news chan struct{} // closed by the next sighting
}

// lookout starts one with a client of its own.
func (h *house) lookout(gap time.Duration, change ...func(*recipes.Config)) *onlooker {
	h.t.Helper()
	o := &onlooker{h: h, wire: &wire{}, states: map[string]recipes.LockState{}, news: make(chan struct{})}
	o.client = h.client(append([]func(*recipes.Config){func(cfg *recipes.Config) { cfg.Dialer = o.wire.dial }}, change...)...)
	look, err := o.client.Lookout(recipes.LookoutOptions{Gap: gap})
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	errEnough := errors.New("enough")
	ended := make(chan error, 1)
	go func() { ended <- look.Run(ctx, o.note) }()
	o.stop = sync.OnceValue(func() error {
		cancel(errEnough)
		select {
		case err := <-ended:
			if errors.Is(err, errEnough) {
				return nil
			}
			return fmt.Errorf("it did not end with the cause of its context: %w", err)
		case <-time.After(soon):
			return errors.New("it does not end")
		}
	})
	h.t.Cleanup(func() { require.NoError(h.t, o.stop(), "the lookout") })
	return o
}

func (o *onlooker) note(s recipes.Sighting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, s)
	scope := s.State.Scope
	switch {
	case s.Synced:
		o.synced++
		o.freeWhenSynced = 0
		for scope, s := range o.states {
			if strings.HasPrefix(scope, "many/") && len(s.Holders) == 0 {
				o.freeWhenSynced++
			}
		}
	case s.Blind != nil:
		o.blind++
	case s.Gone:
		delete(o.states, scope)
	default:
		o.states[scope] = s.State
	}
	if scope != "" {
		o.h.story.tell("lookout", "%s: held by %v, waiting %v, gone %v", scope, owners(s.State.Holders), owners(s.State.Waiters), s.Gone)
	}
	close(o.news)
	o.news = make(chan struct{})
}

// until waits until what was told is as it should be.
func (o *onlooker) until(what string, is func() bool) {
	o.h.t.Helper()
	deadline := time.After(soon)
	for {
		o.mu.Lock()
		ok, news := is(), o.news
		o.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case <-deadline:
			o.mu.Lock()
			defer o.mu.Unlock()
			require.FailNow(o.h.t, "the lookout has not seen: "+what, "last: %+v", o.states)
		}
	}
}

// sees waits for a state of the scope "users".
func (o *onlooker) sees(what string, is func(recipes.LockState) bool) recipes.LockState {
	o.h.t.Helper()
	var found recipes.LockState
	o.until(what, func() bool {
		s, ok := o.states["users"]
		found = s
		return ok && is(s)
	})
	return found
}

// agrees waits until what it was told last is what there is.
func (o *onlooker) agrees(c *recipes.Client) {
	o.h.t.Helper()
	for deadline := time.Now().Add(soon); ; <-time.After(gap) {
		all, _, err := c.Locks(o.h.t.Context())
		require.NoError(o.h.t, err)
		o.mu.Lock()
		told := make([]recipes.LockState, 0, len(o.states))
		for _, s := range o.states {
			told = append(told, s)
		}
		o.mu.Unlock()
		slices.SortFunc(told, func(a, b recipes.LockState) int { return strings.Compare(a.Scope, b.Scope) })
		is, seen := timeless(all), timeless(told)
		if fmt.Sprintf("%+v", is) == fmt.Sprintf("%+v", seen) {
			require.Equal(o.h.t, is, seen)
			return
		}
		if time.Now().After(deadline) {
			require.Equal(o.h.t, is, seen)
		}
	}
}

// timeless is what of states does not depend on when they were looked at.
func timeless(states []recipes.LockState) []recipes.LockState {
	states = slices.Clone(states)
	for i := range states {
		s := &states[i]
		s.At = time.Time{}
		s.Holders = slices.Clone(s.Holders)
		for j := range s.Holders {
			s.Holders[j].LeaseLeft, s.Holders[j].MinRuntimeLeft = 0, 0
		}
		if len(s.Foreign) == 0 {
			s.Foreign = nil
		}
	}
	return states
}

// A wire counts the requests of a client.
type wire struct {
	mu  sync.Mutex
	ops map[int32]int
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: conn, w: w}, nil
}

// requests returns how many there were, by kind; pings do not count.
func (w *wire) requests() map[int32]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[int32]int{}
	maps.Copy(all, w.ops)
	return all
}

// A tapped connection looks at what goes out.
type tapped struct {
	net.Conn
	w       *wire
	greeted bool
	rest    []byte
}

func (c *tapped) Write(b []byte) (int, error) {
	c.rest = append(c.rest, b...)
	for len(c.rest) >= 4 {
		size := 4 + int(binary.BigEndian.Uint32(c.rest))
		if len(c.rest) < size {
			break
		}
		if frame := c.rest[:size]; c.greeted && size >= 12 {
			if op := int32(binary.BigEndian.Uint32(frame[8:])); op != opPing {
				c.w.mu.Lock()
				if c.w.ops == nil {
					c.w.ops = map[int32]int{}
				}
				c.w.ops[op]++
				c.w.mu.Unlock()
			}
		}
		c.greeted = true
		c.rest = c.rest[size:]
	}
	return c.Conn.Write(b)
}

func TestLookingMakesNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	o := h.lookout(gap)
	require.Eventually(t, func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.synced > 0 }, soon, time.Millisecond)
	shell := h.shell()

	// when the servers' clock could be asked for
	now := time.Now()
	require.Eventually(t, func() bool { o.client.Now(); return time.Since(now) > 1200*time.Millisecond }, soon, 10*time.Millisecond)
	_, _, err := o.client.Locks(t.Context())
	require.NoError(t, err)
	_, err = o.client.Lock(t.Context(), "users")
	require.NoError(t, err)

	// then nothing is there that was not
	there, _, err := shell.Exists(h.root)
	require.NoError(t, err)
	require.False(t, there)

	// and it is asked for when there is something
	h.hold(h.lock(h.client()), "ann")
	require.Eventually(t, func() bool {
		o.client.Now()
		there, _, err := shell.Exists(h.root + "/clock")
		return err == nil && there
	}, soon, 10*time.Millisecond)
}

func TestLookoutSeesEveryStepOfALock(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()

	// given one that looks before there is anything
	o := h.lookout(gap)
	o.until("that there is nothing", func() bool { return o.synced == 1 })

	// a grant
	ann := h.hold(h.lock(c), "ann", at(3), cleanup(time.Minute), lease(time.Hour))
	s := o.sees("ann holds", func(s recipes.LockState) bool { return slices.Equal(owners(s.Holders), []string{"ann"}) })
	require.Equal(t, ann.token(), s.Holders[0].Token)
	require.Equal(t, time.Hour, s.Holders[0].LeaseTimeout)

	// joins, in order
	bob := h.ask(h.lock(c), "bob", at(1))
	bob.queued()
	cid := h.ask(h.lock(c), "cid", at(2))
	cid.queued()
	o.sees("cid is before bob", func(s recipes.LockState) bool { return slices.Equal(owners(s.Waiters), []string{"cid", "bob"}) })

	// a new lease
	require.NoError(t, ann.granted().Extend(t.Context(), 2*time.Hour))
	o.sees("ann's lease is longer", func(s recipes.LockState) bool { return s.Holders[0].LeaseTimeout == 2*time.Hour })

	// a request to go, and its end
	dan := h.ask(h.lock(c), "dan", at(9))
	s = o.sees("ann is asked to go", func(s recipes.LockState) bool {
		return len(s.Holders) == 1 && len(s.Holders[0].PreemptedBy) == 1 && s.Holders[0].PreemptedBy[0].Owner == "dan"
	})
	require.Equal(t, []string{"dan", "cid", "bob"}, owners(s.Waiters))
	require.False(t, s.Holders[0].PreemptedBy[0].At.IsZero())
	dan.cancel()
	require.Error(t, dan.refused())
	o.sees("nobody asks ann to go", func(s recipes.LockState) bool {
		return len(s.Holders) == 1 && len(s.Holders[0].PreemptedBy) == 0 && len(s.Waiters) == 2
	})

	// a hand-over
	ann.release()
	cid.granted()
	o.sees("cid holds", func(s recipes.LockState) bool {
		return slices.Equal(owners(s.Holders), []string{"cid"}) && slices.Equal(owners(s.Waiters), []string{"bob"})
	})
	o.mu.Lock()
	last := o.seen[len(o.seen)-1]
	o.mu.Unlock()
	require.Equal(t, cid.token(), last.Moved, "ann went in the transaction that granted cid")

	// a takeover
	eve := h.ask(h.lock(c), "eve", at(9), forceful)
	eve.granted()
	s = o.sees("eve took it from cid", func(s recipes.LockState) bool {
		return slices.Equal(owners(s.Holders), []string{"eve"}) && len(s.Evicted) == 1
	})
	require.Equal(t, "cid", s.Evicted[0].Owner)
	require.Equal(t, priority.Outranked, s.Evicted[0].Reason)

	// a break
	op := h.client(func(cfg *recipes.Config) { cfg.Auth = &recipes.Digest{User: "op", Password: "secret"} })
	_, err := op.Break(t.Context(), recipes.BreakRequest{Scope: "users", Token: eve.token(), By: "op", Reason: "stuck"})
	require.NoError(t, err)
	bob.granted()
	o.sees("bob holds after a break", func(s recipes.LockState) bool {
		return slices.Equal(owners(s.Holders), []string{"bob"}) && len(s.Evicted) == 2 && s.Evicted[1].Why == "stuck"
	})
	bob.release()
	o.sees("nobody holds it", func(s recipes.LockState) bool { return len(s.Holders)+len(s.Waiters) == 0 })
	o.agrees(c)
}

func TestLookoutSeesSharedHoldersCompanionsDelaysAndRevisions(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(allSeen)
	o := h.lookout(gap)

	// shared holders, a downgrade
	ann := h.hold(h.lock(c), "ann")
	require.NoError(t, ann.granted().Downgrade(t.Context()))
	o.sees("ann shares", func(s recipes.LockState) bool { return len(s.Holders) == 1 && s.Holders[0].Mode == priority.Shared })
	bob := h.hold(h.lock(c), "bob", inMode(priority.Shared))
	o.sees("both share", func(s recipes.LockState) bool { return len(s.Holders) == 2 })
	ann.release()
	bob.release()

	// companions
	first := h.hold(h.lock(c), "first", ofHold)
	second := h.join(h.lock(h.client()), "second", first.reference())
	second.granted()
	o.sees("companions", func(s recipes.LockState) bool {
		return len(s.Holders) == 2 && s.Holders[0].Token == s.Holders[1].Token && s.Holders[0].Hold == holdID
	})
	second.release()
	first.release()

	// what a waiter asks for changes in its place
	terms := make(chan struct{})
	var mu sync.Mutex
	patient := false
	fay := h.hold(h.lock(c), "fay")
	gus := h.ask(h.lock(c), "gus", func(r *recipes.Request) {
		r.Terms = func() (recipes.Terms, <-chan struct{}) {
			mu.Lock()
			defer mu.Unlock()
			return recipes.Terms{LeaseTimeout: time.Minute, Forceful: patient}, terms
		}
	})
	gus.queued()
	o.sees("gus waits", func(s recipes.LockState) bool { return len(s.Waiters) == 1 && !s.Waiters[0].Forceful })
	mu.Lock()
	patient = true
	changed := terms
	terms = make(chan struct{})
	mu.Unlock()
	close(changed)
	o.sees("gus is forceful now", func(s recipes.LockState) bool { return len(s.Waiters) == 1 && s.Waiters[0].Forceful })
	fay.release()
	gus.granted()
	gus.release()

	// an unclean end
	frail := h.client()
	h.hold(h.lock(frail), "hal", delayed(time.Minute))
	o.sees("hal holds", func(s recipes.LockState) bool { return slices.Equal(owners(s.Holders), []string{"hal"}) })
	h.expire(frail)
	s := o.sees("the lock is delayed", func(s recipes.LockState) bool { return len(s.Holders) == 0 && len(s.Delays) == 1 })
	require.Equal(t, "hal", s.Delays[0].Owner)
	require.True(t, s.Delays[0].Until.IsZero())
	ivy := h.ask(h.lock(c), "ivy")
	s = o.sees("the delay has begun", func(s recipes.LockState) bool {
		return len(s.Waiters) == 1 && len(s.Delays) == 1 && !s.Delays[0].Until.IsZero()
	})
	require.Equal(t, time.Minute, s.Delays[0].Until.Sub(s.Delays[0].Since))
	o.agrees(c)
	ivy.cancel()
	require.Error(t, ivy.refused())
}

func TestLookoutSeesLocksThatAreCollectedAndUsedAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	o := h.lookout(gap)
	for range 5 {
		// given a lock that was used
		ann := h.hold(h.lock(c), "ann")
		node := h.lockNode(ann.grant.ID())
		o.sees("ann holds", func(s recipes.LockState) bool { return len(s.Holders) == 1 })
		ann.release()
		o.sees("ann has gone", func(s recipes.LockState) bool { return len(s.Holders) == 0 })

		// when it is collected
		shell := h.shell()
		_, stat, err := shell.Get(h.root)
		require.NoError(t, err)
		_, err = shell.Multi(&zk.SetDataRequest{Path: h.root, Version: stat.Version}, &zk.DeleteRequest{Path: node, Version: -1})
		require.NoError(t, err)

		// then that is seen, unless it is there again before anybody looks
		o.until("the lock is gone", func() bool { _, there := o.states["users"]; return !there })
	}
	again := h.hold(h.lock(c), "again")
	o.sees("it is there again", func(s recipes.LockState) bool { return len(s.Holders) == 1 })
	again.release()
	o.agrees(c)
}

// What happens between a look at the list of locks and one at the lock is not lost.
func TestLookoutLosesNothingWhereLocksComeAndGo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	o := h.lookout(time.Millisecond)
	shell := h.shell()
	c := h.client()
	for range 60 {
		ann := h.hold(h.lock(c), "ann")
		node := h.lockNode(ann.grant.ID())
		ann.release()
		_, stat, err := shell.Get(h.root)
		require.NoError(t, err)
		_, err = shell.Multi(&zk.SetDataRequest{Path: h.root, Version: stat.Version}, &zk.DeleteRequest{Path: node, Version: -1})
		require.NoError(t, err)
	}
	ann := h.hold(h.lock(c), "ann")
	o.sees("ann holds", func(s recipes.LockState) bool { return len(s.Holders) == 1 && s.Holders[0].ID == ann.grant.ID() })
	o.agrees(c)
}

func TestLookoutAgreesWithTheTreeAfterRandomTraffic(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	o := h.lookout(gap)
	var work errgroup.Group
	for i := range 8 {
		c := h.client()
		random := rand.New(rand.NewPCG(7, uint64(i)))
		work.Go(func() error {
			for n := range 40 {
				l, err := c.PriorityLock(fmt.Sprintf("scope/%d", random.IntN(5)))
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+random.IntN(30))*time.Millisecond)
				r := recipes.Request{
					Owner: fmt.Sprintf("worker-%d-%d", i, n), Priority: priority.Level(random.IntN(4)),
					Forceful: random.IntN(2) == 0, LeaseTimeout: time.Duration(1+random.IntN(50)) * time.Millisecond,
				}
				if random.IntN(2) == 0 {
					r.Mode = priority.Shared
				}
				grant, err := l.Acquire(ctx, r)
				cancel()
				if err == nil {
					<-time.After(time.Duration(random.IntN(15)) * time.Millisecond)
					_ = grant.Release(context.Background())
				}
			}
			return nil
		})
	}
	require.NoError(t, work.Wait())
	last := h.client()
	h.hold(h.scope(last, "scope/0"), "last")
	h.ask(h.scope(last, "scope/0"), "waits").queued()
	o.agrees(last)
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
			o.h.expire(o.client)
			meanwhile()
		},
		"connection, for long": func(t *testing.T, o *onlooker, proxy *netfault.Proxy, meanwhile func()) {
			require.NoError(t, proxy.Cut())
			meanwhile()
			o.until("that it is blind", func() bool { return o.blind == 1 })
			require.NoError(t, proxy.Pass())
			o.until("that it sees again", func() bool { return o.synced == 2 })
			require.Equal(t, 30, o.freeWhenSynced, "everything is told before that")
		},
		"both": func(t *testing.T, o *onlooker, proxy *netfault.Proxy, meanwhile func()) {
			require.NoError(t, proxy.Cut())
			o.h.expire(o.client)
			meanwhile()
			o.until("that it is blind", func() bool { return o.blind == 1 })
			require.NoError(t, proxy.Pass())
			o.until("that it sees again", func() bool { return o.synced == 2 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			proxy := netfault.New(t, h.server.Addr())
			c := h.client(allSeen)
			var many []*user
			for i := range 30 {
				many = append(many, h.hold(h.scope(c, fmt.Sprintf("many/%d", i)), "ann"))
			}
			o := h.lookout(gap, func(cfg *recipes.Config) { cfg.Servers = []string{proxy.Addr()} })
			ann := h.hold(h.lock(c), "ann")
			bob := h.ask(h.lock(c), "bob")
			other := h.hold(h.scope(c, "other"), "ann")
			o.until("everything", func() bool { return o.synced == 1 })
			o.sees("bob waits", func(s recipes.LockState) bool { return len(s.Waiters) == 1 })

			away(t, o, proxy, func() {
				ann.release()
				bob.granted()
				h.ask(h.lock(c), "cid").queued()
				other.release()
				h.hold(h.scope(c, "new"), "dan")
				for _, u := range many {
					u.release()
				}
			})

			o.sees("bob holds, cid waits", func(s recipes.LockState) bool {
				return slices.Equal(owners(s.Holders), []string{"bob"}) && slices.Equal(owners(s.Waiters), []string{"cid"})
			})
			o.agrees(c)

			// and what happens then, in the nodes that were there, is seen
			eve := h.ask(h.lock(c), "eve", at(9))
			o.sees("eve asks bob to go", func(s recipes.LockState) bool {
				return len(s.Holders) == 1 && len(s.Holders[0].PreemptedBy) == 1 && s.Waiters[0].Owner == "eve"
			})
			eve.cancel()
			require.Error(t, eve.refused())
			o.sees("she has left", func(s recipes.LockState) bool {
				return len(s.Holders) == 1 && len(s.Holders[0].PreemptedBy) == 0 && len(s.Waiters) == 1
			})

			// and what is the same is not told again
			o.mu.Lock()
			told := len(o.seen)
			o.mu.Unlock()
			h.expire(o.client)
			h.hold(h.scope(c, "last"), "eve")
			o.until("eve holds", func() bool { return len(o.states["last"].Holders) == 1 })
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, s := range o.seen[told:] {
				require.Contains(t, []string{"", "last"}, s.State.Scope)
			}
		})
	}
}

func TestLookoutAsksNothingWhileNothingHappens(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()

	// given locks, holders, waiters, and one that has looked at them
	for i := range 20 {
		scope := h.scope(c, fmt.Sprintf("scope/%d", i))
		h.hold(scope, "ann")
		h.ask(scope, "bob").queued()
	}
	o := h.lookout(gap)
	o.until("everything", func() bool { return o.synced == 1 })
	before := o.wire.requests()

	// when time passes in which another one works elsewhere
	elsewhere := newHouse(t, h.server)
	elsewhere.root = h.root + "-elsewhere"
	busy := elsewhere.client()
	for range 100 {
		elsewhere.hold(elsewhere.lock(busy), "busy").release()
	}

	// then it has asked nothing, but whether the servers keep its session
	after := o.wire.requests()
	delete(before, opSync)
	delete(after, opSync)
	require.Equal(t, before, after)
	require.LessOrEqual(t, before[opGetData], 1+20*3, "one read of who may do what, one for each lock, and for each request")
	h.hold(h.lock(c), "news")
	o.sees("news", func(s recipes.LockState) bool { return len(s.Holders) == 1 })
}

func TestHerdCostsTheLookoutAListNowAndThen(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const herd, rest = 1000, 200 * time.Millisecond
	c := h.client(allSeen)
	h.hold(h.lock(c), "ann")
	o := h.lookout(rest)
	o.sees("ann holds", func(s recipes.LockState) bool { return len(s.Holders) == 1 })
	before := o.wire.requests()
	began := time.Now()

	// when a thousand join
	ctx, cancel := context.WithCancel(t.Context())
	l := h.lock(c)
	var joined sync.WaitGroup
	for i := range herd {
		joined.Go(func() { _, _ = l.Acquire(ctx, recipes.Request{Owner: fmt.Sprintf("worker-%d", i)}) })
	}
	o.sees("all", func(s recipes.LockState) bool { return len(s.Waiters) == herd })

	// then there is one list for each gap, and one read for each of them
	looks := int(time.Since(began)/rest) + 2
	after := o.wire.requests()
	require.LessOrEqual(t, after[opGetChildren2]-before[opGetChildren2], looks)
	require.LessOrEqual(t, after[opGetData]-before[opGetData], herd+looks)

	// and when they leave, no more than that
	before, began = after, time.Now()
	cancel()
	joined.Wait()
	o.sees("nobody", func(s recipes.LockState) bool { return len(s.Waiters) == 0 })
	after, looks = o.wire.requests(), int(time.Since(began)/rest)+2
	require.LessOrEqual(t, after[opGetChildren2]-before[opGetChildren2], looks)
	require.LessOrEqual(t, after[opGetData]-before[opGetData], looks, "who leaves is not read")
}

func TestLookoutLeavesNoWatchBehindOnWhatIsGone(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	c := h.client()
	before := len(h.watches())
	o := h.lookout(gap)
	for i := range 10 {
		ann := h.hold(h.scope(c, fmt.Sprintf("scope/%d", i)), "ann")
		bob := h.ask(h.scope(c, fmt.Sprintf("scope/%d", i)), "bob")
		bob.queued()
		ann.release()
		bob.granted()
		bob.release()
	}
	o.until("nobody is left", func() bool {
		free := 0
		for _, s := range o.states {
			if len(s.Holders)+len(s.Waiters) == 0 {
				free++
			}
		}
		return free == 10
	})
	h.nobodyThere()
	const ofLocks = 10 + 1 // one for each, and one for their room, which may have come when it was looked for
	h.watchesFallTo(before + ofLocks)

	// and one that looks again and again adds none
	for range 3 {
		look, err := o.client.Lookout(recipes.LookoutOptions{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		require.ErrorIs(t, look.Run(ctx, func(s recipes.Sighting) {
			if s.Synced {
				stop()
			}
		}), context.Canceled)
	}
	require.NoError(t, o.stop())
	require.LessOrEqual(t, len(h.watches()), before+ofLocks)
}

func TestLookoutNeedsNoMoreThanToRead(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	o := h.lookout(gap)
	o.until("that there is nothing", func() bool { return o.synced == 1 })
	_, _, err := h.shell().Get(h.root)
	require.ErrorIs(t, err, zk.ErrNoNode, "it has made nothing")
	_, err = o.client.Lookout(recipes.LookoutOptions{Gap: -1})
	require.ErrorAs(t, err, new(*recipes.RequestError))
}
