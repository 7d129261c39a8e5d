package classic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTermEndsBeforeTheServerCanMakeAnotherTheLeader(t *testing.T) {
	t.Parallel()
	for _, policy := range []recipes.ElectionPolicy{recipes.PolicySession, recipes.PolicyStrict} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			network := netfault.New(t, h.server.Addr())
			as := func(o *recipes.ElectionOptions) { o.Policy = policy }
			mine := h.client(behind(network), timeout(2*time.Second))
			leader := h.run(mine, "first", as)
			term := leader.leads()
			follower := h.run(h.client(), "second", as)
			h.crowdOf(h.shell(), office, 2)

			// when the leader's network swallows everything
			require.NoError(t, network.Blackhole())

			// then it is told before the other leads
			require.Equal(t, recipes.LossSession, lossOf(t, isOver(t, term)).Reason)
			told := time.Now()
			follower.follows()
			next := follower.leads()
			t.Logf("told %s before the other leads", time.Since(told))
			require.Greater(t, next.Token(), term.Token())
			require.NoError(t, network.Pass())
		})
	}
}

func TestTermThatEndedAtTheDeadlineIsNotLedOnWithItsNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	network := netfault.New(t, h.server.Addr())
	leader := h.run(h.client(behind(network), timeout(4*time.Second)), "first")
	term := leader.leads()

	// given a term that is lost before the server can end the session
	require.NoError(t, network.Blackhole())
	require.Equal(t, recipes.LossSession, lossOf(t, isOver(t, term)).Reason)

	// when the connection comes back, in time or not
	require.NoError(t, network.Pass())

	// then the next term has another node
	again := leader.leads()
	require.Greater(t, again.Token(), term.Token())
	require.NoError(t, again.Check())
	h.crowdOf(h.shell(), office, 1)
}

func TestLeaderWhoseNodeIsDeletedIsToldAndStandsAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	leader := h.run(h.client(), "first")
	term := leader.leads()
	require.NoError(t, conn.Delete(h.at(office+"/"+h.crowdOf(conn, office, 1)[0]), -1))

	require.Equal(t, recipes.LossDeleted, lossOf(t, isOver(t, term)).Reason)
	require.Equal(t, recipes.LossDeleted, lossOf(t, term.Resign(t.Context())).Reason)
	require.Greater(t, leader.leads().Token(), term.Token())
}

func TestFollowerWhoseNodeIsDeletedStandsAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	leader := h.run(h.client(), "first")
	leader.leads()
	waiting := h.client()
	follower := h.run(waiting, "second")
	names := h.crowdOf(conn, office, 2)
	h.becomesWatched(office+"/"+names[0], 2)
	var busy *recipes.BusyError
	require.ErrorAs(t, waiting.Close(t.Context()), &busy)
	require.Equal(t, []string{office}, busy.Requested)

	require.NoError(t, conn.Delete(h.at(office+"/"+names[1]), -1))
	leader.stop()

	follower.leads()
	h.crowdOf(conn, office, 1)
}

func TestRunEndsWithTheErrorOfItsWork(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	leader := h.run(h.client(), "first")
	term := leader.leads()
	broken := errors.New("the office is on fire")
	leader.fail <- broken

	require.ErrorIs(t, leader.ended(), broken)
	require.ErrorIs(t, isOver(t, term), recipes.ErrResigned)
	require.Empty(t, h.ephemerals())
}

func TestWorkThatPanicsLeavesNoLeader(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	e, err := h.client().Election(office, "first", recipes.ElectionOptions{})
	require.NoError(t, err)
	require.Panics(t, func() {
		_ = e.Run(t.Context(), func(context.Context, *recipes.Term) error { panic("oops") })
	})
	h.nobodyThere()
}

func TestLeadershipIsGivenUpOnlyWhenTheWorkHasReturned(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	e, err := h.client().Election(office, "first", recipes.ElectionOptions{})
	require.NoError(t, err)
	began, finish := make(chan struct{}), make(chan struct{})
	leader := h.begin(func(ctx context.Context) error {
		return e.Run(ctx, func(ctx context.Context, _ *recipes.Term) error {
			close(began)
			<-ctx.Done()
			<-finish
			return nil
		})
	})
	let := sync.OnceFunc(func() { close(finish) })
	t.Cleanup(let)
	<-began
	follower := h.run(h.client(), "second")
	names := h.crowdOf(h.shell(), office, 2)
	h.becomesWatched(office+"/"+names[0], 2)

	leader.cancel()
	require.Never(t, func() bool { return len(h.ephemerals()) < 2 }, 150*time.Millisecond, 10*time.Millisecond)
	leader.goesOn()
	follower.follows()

	let()
	follower.leads()
	require.ErrorIs(t, leader.ended(), context.Canceled)
}

