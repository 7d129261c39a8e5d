package classic

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const office = "/app/office"

func (f *fixture) election(c *lock.Client, id string, o classic.ElectionOptions) *classic.Election {
	f.Helper()
	e, err := classic.NewElection(c.Client, office, id, o)
	require.NoError(f, err)
	return e
}

// A runner takes part in an election until it is stopped.
type runner struct {
	*harness.Running
	*harness.Notices[classic.ElectionNotice]
	f      *fixture
	id     string
	terms  chan *classic.Term
	resign chan error // a value is what lead returns
}

// stand takes part in the background.
func (f *fixture) stand(c *lock.Client, id string, o ...classic.ElectionOptions) *runner {
	f.Helper()
	r := &runner{
		Notices: harness.NewNotices[classic.ElectionNotice](f.History, id), f: f, id: id,
		terms: make(chan *classic.Term, 100), resign: make(chan error),
	}
	options := append(o, classic.ElectionOptions{})[0]
	options.Notify = r.Add
	e := f.election(c, id, options)
	r.Running = f.run(func(ctx context.Context) error { return e.Run(ctx, r.lead) })
	return r
}

func (r *runner) lead(ctx context.Context, t *classic.Term) error {
	r.terms <- t
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.resign:
		return err
	}
}

// told lists what the runner was notified of, by kind.
func (r *runner) told() (kinds []string) {
	for _, x := range r.List() {
		switch x.(type) {
		case classic.Elected:
			kinds = append(kinds, "elected")
		case classic.Dismissed:
			kinds = append(kinds, "dismissed")
		}
	}
	return kinds
}

// leads waits for the runner's next term.
func (r *runner) leads() *classic.Term {
	r.f.Helper()
	return harness.Receive(r.f, r.terms, "%s does not lead", r.id)
}

// follows fails the test if the runner has begun another term.
func (r *runner) follows() {
	r.f.Helper()
	require.Empty(r.f, r.terms, "%s leads", r.id)
}

// stop ends the runner.
func (r *runner) stop() {
	r.f.Helper()
	r.Cancel()
	require.ErrorIs(r.f, r.Err(), context.Canceled)
}

// isOver waits for the end of a term and returns why.
func isOver(t testing.TB, term *classic.Term) error {
	t.Helper()
	harness.Receive(t, term.Done(), "the term goes on")
	return context.Cause(term.Context())
}

// follower is another that stands behind the leader.
func (f *fixture) follower(o ...classic.ElectionOptions) *runner {
	f.Helper()
	r := f.stand(f.client(), "second", o...)
	f.Watched(office+"/"+f.Filled(office, 2)[0], 2)
	return r
}

var strict = classic.ElectionOptions{Policy: classic.PolicyStrict}

// Curator E2
func TestFollowerThatStandsAgainWhileTheLeadersNodeIsDeletedLeads(t *testing.T) {
	t.Parallel()
	f := share(t)
	mine := f.client()

	// given a leader of one term, and a follower that waits for its node
	term, err := f.election(f.client(), "first", classic.ElectionOptions{}).Campaign(t.Context())
	require.NoError(t, err)
	first := f.Filled(office, 1)[0]
	second := f.stand(mine, "second")
	f.Filled(office, 2)

	// when the follower has to stand again, and the leader's node is deleted meanwhile
	f.Expire(mine)
	f.Delete(office + "/" + first)

	// then it leads, and there is no other node
	leads := second.leads()
	require.Greater(t, leads.Token(), term.Token())
	f.Filled(office, 1)
	require.NoError(t, leads.Check())

	// and the deleted leader was told
	require.Equal(t, lock.LossDeleted, lossOf(t, isOver(t, term)).Reason)
}

