package classic

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const office = "/app/office"

// A runner takes part in an election until it is stopped.
type runner struct {
	*call
	h      *house
	id     string
	terms  chan *recipes.Term
	resign chan struct{} // a value makes lead return
	fail   chan error    // a value is what lead returns

	mu      sync.Mutex
	notices []recipes.ElectionNotice
}

// run takes part in the background.
func (h *house) run(c *recipes.Client, id string, change ...func(*recipes.ElectionOptions)) *runner {
	h.t.Helper()
	r := &runner{h: h, id: id, terms: make(chan *recipes.Term, 100), resign: make(chan struct{}), fail: make(chan error)}
	o := recipes.ElectionOptions{Notify: r.note}
	for _, f := range change {
		f(&o)
	}
	e, err := c.Election(office, id, o)
	require.NoError(h.t, err)
	r.call = h.begin(func(ctx context.Context) error { return e.Run(ctx, r.lead) })
	return r
}

func (r *runner) lead(ctx context.Context, t *recipes.Term) error {
	r.h.story.tell(r.id, "leads, token %s", t.Token())
	r.terms <- t
	select {
	case <-ctx.Done():
		r.h.story.tell(r.id, "leads no more: %v", context.Cause(ctx))
		return nil
	case <-r.resign:
		return nil
	case err := <-r.fail:
		return err
	}
}

func (r *runner) note(x recipes.ElectionNotice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notices = append(r.notices, x)
}

// told lists what the runner was told, by kind.
func (r *runner) told() (kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.notices {
		switch x.(type) {
		case recipes.Elected:
			kinds = append(kinds, "elected")
		case recipes.Dismissed:
			kinds = append(kinds, "dismissed")
		}
	}
	return kinds
}

// leads waits for the runner's next term.
func (r *runner) leads() *recipes.Term {
	r.t.Helper()
	select {
	case t := <-r.terms:
		return t
	case <-r.done:
		require.FailNow(r.t, r.id+"'s run has ended", "error: %v", r.err)
	case <-time.After(soon):
		require.FailNow(r.t, r.id+" does not lead")
	}
	return nil
}

// follows fails the test if the runner has begun another term.
func (r *runner) follows() {
	r.t.Helper()
	select {
	case <-r.terms:
		require.FailNow(r.t, r.id+" leads")
	default:
	}
}

// stop ends the runner.
func (r *runner) stop() {
	r.t.Helper()
	r.cancel()
	require.ErrorIs(r.t, r.ended(), context.Canceled)
}

// isOver waits for the end of a term and returns why.
func isOver(t testing.TB, term *recipes.Term) error {
	t.Helper()
	select {
	case <-term.Done():
	case <-time.After(soon):
		require.FailNow(t, "the term goes on")
	}
	return context.Cause(term.Context())
}

func lossOf(t testing.TB, err error) *recipes.LostError {
	t.Helper()
	var loss *recipes.LostError
	require.ErrorAs(t, err, &loss)
	return loss
}

func strict(o *recipes.ElectionOptions)          { o.Policy = recipes.PolicyStrict }
func tellResignation(o *recipes.ElectionOptions) { o.TellResignation = true }

func (h *house) candidates(c *recipes.Client) []recipes.Candidate {
	h.t.Helper()
	e, err := c.Election(office, "onlooker", recipes.ElectionOptions{})
	require.NoError(h.t, err)
	all, err := e.Candidates(h.t.Context())
	require.NoError(h.t, err)
	return all
}

// Curator E2
func TestFollowerThatStandsAgainWhileTheLeadersNodeIsDeletedLeads(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	mine := h.client()

	// given a leader of one term, and a follower that waits for its node
	e, err := h.client().Election(office, "first", recipes.ElectionOptions{})
	require.NoError(t, err)
	term, err := e.Campaign(t.Context())
	require.NoError(t, err)
	first := h.crowdOf(conn, office, 1)[0]
	second := h.run(mine, "second")
	h.crowdOf(conn, office, 2)

	// when the follower has to stand again, and the leader's node is deleted meanwhile
	h.expire(mine)
	require.NoError(t, conn.Delete(h.at(office+"/"+first), -1))

	// then it leads, and there is no other node
	leads := second.leads()
	require.Greater(t, leads.Token(), term.Token())
	require.Len(t, h.crowdOf(conn, office, 1), 1)
	require.NoError(t, leads.Check())

	// and the deleted leader was told
	require.Equal(t, recipes.LossDeleted, lossOf(t, isOver(t, term)).Reason)
}

