package locks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Holds that outlive a process: others join them (T14), or take the place of a
// member (T15, T16).

const holdID = "shop/order-17/run-1"

func ofHold(r *lock.Request) { r.Hold = holdID }

func forCleanup(r *lock.Request) { r.ForCleanup = true }

func delayed(d time.Duration) func(*lock.Request) {
	return func(r *lock.Request) { r.LockDelay = d }
}

func inMode(m priority.Mode) func(*lock.Request) {
	return func(r *lock.Request) { r.Mode = m }
}

// joinBy joins a hold in the background.
func (f *fixture) joinBy(l *lock.PriorityLock, owner string, ref lock.Reference, options ...harness.Option) *harness.Request {
	f.Helper()
	return f.Start(owner, func(ctx context.Context, r lock.Request) (*lock.Grant, error) {
		return l.Join(ctx, ref, r)
	}, options...)
}

// adoptBy adopts a hold in the background.
func (f *fixture) adoptBy(l *lock.PriorityLock, owner string, ref lock.Reference, options ...harness.Option) *harness.Request {
	f.Helper()
	return f.Start(owner, func(ctx context.Context, r lock.Request) (*lock.Grant, error) {
		return l.Adopt(ctx, ref, r)
	}, options...)
}

// join and adopt do so by a client of their own.
func (f *fixture) join(owner string, ref lock.Reference, options ...harness.Option) *harness.Request {
	f.Helper()
	return f.joinBy(f.lock(f.Client()), owner, ref, options...)
}

func (f *fixture) adopt(owner string, ref lock.Reference, options ...harness.Option) *harness.Request {
	f.Helper()
	return f.adoptBy(f.lock(f.Client()), owner, ref, options...)
}

// reference is what others know of a grant, as it has come to them.
func (f *fixture) reference(r *harness.Request) (ref lock.Reference) {
	f.Helper()
	r.Token()
	data, err := json.Marshal(r.Granted().Reference())
	require.NoError(f, err)
	require.NoError(f, json.Unmarshal(data, &ref))
	require.Equal(f, r.Granted().Reference(), ref)
	return ref
}

// holders are the owners of those who hold the lock, sorted.
func (f *fixture) holders(c *lock.Client) []string {
	f.Helper()
	all := harness.Owners(f.state(c).Holders)
	slices.Sort(all)
	return all
}

// holderIs waits until these hold the lock.
func (f *fixture) holderIs(c *lock.Client, who ...string) {
	f.Helper()
	harness.Eventually(f, func() bool { return slices.Equal(f.holders(c), who) }, "holders: want %v", who)
}

func requireNotThere(t testing.TB, err error) *lock.NotThereError {
	t.Helper()
	var gone *lock.NotThereError
	require.ErrorAs(t, err, &gone)
	return gone
}

func TestCompanionHoldsBesideTheHolderWithItsToken(t *testing.T) {
	t.Parallel()
	for _, mode := range []priority.Mode{priority.Exclusive, priority.Shared} {
		t.Run(mode.String(), func(t *testing.T) {
			h := share(t)
			onlooker := h.Client()

			// given a holder with a hold id, and a stranger that waits
			agent := h.hold("agent", ofHold, inMode(mode), harness.At(2), harness.Cleanup(time.Minute), harness.Lease(time.Hour))
			stranger := h.queued("stranger", harness.At(2))

			// when another process joins
			activity := h.join("activity", h.reference(agent))

			// then both hold by one token, one lease, one priority
			require.Equal(t, agent.Token(), activity.Token())
			require.Equal(t, []string{"activity", "agent"}, h.holders(onlooker))
			holders := h.state(onlooker).Holders
			for _, c := range holders {
				require.Equal(t, holdID, c.Hold)
				require.Equal(t, agent.Token(), c.Token)
				require.Equal(t, priority.Level(2), c.Priority)
				require.Equal(t, mode, c.Mode)
				require.Equal(t, time.Minute, c.CleanupTimeout)
				require.Equal(t, holders[0].Since, c.Since)
				require.Equal(t, holders[0].LeaseLeft, c.LeaseLeft)
			}
			require.NotEqual(t, holders[0].Session, holders[1].Session)
			require.Equal(t, time.Hour, activity.Granted().Terms().LeaseTimeout)

			// and the lock is held until the last of them has gone, in whatever order
			agent.Release()
			require.Equal(t, []string{"activity"}, h.holders(onlooker))
			stranger.IsPending()
			activity.Release()
			stranger.Granted()
			require.Greater(t, stranger.Token(), activity.Token())
		})
	}
}

