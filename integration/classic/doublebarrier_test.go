package classic

import (
	"context"
	"path"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	meeting = "/meetings/noon"
	ready   = meeting + "/ready"
)

func (f *fixture) doubleBarrier(c *lock.Client, at string, members int) *classic.DoubleBarrier {
	f.Helper()
	b, err := classic.NewDoubleBarrier(c.Client, at, members)
	require.NoError(f, err)
	return b
}

// A guest is one that enters a double barrier, and then its member.
type guest struct {
	*harness.Begun[*classic.BarrierMember]
	f *fixture
}

// enter enters the barrier at meeting.
func (f *fixture) enter(c *lock.Client, members int) *guest {
	f.Helper()
	return &guest{harness.Begin(f, "a member's entering", f.doubleBarrier(c, meeting, members).Enter), f}
}

// two are inside, of two.
func (f *fixture) two(c, other *lock.Client) (first, second *guest) {
	f.Helper()
	first, second = f.enter(c, 2), f.enter(other, 2)
	first.Granted()
	second.Granted()
	return first, second
}

// leave begins to leave.
func (g *guest) leave() *harness.Running { return g.f.run(g.Granted().Leave) }

// leaves leaves.
func (g *guest) leaves() { g.f.Helper(); g.leave().Granted() }

// onlyMember waits until the barrier has one member, which waits, and returns its node.
func (f *fixture) onlyMember() string {
	f.Helper()
	var nodes []string
	harness.Eventually(f, func() bool { nodes = f.Ephemerals(); return len(nodes) == 1 }, "there is not one member alone")
	f.Watched(nodes[0], 1)
	return nodes[0]
}

func TestMembersOfADoubleBarrierBeginAndEndTogether(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given all members but one, in three processes
	const members = 5
	clients := []*lock.Client{f.client(), f.client(), f.client()}
	var guests []*guest
	for i := range members - 1 {
		guests = append(guests, f.enter(clients[i%3], members))
	}
	f.Filled(meeting, members-1)
	for _, g := range guests {
		g.IsPending()
	}

	// when the last comes
	guests = append(guests, f.enter(clients[0], members))

	// then all are inside
	for _, g := range guests {
		g.Granted()
	}

	// when all but one leave
	var leavers []*harness.Running
	for _, g := range guests[1:] {
		leavers = append(leavers, g.leave())
	}
	harness.Eventually(t, func() bool { return len(f.Children(meeting)) <= 3 }, "they stay") // that one, "ready", and the lowest
	for _, l := range leavers {
		l.IsPending()
	}

	// then they end when that one does
	guests[0].leaves()
	for _, l := range leavers {
		l.Granted()
	}
	f.Gone(meeting)    // and nothing is left of it
	guests[0].leaves() // who is out stays out
}

func TestDoubleBarrierDoesNotOpenForOneThatHasGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, proxy := f.proxied()

	// given the last of two, who is about to open
	first := f.enter(f.client(), 2)
	f.onlyMember()
	opening := proxy.On(f.on(zktest.Multi, ready).Nth(1)).Hold()
	second := f.enter(c, 2)
	reached(t, opening)

	// when the other gives up
	first.Cancel()
	require.ErrorIs(t, first.Refused(), context.Canceled)
	f.Filled(meeting, 1)
	opening.Release()

	// then it stays closed
	f.onlyMember()
	second.IsPending()
	require.False(t, f.Exists(ready))
	f.enter(f.client(), 2).Granted()
	second.Granted()
}

// Curator's members leave, and take "ready" away, when one is left inside: even one that has not seen it.
func TestMemberGoesInWhenOthersHaveOpenedAndShutMeanwhile(t *testing.T) {
	t.Parallel()
	f := share(t)
	g := f.enter(f.client(), 2)
	f.onlyMember()

	_, err := f.Shell().Multi(&zk.CreateRequest{Path: f.Root + ready, Acl: harness.WorldACL}, &zk.DeleteRequest{Path: f.Root + ready, Version: -1})
	require.NoError(t, err)

	g.leaves()
}

func TestMemberWhoseSessionEndsWhileItWaitsComesAgain(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	first := f.enter(c, 2)
	before := f.onlyMember()

	f.Expire(c)
	require.NotEqual(t, before, f.onlyMember())
	first.IsPending()

	f.enter(f.client(), 2).Granted()
	first.Granted()
}