// Curator E3
func TestLeaderWhoseSessionExpiresIsToldAndDoesNotLeadWithItsDeadNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	mine, other := h.client(), h.client()

	// given a leader and a follower
	first := h.run(mine, "first")
	term := first.leads()
	dead := h.crowdOf(conn, office, 1)[0]
	second := h.run(other, "second")
	h.crowdOf(conn, office, 2)

	// when the leader's session expires
	session := h.expire(mine)

	// then it is told, and the follower leads
	require.Equal(t, recipes.LossSession, lossOf(t, isOver(t, term)).Reason)
	require.Error(t, term.Check())
	next := second.leads()
	require.Greater(t, next.Token(), term.Token())

	// and the first stands behind it, with a new node of a new session
	names := h.crowdOf(conn, office, 2)
	require.NotContains(t, names, dead)
	all := h.candidates(other)
	require.Equal(t, []string{"second", "first"}, []string{all[0].ID, all[1].ID})
	require.NotEqual(t, session, all[1].Session)
	first.follows()
	require.Equal(t, []string{"elected", "dismissed"}, first.told())
}

// Curator E4: the second try comes with a new connection.
func TestCandidateThatReconnectsWhileItsNodeIsCreatedHasOneNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	h.make(conn, office, nil, 0)
	proxy := zktest.RunProxyT(t, h.server.Addr())
	mine := h.client(by(proxy))
	require.NoError(t, mine.Ready(t.Context()))
	session, _ := mine.Session()

	// given a candidate whose node is there, but it has not heard
	create := proxy.On(h.creates(office)).HoldReply()
	candidate := h.run(mine, "first")
	<-create.Reached()

	// when its connection is lost and it comes back
	require.True(t, proxy.Disconnect(session))
	create.Release()

	// then it leads with that node
	term := candidate.leads()
	name := h.crowdOf(conn, office, 1)[0]
	_, stat, err := conn.Get(h.at(office + "/" + name))
	require.NoError(t, err)
	require.EqualValues(t, stat.Czxid, term.Token())
	again, _ := mine.Session()
	require.Equal(t, session, again)
}

func by(p *zktest.Proxy) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.Servers = []string{p.Addr()} }
}

// creates matches the creation of a node in a directory.
func (h *house) creates(dir string) zktest.Match {
	return zktest.Op(zktest.Create).Path(h.at(dir) + "/*")
}

// Curator E5
func TestCandidateThatIsStoppedBeforeItsNodeIsMadeLeavesNone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	h.make(h.shell(), office, nil, 0)
	for _, when := range []string{"before it is executed", "before it is answered"} {
		t.Run(when, func(t *testing.T) {
			proxy := zktest.RunProxyT(t, h.server.Addr())
			mine := h.client(by(proxy))
			require.NoError(t, mine.Ready(t.Context()))

			// given a candidate whose create is under way
			fault := proxy.On(h.creates(office))
			create := fault.Hold()
			if when == "before it is answered" {
				create.Remove()
				create = proxy.On(h.creates(office)).HoldReply()
			}
			candidate := h.run(mine, "first")
			<-create.Reached()

			// when it is stopped
			candidate.stop()
			create.Release()

			// then no node is left
			require.NoError(t, mine.Ready(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			require.NoError(t, mine.Close(ctx)) // what is to be undone is undone by then
			require.Empty(t, h.ephemerals())
		})
	}
}

// Curator E6
func TestNeighbourOfAFollowerThatLeavesIsNotPromoted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()

	// given ten in line
	c := h.client()
	var line []*runner
	for i := range 10 {
		line = append(line, h.run(c, fmt.Sprint(i)))
		h.crowdOf(conn, office, i+1)
	}
	line[0].leads()

	// when one in the middle leaves
	line[5].stop()
	h.crowdOf(conn, office, 9)
	watching := h.crowdOf(conn, office, 9)[4]
	h.becomesWatched(office+"/"+watching, 1) // by the neighbour

	// then nobody but the first leads
	for _, r := range line[1:] {
		r.follows()
	}

	// and those before it come first, then its neighbour
	for i, r := range line {
		if i != 5 {
			if i > 0 {
				r.leads()
			}
			r.stop()
		}
	}
	h.nobodyThere()
}