func TestLastCompanionOfSeveralThatLeaveAtOnceHandsOver(t *testing.T) {
	h := share(t)

	// given ten companions, and a stranger behind them
	agent := h.hold("agent", ofHold)
	all := []*harness.Request{agent}
	for i := range 9 {
		all = append(all, h.join(fmt.Sprint("activity ", i), h.reference(agent)))
	}
	for _, u := range all {
		u.Granted()
	}
	stranger := h.queued("stranger")

	// when all leave at the same moment
	left := make(chan error, len(all))
	for _, u := range all {
		go func() { left <- u.Granted().Release(context.WithoutCancel(t.Context())) }()
	}
	for range all {
		require.NoError(t, <-left)
	}

	// then the lock is the stranger's, and no other member is named
	stranger.Granted()
	data, _ := h.Get(lockNode(stranger))
	require.JSONEq(t, fmt.Sprintf(`{"format":1,"holders":[%q]}`, stranger.Granted().ID()), string(data))
}

func TestStrangerNeitherPassesNorForgetsCompanions(t *testing.T) {
	h := share(t)
	onlooker := h.Client()
	agent := h.hold("agent", ofHold)
	activity := h.join("activity", h.reference(agent))
	activity.Granted()

	// A request with the same hold id is a stranger, too.
	for _, change := range []func(*lock.Request){func(*lock.Request) {}, ofHold, harness.Shared} {
		other := h.acquire("other", change, harness.Try)
		var busy *lock.NotAcquiredError
		require.ErrorAs(t, other.Refused(), &busy)
		require.Len(t, busy.Holders, 2)
	}
	require.Equal(t, []string{"activity", "agent"}, h.holders(onlooker))
	agent.Release()
	require.Equal(t, []string{"activity"}, h.holders(onlooker))
}

func TestCompanionIsAskedByItsOwnMailbox(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	ref := h.reference(agent)
	activity := h.join("activity", ref)
	activity.Granted()

	// when a more important one asks
	boss := h.acquire("boss", harness.At(5))

	// then each of them hears of it
	for _, u := range []*harness.Request{agent, activity} {
		require.Equal(t, "boss", harness.Await[lock.PreemptRequested](h, u.Notices).By.Owner)
	}

	// and no member joins any more
	late := h.join("late", ref)
	var pending *lock.PreemptPendingError
	require.ErrorAs(t, late.Refused(), &pending)
	require.Equal(t, "boss", pending.By.By.Owner)
	require.Equal(t, time.Hour, pending.By.Grace)
	require.WithinDuration(t, time.Now().Add(time.Hour), pending.By.Deadline, time.Minute)

	// except to clean up: it learns at once that it is preempted as well
	helper := h.join("helper", ref, forCleanup)
	helper.Granted()
	require.Equal(t, "boss", harness.Await[lock.PreemptRequested](h, helper.Notices).By.Owner)

	// and the lock goes to the boss when the last of them has gone
	agent.Release()
	activity.Release()
	boss.IsPending()
	helper.Release()
	boss.Granted()
}

func TestHoldIsBrokenWhole(t *testing.T) {
	h := share(t)
	onlooker := h.Client(as("ann"))
	doomed := h.Client(as("ann"))
	agent := h.Hold(h.lock(h.Client(as("ann"))), "agent", ofHold)
	ref := h.reference(agent)
	one := h.joinBy(h.lock(h.Client(as("ann"))), "one", ref)
	dead := h.joinBy(h.lock(doomed), "dead", ref)
	one.Granted()
	deadRef := h.reference(dead)
	h.Expire(doomed)
	h.holderIs(onlooker, "agent", "one")

	// of all of them it was said before that they lose it, of one that came meanwhile, too
	var late *harness.Request
	var said [][]string
	_, err := onlooker.Break(t.Context(), lock.BreakRequest{
		Scope: "users", Token: ref.Token, By: "ann", Reason: "stuck",
		Authorize: func(_ context.Context, holders []lock.Contender) error {
			all := harness.Owners(holders)
			slices.Sort(all)
			if said = append(said, all); late == nil {
				late = h.joinBy(h.lock(h.Client(as("ann"))), "late", ref)
				late.Granted()
			}
			return nil
		},
	})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"agent", "one"}, {"agent", "late", "one"}}, said)
	for _, u := range []*harness.Request{agent, one, late} {
		require.Equal(t, lock.LossBroken, u.Lost().Err.Reason)
	}
	require.False(t, h.state(onlooker).Held())
	for _, ref := range []lock.Reference{ref, deadRef} {
		requireNotThere(t, h.adoptBy(h.lock(onlooker), "again", ref).Refused())
	}
}