func TestTermOfACampaignLastsUntilItIsResigned(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	mine := h.client()
	e, err := mine.Election(office, "first", recipes.ElectionOptions{Policy: recipes.PolicyStrict})
	require.NoError(t, err)

	// given a term whose campaign's context has ended
	ctx, cancel := context.WithCancel(t.Context())
	term, err := e.Campaign(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, term.Check())
	require.NoError(t, term.Context().Err())
	require.Greater(t, time.Until(term.Deadline()), time.Second)
	var busy *recipes.BusyError
	require.ErrorAs(t, mine.Close(t.Context()), &busy)
	require.Equal(t, []string{office}, busy.Held)

	// when it is resigned, twice
	require.NoError(t, term.Resign(t.Context()))
	require.ErrorIs(t, term.Resign(t.Context()), recipes.ErrResigned)

	// then it is over
	require.ErrorIs(t, isOver(t, term), recipes.ErrResigned)
	require.ErrorIs(t, term.Check(), recipes.ErrResigned)
	require.Empty(t, h.ephemerals())
}

func TestStrictTermOfACampaignThatIsLostLeavesNoNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	network := netfault.New(t, h.server.Addr())
	e, err := h.client(behind(network), timeout(30*time.Second)).Election(office, "first", recipes.ElectionOptions{Policy: recipes.PolicyStrict})
	require.NoError(t, err)
	term, err := e.Campaign(t.Context())
	require.NoError(t, err)

	require.NoError(t, network.Reset())

	require.Equal(t, recipes.LossSession, lossOf(t, isOver(t, term)).Reason)
	h.nobodyThere()
}

// The answer is lost at each step in turn.
func TestCandidateLeadsWhateverReplyIsLost(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	w := &wire{}
	mine := h.client(through(w), timeout(30*time.Second))
	require.NoError(t, mine.Ready(t.Context()))
	e, err := mine.Election(office, "first", recipes.ElectionOptions{})
	require.NoError(t, err)
	steps := 0
	for lost := true; lost; steps++ {
		w.behind(opAny, steps, w.cut)
		term, err := e.Campaign(t.Context())
		require.NoError(t, err, "answer %d was lost", steps)
		require.Len(t, h.ephemerals(), 1)
		require.NoError(t, term.Check())
		require.NoError(t, term.Resign(t.Context()), "answer %d was lost", steps)
		lost = w.unset()
		require.Empty(t, h.ephemerals())
		require.NoError(t, mine.Ready(t.Context()))
	}
	t.Logf("lost each of %d answers", steps-1)
}

// Whatever happens to their connections, there is one leader at a time.
func TestCandidatesOnBreakingConnectionsLeadOneAtATime(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var office room
	var mu sync.Mutex
	var tokens []recipes.Token
	var crowd sync.WaitGroup
	const candidates, terms = 4, 5
	var networks []*netfault.Proxy
	for i := range candidates {
		network := netfault.New(t, h.server.Addr())
		networks = append(networks, network)
		c := h.client(behind(network), timeout(30*time.Second))
		e, err := c.Election("/app/crowd", fmt.Sprint(i), recipes.ElectionOptions{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		led := 0
		crowd.Go(func() {
			defer cancel()
			_ = e.Run(ctx, func(ctx context.Context, term *recipes.Term) error {
				office.enter(e.ID())
				defer office.leave(e.ID())
				mu.Lock()
				tokens = append(tokens, term.Token())
				mu.Unlock()
				if led++; led == terms {
					cancel()
				}
				return nil
			})
		})
	}
	done := make(chan struct{})
	var saboteur sync.WaitGroup
	saboteur.Go(func() {
		last, vain := 0, 0 // breaks since anybody was elected: a slow machine needs more time between them
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(3*time.Millisecond + time.Duration(vain)*time.Millisecond/4):
				_ = networks[i%candidates].Reset()
			}
			mu.Lock()
			elected := len(tokens)
			mu.Unlock()
			if vain++; elected != last {
				last, vain = elected, 0
			}
		}
	})
	crowd.Wait()
	close(done)
	saboteur.Wait()
	office.wasOrderly(t, candidates*terms)
	for i := range tokens[1:] {
		require.Greater(t, tokens[i+1], tokens[i])
	}
	h.nobodyThere()
}

// The node is deleted right after the candidate has seen that it is there.
func TestLeaderWhoseNodeIsDeletedAsItIsElectedIsToldOfBoth(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	h.make(conn, office, nil, 0)
	proxy := zktest.RunProxyT(t, h.server.Addr())
	mine := h.client(by(proxy))
	require.NoError(t, mine.Ready(t.Context()))
	for range 50 {
		looked := proxy.On(zktest.Op(zktest.GetData).Path(h.at(office) + "/*").Nth(1)).HoldReply()
		leader := h.run(mine, "first")
		<-looked.Reached()
		require.NoError(t, conn.Delete(h.at(office+"/"+h.crowdOf(conn, office, 1)[0]), -1))
		looked.Release()

		term := leader.leads()
		require.Equal(t, recipes.LossDeleted, lossOf(t, isOver(t, term)).Reason)
		leader.leads()
		leader.stop()
		require.Equal(t, []string{"elected", "dismissed", "elected"}, leader.told())
		h.nobodyThere()
	}
}