// Curator E7
func TestLeadershipOutlivesAShortDisconnect(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	network := netfault.New(t, h.server.Addr())
	mine := h.client(behind(network), timeout(30*time.Second))
	leader := h.run(mine, "first")
	term := leader.leads()
	follower := h.run(h.client(), "second")
	h.crowdOf(h.shell(), office, 2)

	// when the connection is lost and comes back
	require.NoError(t, network.Cut())
	require.Eventually(t, func() bool { return network.Conns() == 0 }, soon, time.Millisecond)
	require.NoError(t, network.Pass())
	require.Eventually(t, func() bool { return network.Conns() == 1 }, soon, time.Millisecond)
	require.NoError(t, mine.Ready(t.Context()))
	_, err := mine.Lock(t.Context(), "anything") // a round trip, after which it would have been told
	require.NoError(t, err)

	// then it is the leader, and has not been told anything
	require.NoError(t, term.Check())
	require.Equal(t, []string{"elected"}, leader.told())
	follower.follows()
}

// Curator E8
func TestStrictLeaderLosesWithItsConnectionAndLeadsAgainWithTheSameNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	network := netfault.New(t, h.server.Addr())
	mine := h.client(behind(network), timeout(30*time.Second))
	leader := h.run(mine, "first", strict)
	term := leader.leads()
	conn := h.shell()
	name := h.crowdOf(conn, office, 1)[0]
	follower := h.run(h.client(), "second", strict)
	h.crowdOf(conn, office, 2)

	// when the connection is lost
	require.NoError(t, network.Cut())

	// then the term is over at once
	loss := lossOf(t, isOver(t, term))
	require.Equal(t, recipes.LossSession, loss.Reason)
	require.ErrorContains(t, loss, "strict")
	leader.follows()
	follower.follows()

	// when it comes back
	require.NoError(t, network.Pass())

	// then it leads again, in another term, with the same node
	again := leader.leads()
	require.NoError(t, again.Check())
	require.Equal(t, term.Token(), again.Token())
	require.Equal(t, name, h.crowdOf(conn, office, 2)[0])
	require.Error(t, term.Check())
	follower.follows()
	require.Equal(t, []string{"elected", "dismissed", "elected"}, leader.told())
}

// Curator E9
func TestCandidateOnAFlappingConnectionHasOneNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	conn := h.shell()
	proxy := zktest.RunProxyT(t, h.server.Addr())
	mine := h.client(by(proxy), timeout(30*time.Second))
	require.NoError(t, mine.Ready(t.Context()))

	// given a connection that breaks with each answer in turn, seven times
	for step := range 7 {
		proxy.On(zktest.Any().Where(func(r zktest.Request) bool { return r.Op != zktest.Ping && r.Op != zktest.Connect }).Nth(step + 1)).DropReply()
	}

	// when candidates come and go on it
	for range 3 {
		candidate := h.run(mine, "first")
		candidate.leads()

		// then each has one node
		require.Len(t, h.ephemerals(), 1)
		h.crowdOf(conn, office, 1)
		candidate.stop()
		h.nobodyThere()
	}
}