// Readers that were granted together have one token, though they are strangers.
func TestHoldOfReadersIsBrokenWholeAndNoStrangerWithIt(t *testing.T) {
	h := share(t)
	onlooker := h.Client(as("ann"))
	// a holder with a hold id looks who waits, however short its hold was
	writer := h.Hold(h.lock(h.Client(as("ann"))), "writer", func(r *lock.Request) { r.Hold = "theirs" })
	var readers []*harness.Request
	for i, change := range []func(*lock.Request){ofHold, func(*lock.Request) {}} {
		u := h.Acquire(h.lock(h.Client(as("ann"))), []string{"agent", "stranger"}[i], harness.Shared, change)
		u.Queued()
		readers = append(readers, u)
	}
	writer.Release()
	agent, stranger := readers[0], readers[1]
	require.Equal(t, agent.Token(), stranger.Token())
	activity := h.joinBy(h.lock(h.Client(as("ann"))), "activity", h.reference(agent))
	activity.Granted()
	require.Equal(t, []string{"activity", "agent", "stranger"}, h.holders(onlooker))

	_, err := onlooker.Break(t.Context(), lock.BreakRequest{Scope: "users", Token: agent.Token(), By: "ann", Reason: "stuck"})
	require.NoError(t, err)
	for _, u := range []*harness.Request{agent, activity} {
		require.Equal(t, lock.LossBroken, u.Lost().Err.Reason)
	}
	require.Equal(t, []string{"stranger"}, h.holders(onlooker))
	stranger.Release()
}

// Who waits for people to decide about a hold is not told that it has gone when
// others come to help it, or take its place.
func TestWhoIsPatientKnowsTheCompanionsOfAHold(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	ref := h.reference(agent)
	boss := h.acquire("boss", harness.At(5), func(r *lock.Request) { r.Patient, r.WaitingTimeout = true, new(time.Millisecond) })
	require.Equal(t, []string{"agent"}, harness.Owners(harness.Await[lock.CleanupPending](h, boss.Notices).Holders))

	helper := h.join("helper", ref, forCleanup)
	helper.Granted()
	seen := func(n int) {
		t.Helper()
		harness.Eventually(t, func() bool { return len(harness.All[lock.PreemptSent](boss.Notices)) == n }, "%d are asked", n)
	}
	seen(2)
	next := h.adopt("next", ref)
	next.Granted()
	seen(3)
	helper.Release()
	next.Release()
	boss.Granted()
	require.Empty(t, harness.All[lock.PendingOver](boss.Notices))
	boss.Release()
}

func TestHoldStaysExclusive(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold)
	var refused *lock.RequestError
	require.ErrorAs(t, agent.Granted().Downgrade(t.Context()), &refused)
	require.Equal(t, priority.Exclusive, agent.Granted().Mode())
	require.ErrorAs(t, h.acquire("reader", harness.Shared, harness.Try).Refused(), new(*lock.NotAcquiredError))
}

func TestReferenceThatCanNeverWorkIsRefused(t *testing.T) {
	h := share(t)
	l := h.lock(h.Client())
	good := lock.Reference{Scope: "users", Hold: holdID, ID: strings.Repeat("a", 24), Token: 7}
	requireNotThere(t, h.joinBy(l, "good", good).Refused())
	requireNotThere(t, h.adoptBy(l, "good", good).Refused())
	for name, spoil := range map[string]func(*lock.Reference){
		"another scope": func(r *lock.Reference) { r.Scope = "orders" },
		"no hold":       func(r *lock.Reference) { r.Hold = "" },
		"a long hold":   func(r *lock.Reference) { r.Hold = strings.Repeat("x", priority.MaxHold+1) },
		"a bell":        func(r *lock.Reference) { r.Hold = "\a" },
		"no id":         func(r *lock.Reference) { r.ID = "" },
		"a path":        func(r *lock.Reference) { r.ID = "../" + strings.Repeat("a", 21) },
	} {
		ref := good
		spoil(&ref)
		var refused *lock.RequestError
		require.ErrorAs(t, h.joinBy(l, name, ref).Refused(), &refused, name)
		require.ErrorAs(t, h.adoptBy(l, name, ref).Refused(), &refused, name)
	}
	var refused *lock.RequestError
	require.ErrorAs(t, h.Acquire(l, "long", func(r *lock.Request) { r.Hold = strings.Repeat("x", priority.MaxHold+1) }).Refused(), &refused)
	require.Equal(t, "hold", refused.Field)
}

// An id that is used again is another hold.
func TestLaterHoldWithTheSameIDIsNotJoinedByAnOldReference(t *testing.T) {
	h := share(t)
	first := h.hold("first", ofHold)
	old := h.reference(first)
	first.Release()
	second := h.hold("second", ofHold)
	requireNotThere(t, h.join("late", old).Refused())
	require.Equal(t, second.Token(), h.join("timely", h.reference(second)).Token())
}

// The version at which one has left a hold is none to take the lock by while another member holds it.
func TestHoldThatGoesOnIsNotTakenForIdleByWhoHasLeftIt(t *testing.T) {
	h := share(t)
	c := h.Client()

	// given a hold that goes on without the one that began it
	agent := h.Hold(h.lock(c), "agent", ofHold)
	activity := h.join("activity", h.reference(agent))
	activity.Granted()
	agent.Release()

	// when that client asks for the lock
	again := h.Acquire(h.lock(c), "again", ofHold, harness.Try)

	// then it is refused
	require.ErrorAs(t, again.Refused(), new(*lock.NotAcquiredError))
	require.NoError(t, activity.Granted().Check())
	require.Equal(t, []string{"activity"}, h.holders(h.Client()))
}