func TestMemberWhoseSessionEndsInsideIsNotifiedWhenItLeaves(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	mine, theirs := f.two(c, f.client())

	// when its session ends
	f.Renewed(c)

	// then its leaving fails, and the other does not wait for it
	require.Equal(t, lock.LossSession, lossOf(t, mine.leave().Err()).Reason)
	theirs.leaves()
	lossOf(t, mine.leave().Err())
	f.NoEphemerals()
}

func TestMemberDeletedByAnAdministratorIsNotified(t *testing.T) {
	t.Parallel()
	f := share(t)

	// while it waits
	first := f.enter(f.client(), 2)
	f.Delete(f.onlyMember())
	require.ErrorAs(t, first.Refused(), new(*lock.EvictedError))

	// and inside
	mine, theirs := f.two(f.client(), f.client())
	for _, node := range f.Ephemerals() {
		f.Delete(node)
	}
	require.Equal(t, lock.LossDeleted, lossOf(t, mine.leave().Err()).Reason)
	require.Equal(t, lock.LossDeleted, lossOf(t, theirs.leave().Err()).Reason)
}

func TestLeavingEndsWithItsContextAndMayBeTakenUpAgain(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	guests := []*guest{f.enter(c, 3), f.enter(c, 3), f.enter(c, 3)}
	for _, g := range guests {
		g.Granted()
	}

	// when one gives up to wait for the others
	leaving := guests[0].leave()
	leaving.Cancel()
	require.ErrorIs(t, leaving.Err(), context.Canceled)

	// then it has left all the same, and can wait on
	f.Filled(meeting, 3) // two and "ready"
	again, other := guests[0].leave(), guests[1].leave()
	again.IsPending()
	guests[2].leaves()
	other.Granted()
	again.Granted()
	f.Gone(meeting)
}

func TestMemberThatCouldNotSeeWhoIsInsideWaitsForAll(t *testing.T) {
	virtually(t, func(t *testing.T, w *virtual.World) {
		var entering []*harness.Begun[*classic.BarrierMember]
		for _, name := range []string{"mine", "other"} {
			b, err := classic.NewDoubleBarrier(member(w, name).Client, meeting, 2)
			require.NoError(t, err)
			entering = append(entering, harness.Begin(t, name+"'s entering", b.Enter))
		}
		members := []*classic.BarrierMember{entering[0].Granted(), entering[1].Granted()}

		// given one that was in a hurry to leave
		require.ErrorIs(t, members[0].Leave(cancelled()), context.Canceled)
		synctest.Wait()

		// when it takes its time
		again := harness.Run(t, "the leave", members[0].Leave)
		synctest.Wait()

		// then it waits for the other
		again.IsPending()
		require.NoError(t, members[1].Leave(t.Context()))
		again.Granted()
	})
}

func TestBarrierIsClosedBehindTheLastWithoutAWaiter(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	first, second := f.two(c, c)
	_, err := f.doubleBarrier(c, meeting, 2).Enter(cancelled())
	require.ErrorIs(t, err, context.Canceled, "there would be no node to leave with, though it is open")
	f.Filled(meeting, 3) // the two and "ready"

	// when all leave in a hurry
	for _, g := range []*guest{first, second} {
		require.ErrorIs(t, g.Granted().Leave(cancelled()), context.Canceled)
	}

	// then the next round begins with two, not with one
	f.Gone(ready)
	next := f.enter(c, 2)
	f.onlyMember()
	next.IsPending()
	f.enter(c, 2).Granted()
	next.Granted()
}

// Each has seen the other, and neither waits until that one has left.
func TestBarrierIsClosedThoughBothGiveUpToLeaveAtOnce(t *testing.T) {
	t.Parallel()
	f := share(t)
	first, last := f.ranked()

	// given one whose node is about to go, and that gives up
	deleting := last.proxy.On(f.on(zktest.Delete, meeting+"/*").Nth(1)).Hold()
	leaving := last.leave()
	reached(t, deleting)
	leaving.Cancel()
	require.ErrorIs(t, leaving.Err(), context.Canceled)

	// when the lowest gives up as well, and is gone before
	require.ErrorIs(t, first.Granted().Leave(cancelled()), context.Canceled)
	f.Filled(meeting, 2) // the other and "ready"
	deleting.Release()

	// then no later member finds it open
	f.NoEphemerals()
	f.Gone(ready)
}