// Curator E10
func TestLeaderThatIsStoppedWhileTheServerIsDownIsGoneWhenItReturns(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	mine := h.client(timeout(40 * time.Second))
	leader := h.run(mine, "first")
	leader.leads()
	require.Len(t, h.ephemerals(), 1)

	// when the server is down, and the leader is stopped
	require.NoError(t, h.server.Stop())
	start := time.Now()
	leader.stop()
	require.Less(t, time.Since(start), 35*time.Second)

	// then its node goes as soon as the server is back, long before its session could expire
	require.NoError(t, h.server.Restart(t.Context()))
	require.NoError(t, mine.Ready(t.Context()))
	start = time.Now()
	h.nobodyThere()
	require.Less(t, time.Since(start), 35*time.Second)
}

// Curator E11
func TestLeaderThatReturnsStandsAgainAndLeadsLater(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	first := h.run(h.client(), "first")
	before := first.leads()
	second := h.run(h.client(), "second")
	h.crowdOf(h.shell(), office, 2)

	// when the leader's work returns
	first.resign <- struct{}{}

	// then the other leads, and when that one returns, the first again
	between := second.leads()
	require.ErrorIs(t, isOver(t, before), recipes.ErrResigned)
	first.follows()
	h.crowdOf(h.shell(), office, 2)
	second.resign <- struct{}{}
	after := first.leads()
	require.Greater(t, between.Token(), before.Token())
	require.Greater(t, after.Token(), between.Token())
	require.Empty(t, lossesOf(first))
}

func lossesOf(r *runner) (losses []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.notices {
		if d, ok := x.(recipes.Dismissed); ok {
			losses = append(losses, d.Err)
		}
	}
	return losses
}

// Curator E12
func TestCandidateThatNeverHadAServerCanBeStopped(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, err := recipes.NewClient(recipes.Config{Servers: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	candidate := h.run(c, "first")
	candidate.goesOn()
	candidate.stop()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, c.Close(ctx))
}

// Curator E13
func TestCandidatesAreListedInLineAndTheFirstLeads(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	mine, onlooker := h.client(), h.client()
	e, err := onlooker.Election(office, "onlooker", recipes.ElectionOptions{})
	require.NoError(t, err)

	// given nobody, who ever stood
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, recipes.Candidate{}, leader)
	require.Empty(t, h.candidates(onlooker))

	// when three stand, and somebody who does not belong there
	var line []*runner
	for i, id := range []string{"ann", "bob", "cid"} {
		line = append(line, h.run(mine, id))
		h.crowdOf(h.shell(), office, i+1)
	}
	term := line[0].leads()
	h.make(h.shell(), office+"/foreign", nil, 0)

	// then they are listed, and only the first leads
	session, _ := mine.Session()
	var ids []string
	for i, c := range h.candidates(onlooker) {
		ids = append(ids, c.ID)
		require.Equal(t, i == 0, c.Leader)
		require.Equal(t, session, c.Session)
	}
	require.Equal(t, []string{"ann", "bob", "cid"}, ids)
	leader, err = e.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ann", leader.ID)
	require.True(t, leader.Leader)
	require.Equal(t, term.Token(), leader.Token)

	// and another when that one has left
	line[0].stop()
	line[1].leads()
	leader, err = e.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "bob", leader.ID)
}

// Curator E14
func TestResignationIsToldToThoseWhoWantToHearOfIt(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()

	silent := h.run(c, "silent")
	silent.leads()
	silent.stop()
	require.Equal(t, []string{"elected"}, silent.told())

	notified := h.run(c, "notified", tellResignation)
	notified.leads()
	notified.stop()
	require.Equal(t, []string{"elected", "dismissed"}, notified.told())
	require.Equal(t, []error{recipes.ErrResigned}, lossesOf(notified))

	leader := h.run(c, "leader")
	leader.leads()
	follower := h.run(c, "follower", tellResignation)
	h.crowdOf(h.shell(), office, 2)
	follower.stop()
	require.Empty(t, follower.told(), "it never led")
}

// Curator E15
func TestCandidateTakesPartWhenAServerAppears(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	require.NoError(t, h.server.Stop())
	candidate := h.run(h.client(), "first")
	candidate.goesOn()

	require.NoError(t, h.server.Restart(t.Context()))

	candidate.leads()
	require.Len(t, h.ephemerals(), 1)
}