// Curator E3
func TestLeaderWhoseSessionExpiresIsNotifiedAndDoesNotLeadWithItsDeadNode(t *testing.T) {
	t.Parallel()
	f := share(t)
	mine := f.client()

	// given a leader and a follower
	first := f.stand(mine, "first")
	term := first.leads()
	dead := f.Filled(office, 1)[0]
	second := f.follower()

	// when the leader's session expires
	session := f.Expire(mine)

	// then it learns of its loss, and the follower leads
	require.Equal(t, lock.LossSession, lossOf(t, isOver(t, term)).Reason)
	require.Error(t, term.Check())
	require.Greater(t, second.leads().Token(), term.Token())

	// and the first stands behind it, with a new node of a new session
	names := f.Filled(office, 2)
	require.NotContains(t, names, dead)
	_, stat := f.Get(office + "/" + names[1])
	require.NotEqual(t, session, stat.EphemeralOwner)
	first.follows()
	require.Equal(t, []string{"elected", "dismissed"}, first.told())
}

// Curator E6
func TestNeighbourOfAFollowerThatLeavesIsNotPromoted(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given five in line
	c := f.client()
	var line []*runner
	for i := range 5 {
		line = append(line, f.stand(c, fmt.Sprint(i)))
		f.Filled(office, i+1)
	}
	line[0].leads()

	// when one in the middle leaves
	line[2].stop()
	f.Watched(office+"/"+f.Filled(office, 4)[1], 1) // by the neighbour

	// then only the first leads; its predecessors come first, then its neighbour
	for i, r := range line {
		if i == 2 {
			continue
		}
		for _, later := range line[i+1:] {
			later.follows()
		}
		if i > 0 {
			r.leads()
		}
		r.stop()
	}
	f.NoEphemerals()
}

// Curator E7
func TestLeadershipOutlivesAShortDisconnect(t *testing.T) {
	t.Parallel()
	f := share(t)
	mine, network := f.remote(timeout(30 * time.Second))
	leader := f.stand(mine, "first")
	term := leader.leads()
	follower := f.follower()

	// when the connection is lost and comes back
	require.NoError(t, network.Cut())
	harness.Eventually(t, func() bool { return network.Conns() == 0 }, "the connection goes on")
	require.NoError(t, network.Pass())
	harness.Eventually(t, func() bool { return network.Conns() == 1 }, "there is no new connection")
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
	f := share(t)
	mine, network := f.remote(timeout(30 * time.Second))
	leader := f.stand(mine, "first", strict)
	term := leader.leads()
	name := f.Filled(office, 1)[0]
	follower := f.follower(strict)

	// when the connection is lost
	require.NoError(t, network.Cut())

	// then the term is over at once
	loss := lossOf(t, isOver(t, term))
	require.Equal(t, lock.LossSession, loss.Reason)
	require.ErrorContains(t, loss, "strict")
	leader.follows()
	follower.follows()

	// when it comes back
	require.NoError(t, network.Pass())

	// then it leads again, in another term, with the same node
	again := leader.leads()
	require.NoError(t, again.Check())
	require.Equal(t, term.Token(), again.Token())
	require.Equal(t, name, f.Filled(office, 2)[0])
	require.Error(t, term.Check())
	follower.follows()
	require.Equal(t, []string{"elected", "dismissed", "elected"}, leader.told())
}

// Curator E10, E15
func TestCandidateTakesPartWhenAServerAppearsAndIsGoneIfStoppedWithoutOne(t *testing.T) {
	t.Parallel()
	f := alone(t)
	require.NoError(t, f.Server.Stop())
	mine := f.client()
	candidate := f.stand(mine, "first")
	candidate.IsPending()
	require.NoError(t, f.Server.Restart(t.Context()))
	candidate.leads()
	require.Len(t, f.Ephemerals(), 1)

	// when the server is down, and the leader is stopped
	require.NoError(t, f.Server.Stop())
	candidate.stop()

	// then its node goes when the server is back, in the same session
	session, _ := mine.Session()
	require.NoError(t, f.Server.Restart(t.Context()))
	f.NoEphemerals()
	require.NoError(t, mine.Ready(t.Context()))
	again, _ := mine.Session()
	require.Equal(t, session, again)
}