func TestMemberThatGivesUpAsTheBarrierOpensIsInside(t *testing.T) {
	virtually(t, func(t *testing.T, w *virtual.World) {
		a, err := classic.NewDoubleBarrier(member(w, "mine").Client, meeting, 2)
		require.NoError(t, err)
		b, err := classic.NewDoubleBarrier(member(w, "other").Client, meeting, 2)
		require.NoError(t, err)

		// given one that has not heard yet that the barrier is open
		opened := w.On(zktest.Event(zktest.NodeCreated).From("mine")).Hold()
		entering := harness.Begin(t, "the entering", a.Enter)
		synctest.Wait()
		_, err = b.Enter(t.Context())
		require.NoError(t, err)
		<-opened.Reached()

		// when it gives up in that moment
		entering.Cancel()
		synctest.Wait()
		opened.Release()

		// then it is inside, as the other believes
		entering.Granted()
	})
}

func TestLeavingAgainWhileTheFirstIsNotAnsweredIsNoLoss(t *testing.T) {
	virtually(t, func(t *testing.T, w *virtual.World) {
		b, err := classic.NewDoubleBarrier(member(w, "mine").Client, meeting, 1)
		require.NoError(t, err)
		m, err := b.Enter(t.Context())
		require.NoError(t, err)

		// given one that gives up to leave while the answer is on its way
		answer := w.On(zktest.Op(zktest.Multi).From("mine")).HoldReply()
		first := harness.Run(t, "the first leave", m.Leave)
		<-answer.Reached()
		first.Cancel()
		require.ErrorIs(t, first.Err(), context.Canceled)

		// when it leaves again, and then the answer comes
		again := harness.Run(t, "the second leave", m.Leave)
		synctest.Wait()
		answer.Release()

		// then it has left
		again.Granted()
	})
}

// A straggler is the last of a round to look whether the barrier is closed. It has looked, and is about to close it,
// until goOn is called.
type straggler struct {
	*harness.Running
	goOn func()
}

func (f *fixture) straggle() *straggler {
	f.Helper()
	lowest, last := f.ranked()
	closing := last.proxy.On(f.on(zktest.Multi, ready).Nth(1)).Hold()
	s := &straggler{last.leave(), closing.Release}
	f.Filled(meeting, 2) // the lowest and "ready"
	lowest.leaves()
	reached(f, closing)
	return s
}

// A ranked guest is one whose requests pass a proxy.
type ranked struct {
	*guest
	proxy *zktest.Proxy
}

// ranked are two guests inside, the lowest first: it goes last.
func (f *fixture) ranked() (lowest, last ranked) {
	f.Helper()
	c, proxy := f.proxied()
	other, otherProxy := f.proxied()
	first, second := f.two(c, other)
	lowest, last = ranked{first, proxy}, ranked{second, otherProxy}
	name := slices.DeleteFunc(f.Children(meeting), func(name string) bool { return name == path.Base(ready) })[0]
	_, stat := f.Get(meeting + "/" + name)
	if id, _ := other.Session(); id == stat.EphemeralOwner {
		lowest, last = last, lowest
	}
	return lowest, last
}

func TestStragglerOfOneRoundDoesNotCloseTheNext(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{"empty directory": "", "directory with data": "noon, in the hall"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			f.Create(meeting, []byte(data), 0)

			// given one that is about to close the barrier behind its round
			late := f.straggle()

			// when the next round has begun
			mine, theirs := f.two(f.client(), f.client())
			late.goOn()
			late.Granted()

			// then that one stays open, until its last has left
			require.True(t, f.Exists(ready), "who has not seen it would wait for ever")
			leaving := mine.leave()
			theirs.leaves()
			leaving.Granted()
			f.Gone(ready)
			now, _ := f.Get(meeting)
			require.Equal(t, data, string(now))
		})
	}
}

func TestStragglerClosesABarrierThatWasLeftOpen(t *testing.T) {
	t.Parallel()
	f := share(t)
	f.Create(meeting, nil, 0) // one that no server removes meanwhile because it is empty
	late := f.straggle()
	f.Create(ready, nil, 0) // as if the last had died

	late.goOn()

	late.Granted()
	f.Gone(ready)
}

func TestDoubleBarrierWorksInADirectoryThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	f := share(t)
	f.Create(meeting, nil, 0)
	f.permit(meeting, zk.PermAll&^zk.PermWrite)

	mine, theirs := f.two(f.client(), f.client())
	leaving := mine.leave()
	theirs.leaves()
	leaving.Granted()

	f.NoEphemerals()
	f.Gone(ready)
}