// Curator E11
func TestLeaderThatReturnsStandsAgainAndLeadsLater(t *testing.T) {
	t.Parallel()
	f := share(t)
	first := f.stand(f.client(), "first")
	before := first.leads()
	second := f.follower()

	// when the leader's work returns
	first.resign <- nil

	// then the other leads, and when that one returns, the first again
	between := second.leads()
	require.ErrorIs(t, isOver(t, before), classic.ErrResigned)
	first.follows()
	f.Filled(office, 2)
	second.resign <- nil
	after := first.leads()
	require.Greater(t, between.Token(), before.Token())
	require.Greater(t, after.Token(), between.Token())
	require.Empty(t, harness.All[classic.Dismissed](first.Notices))
}

// Curator E12
func TestCandidateThatNeverHadAServerCanBeStopped(t *testing.T) {
	t.Parallel()
	f := share(t)
	candidate := f.stand(harness.NewClient(t, lock.Config{Servers: []string{"127.0.0.1:1"}}), "first")
	candidate.IsPending()
	candidate.stop()
}

// Curator E13
func TestCandidatesAreListedInLineAndTheFirstLeads(t *testing.T) {
	t.Parallel()
	f := share(t)
	mine := f.client()
	onlooker := f.election(f.client(), "onlooker", classic.ElectionOptions{})
	leader := func() classic.Candidate {
		t.Helper()
		c, err := onlooker.Leader(t.Context())
		require.NoError(t, err)
		return c
	}

	// given an election without candidates
	require.Zero(t, leader())
	none, err := onlooker.Candidates(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)

	// when three stand, and somebody who does not belong there
	var line []*runner
	for i, id := range []string{"ann", "bob", "cid"} {
		line = append(line, f.stand(mine, id))
		f.Filled(office, i+1)
	}
	term := line[0].leads()
	f.Create(office+"/foreign", nil, 0)

	// then they are listed, and only the first leads
	all, err := onlooker.Candidates(t.Context())
	require.NoError(t, err)
	session, _ := mine.Session()
	var ids []string
	for i, c := range all {
		ids = append(ids, c.ID)
		require.Equal(t, i == 0, c.Leader)
		require.Equal(t, session, c.Session)
	}
	require.Equal(t, []string{"ann", "bob", "cid"}, ids)
	require.Equal(t, all[0], leader())
	require.Equal(t, term.Token(), leader().Token)

	// and another when that one has left
	line[0].stop()
	line[1].leads()
	require.Equal(t, "bob", leader().ID)
}

// Curator E14
func TestResignationIsReportedToThoseWhoWantToHearOfIt(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	tell := classic.ElectionOptions{TellResignation: true}

	silent := f.stand(c, "silent")
	silent.leads()
	silent.stop()
	require.Equal(t, []string{"elected"}, silent.told())

	notified := f.stand(c, "notified", tell)
	term := notified.leads()
	notified.stop()
	require.Equal(t, []classic.ElectionNotice{classic.Elected{Term: term}, classic.Dismissed{Term: term, Err: classic.ErrResigned}}, notified.List())

	f.stand(c, "leader").leads()
	follower := f.follower(tell)
	follower.stop()
	require.Empty(t, follower.told(), "it never led")
}

// Whether the policy is strict or not.
func TestTermEndsBeforeTheServerCanMakeAnotherTheLeader(t *testing.T) {
	t.Parallel()
	for _, o := range []classic.ElectionOptions{{}, strict} {
		t.Run(string(o.Policy), func(t *testing.T) {
			t.Parallel()
			f := share(t)
			mine, network := f.remote(lenient)
			leader := f.stand(mine, "first", o)
			term := leader.leads()
			follower := f.follower(o)

			// when the leader's network swallows everything
			require.NoError(t, network.Blackhole())

			// then it learns of its loss before the other leads
			require.Equal(t, lock.LossSession, lossOf(t, isOver(t, term)).Reason)
			require.Greater(t, follower.leads().Token(), term.Token())
			_, lost := harness.AwaitAt[classic.Dismissed](t, leader.Notices)
			_, leads := harness.AwaitAt[classic.Elected](t, follower.Notices)
			require.True(t, lost.Before(leads))
			require.NoError(t, network.Pass())
		})
	}
}

func TestTermThatEndedAtTheDeadlineIsNotLedOnWithItsNode(t *testing.T) {
	t.Parallel()
	f := share(t)
	mine, network := f.remote(lenient)
	leader := f.stand(mine, "first")
	term := leader.leads()

	// given a term that is lost before the server can end the session
	require.NoError(t, network.Blackhole())
	require.Equal(t, lock.LossSession, lossOf(t, isOver(t, term)).Reason)

	// when the connection comes back, in time or not
	require.NoError(t, network.Pass())

	// then the next term has another node
	again := leader.leads()
	require.Greater(t, again.Token(), term.Token())
	require.NoError(t, again.Check())
	f.Filled(office, 1)
}

// Also right after the candidate has seen that its node is there.
func TestLeaderWhoseNodeIsDeletedIsNotifiedAndStandsAgain(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"as it is elected", "later"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			f.Create(office, nil, 0)
			mine, proxy := f.proxied()
			looked := proxy.On(f.on(zktest.GetData, office+"/*").Nth(1)).HoldReply()
			leader := f.stand(mine, "first")
			reached(t, looked)
			if when == "later" {
				looked.Release()
				harness.Await[classic.Elected](t, leader.Notices)
			}
			f.Delete(office + "/" + f.Filled(office, 1)[0])
			looked.Release()

			term := leader.leads()
			require.Equal(t, lock.LossDeleted, lossOf(t, isOver(t, term)).Reason)
			require.Equal(t, lock.LossDeleted, lossOf(t, term.Resign(t.Context())).Reason)
			require.Greater(t, leader.leads().Token(), term.Token())
			leader.stop()
			require.Equal(t, []string{"elected", "dismissed", "elected"}, leader.told())
			f.NoEphemerals()
		})
	}
}

func TestFollowerWhoseNodeIsDeletedStandsAgain(t *testing.T) {
	t.Parallel()
	f := share(t)
	leader := f.stand(f.client(), "first")
	leader.leads()
	waiting := f.client()
	follower := f.stand(waiting, "second")
	names := f.Filled(office, 2)
	f.Watched(office+"/"+names[0], 2)
	var busy *lock.BusyError
	require.ErrorAs(t, waiting.Close(t.Context()), &busy)
	require.Equal(t, []string{office}, busy.Requested)

	f.Delete(office + "/" + names[1])
	leader.stop()

	follower.leads()
	f.Filled(office, 1)
}

func TestRunEndsWithTheErrorOfItsWorkOrItsPanic(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	leader := f.stand(c, "first")
	term := leader.leads()
	broken := errors.New("the office is on fire")
	leader.resign <- broken
	require.ErrorIs(t, leader.Err(), broken)
	require.ErrorIs(t, isOver(t, term), classic.ErrResigned)
	f.NoEphemerals()

	e := f.election(c, "second", classic.ElectionOptions{})
	require.Panics(t, func() {
		_ = e.Run(t.Context(), func(context.Context, *classic.Term) error { panic("oops") })
	})
	f.NoEphemerals()
}

func TestLeadershipIsGivenUpOnlyWhenTheWorkHasReturned(t *testing.T) {
	virtually(t, func(t *testing.T, w *virtual.World) {
		e, err := classic.NewElection(member(w, "first").Client, office, "first", classic.ElectionOptions{})
		require.NoError(t, err)
		finish := make(chan struct{})
		run := harness.Run(t, "the run", func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context, _ *classic.Term) error {
				<-ctx.Done()
				<-finish
				return nil
			})
		})
		w.Pass(time.Second)
		other, err := classic.NewElection(member(w, "second").Client, office, "second", classic.ElectionOptions{})
		require.NoError(t, err)
		campaign := harness.Begin(t, "the campaign", other.Campaign)

		run.Cancel()
		w.Pass(time.Hour)
		run.IsPending()
		campaign.IsPending()

		close(finish)
		require.NoError(t, campaign.Granted().Resign(t.Context()))
		require.ErrorIs(t, run.Err(), context.Canceled)
	})
}
