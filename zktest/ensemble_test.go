package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

const ms = time.Millisecond

// inEnsemble runs a test in virtual time, with an ensemble whose ticks are of
// two seconds. start is the instant at which it started.
func inEnsemble(t *testing.T, test func(t *testing.T, e *Ensemble, start time.Time), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		e := RunEnsembleT(t, append([]Option{Pipe()}, opts...)...)
		t.Cleanup(func() {
			if t.Failed() {
				for _, line := range e.History() {
					t.Log(line)
				}
			}
		})
		test(t, e, start)
	})
}

// until lets time pass up to an instant after the start.
func until(start time.Time, at time.Duration) {
	time.Sleep(time.Until(start.Add(at)))
	synctest.Wait()
}

// expires is when the leader ends a session, after the start.
func expires(t *testing.T, e *Ensemble, start time.Time, c *client) time.Duration {
	t.Helper()
	s, ok := e.Session(c.session)
	require.True(t, ok)
	return s.Expires.Sub(start)
}

// ended is when a session was ended, after the start.
func ended(t *testing.T, e *Ensemble, start time.Time, c *client) time.Duration {
	t.Helper()
	s, ok := e.Session(c.session)
	require.True(t, ok)
	require.False(t, s.Ended.IsZero(), "the session lives")
	return s.Ended.Sub(start)
}

// moveTo comes back with the session at another member.
func (c *client) moveTo(m *Member) int64 { return c.reopen(m.server) }

func (c *client) sync() {
	c.t.Helper()
	code, _ := c.do(zkwire.OpSync, "/")
	require.Equal(c.t, zkwire.OK, code)
}

// silent tells that a request has no answer in a while.
func (c *client) silent(xid int32, d time.Duration) {
	c.t.Helper()
	require.NoError(c.t, c.nc.SetReadDeadline(time.Now().Add(d)))
	_, err := c.frame()
	require.Error(c.t, err, "the request %d is answered", xid)
	require.NoError(c.t, c.nc.SetReadDeadline(time.Time{}))
}

func sameTrees(t *testing.T, e *Ensemble) {
	t.Helper()
	synctest.Wait()
	for _, m := range e.Members() {
		require.Equal(t, e.Leader().Tree("/"), m.Tree("/"), "nodes of %s", m.Name())
		require.Equal(t, e.Leader().Zxid(), m.Zxid(), m.Name())
	}
}

func TestRequestThroughAFollowerCountsOnlyWithItsNextPing(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		// given a client of a follower that was heard of with the ping after 4s
		f := e.Followers()[0]
		c := dial(t, f.server)
		until(start, 3500*ms)
		c.sync()
		require.Equal(t, 12*time.Second, expires(t, e, start, c), "from its creation, and the ping after 1s")
		until(start, 4500*ms)
		s, _ := e.Session(c.session)
		require.Equal(t, 4*time.Second, s.Touched.Sub(start))
		require.Equal(t, 16*time.Second, expires(t, e, start, c))

		// when the follower answers and dies before the next ping
		until(start, 6500*ms)
		c.sync()
		f.Kill()

		// then the session ends as if it had not
		until(start, 16*time.Second-1)
		require.Equal(t, 16*time.Second, expires(t, e, start, c))
		s, _ = e.Session(c.session)
		require.Zero(t, s.Ended)
		until(start, 17*time.Second)
		require.Equal(t, 16*time.Second, ended(t, e, start, c))
	})
}

func TestPingReplyTakesTheDelayOfTheLinkTwice(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		c := dial(t, e.Followers()[0].server)
		until(start, 3500*ms)
		asked := time.Now()
		c.sync()
		require.Equal(t, 200*ms, time.Since(asked))
		until(start, 10*time.Second)
		s, _ := e.Session(c.session)
		require.Equal(t, 4200*ms, s.Touched.Sub(start))
	}, LinkDelay(100*ms))
}

func TestRequestAtTheLeaderCountsAtOnce(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		c := dial(t, e.Leader().server)
		require.Equal(t, 12*time.Second, expires(t, e, start, c))
		until(start, 4900*ms)
		c.do(zkwire.OpPing)
		s, _ := e.Session(c.session)
		require.Equal(t, 4900*ms, s.Touched.Sub(start))
		require.Equal(t, 16*time.Second, expires(t, e, start, c))
		c.isCut()
		require.Equal(t, 16*time.Second, time.Since(start))
		require.Equal(t, 16*time.Second, ended(t, e, start, c))
	})
}

func TestReconnectAtAnotherFollowerCountsAtOnce(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		first, second := e.Followers()[0], e.Followers()[1]
		c := dial(t, first.server)
		until(start, 4900*ms)
		require.NotZero(t, c.moveTo(second))
		second.Kill()
		s, _ := e.Session(c.session)
		require.Equal(t, 4900*ms, s.Touched.Sub(start))
		until(start, 20*time.Second)
		require.Equal(t, 16*time.Second, ended(t, e, start, c))
	}, Members(5))
}

func TestClockPhaseOfTheLeaderSaysWhatItRoundsTo(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		c := dial(t, e.Leader().server)
		until(start, 4900*ms)
		c.sync()
		require.Equal(t, 15*time.Second, expires(t, e, start, c))
	}, ClockPhases(time.Second))
}

func TestDriftOfTheLeaderShortensTimeouts(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		c := dial(t, e.Leader().server)
		until(start, 4000*ms)
		c.sync()
		require.Equal(t, 14*time.Second, expires(t, e, start, c))
	}, TimeoutDrift(0.01))
}

func TestNewLeaderGivesEachSessionItsWholeTimeout(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		// given a session that was heard of 8s ago, at a follower
		c := dial(t, e.Followers()[0].server)
		old := e.Leader()
		until(start, 9*time.Second)
		require.Equal(t, 12*time.Second, expires(t, e, start, c))

		// when the leader dies
		old.Kill()
		until(start, 10*time.Second)

		// then the next one leads after the election, and counts from there
		require.NotNil(t, e.Leader())
		require.NotEqual(t, old, e.Leader())
		s, _ := e.Session(c.session)
		require.Equal(t, 9500*ms, s.Touched.Sub(start))
		until(start, 30*time.Second)
		require.Equal(t, 20*time.Second, ended(t, e, start, c))
	}, ElectionTime(500*ms))
}

func TestDeposedLeaderAnswersSyncsButNoWritesUntilItFindsOut(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		// given an old leader and a follower that are cut off, and clients of both
		old, follower := e.Leader(), e.Followers()[0]
		atLeader, atFollower := dial(t, old.server), dial(t, follower.server)
		writer := dial(t, follower.server)
		until(start, 4500*ms)
		e.Split(old, follower)
		for _, m := range e.Followers()[1:] {
			m.LeaveLeader()
		}

		// when the others have elected another
		until(start, 5*time.Second)
		require.NotEqual(t, old, e.Leader())
		require.True(t, old.IsLeader())

		// then it answers syncs and reads of its side
		atLeader.sync()
		atFollower.sync()
		require.Equal(t, zkwire.NoNode, atLeader.exists("/x", false))

		// and no write, nor a sync of a follower behind one
		until(start, 11*time.Second)
		atLeader.sync()
		writer.silent(writer.ask(zkwire.OpCreate, "/x", []byte{}, tree.OpenACL, 0), time.Second)
		atFollower.silent(atFollower.ask(zkwire.OpSync, "/"), time.Second-1)
		atLeader.sync()

		// and it steps down at its quorum check: the others were silent for 5 ticks, since 4s
		until(start, 14*time.Second-1)
		require.True(t, old.IsLeader())
		require.True(t, follower.Serves())
		until(start, 14*time.Second)
		require.False(t, old.IsLeader())
		require.False(t, follower.Serves())
		atLeader.isCut()
		atFollower.isCut()

		// and when the network is back all have the same nodes, without that write
		e.Heal()
		until(start, 15*time.Second)
		require.True(t, old.Serves())
		require.NotZero(t, atLeader.moveTo(old), "a new leader gave it its whole timeout")
		require.Equal(t, zkwire.NoNode, atLeader.exists("/x", false))
		sameTrees(t, e)
	}, Members(5))
}

func TestDeposedLeaderSaysSoToItsOwnClientOfASessionThatIsOver(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		c := dial(t, e.Leader().server)
		until(start, 2500*ms)
		e.Split(e.Leader())
		until(start, 12*time.Second)
		code, _ := c.do(zkwire.OpSync, "/")
		require.Equal(t, zkwire.SessionExpired, code)
		s, _ := e.Session(c.session)
		require.Zero(t, s.Ended, "no majority has heard of it")
	}, SyncLimit(10))
}

func TestFollowerThatIsStoppedAnswersWhenItGoesOn(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		// given a follower that is stopped for less than the sync limit
		f := e.Followers()[0]
		c := dial(t, f.server)
		until(start, 3500*ms)
		c.sync()
		until(start, 3600*ms)
		f.Stop()
		ping := c.ask(zkwire.OpPing)
		xid := c.ask(zkwire.OpSync, "/")
		c.silent(xid, 4*time.Second)

		// then the leader hears of the session when it goes on
		require.Equal(t, 12*time.Second, expires(t, e, start, c))
		until(start, 8200*ms)
		f.Resume()
		c.answer(ping)
		h, _ := c.answer(xid)
		require.Equal(t, zkwire.OK, h.Code)
		s, _ := e.Session(c.session)
		require.Equal(t, 8200*ms, s.Touched.Sub(start))

		// and when it is stopped for longer, it has lost its leader
		until(start, 8600*ms)
		c.do(zkwire.OpPing)
		f.Stop()
		until(start, 40*time.Second)
		require.Equal(t, 20*time.Second, ended(t, e, start, c))
		f.Resume()
		c.isCut()
		until(start, 41*time.Second)
		require.True(t, f.Serves())
		sameTrees(t, e)
	})
}

func TestLeaderThatIsStoppedAnswersItsClientBeforeItFindsOut(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		old := e.Leader()
		c, other := dial(t, old.server), dial(t, e.Followers()[0].server)
		until(start, 4500*ms)
		old.Stop()
		until(start, 15*time.Second)
		require.NotEqual(t, old, e.Leader())
		require.NotZero(t, other.moveTo(e.Leader()))
		other.create("/x", 0)

		xid := c.ask(zkwire.OpExists, "/x", false)
		synctest.Wait()
		old.Resume()
		h, _ := c.answer(xid)
		require.Equal(t, zkwire.NoNode, h.Code, "it knows nothing yet")
		c.isCut()
		until(start, 18*time.Second)
		require.NotZero(t, c.moveTo(old))
		require.Equal(t, zkwire.OK, c.exists("/x", false))
		sameTrees(t, e)
	})
}

func TestObserverReportsLikeAFollowerAndDoesNotVote(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		o := e.Observers()[0]
		c := dial(t, o.server)
		c.create("/x", 0)
		until(start, 4900*ms)
		c.sync()
		s, _ := e.Session(c.session)
		require.Equal(t, time.Second, s.Touched.Sub(start))
		until(start, 5*time.Second)
		s, _ = e.Session(c.session)
		require.Equal(t, 5*time.Second, s.Touched.Sub(start))
		sameTrees(t, e)

		// when only the leader and the observer are left, there is no majority
		for _, f := range e.Followers() {
			f.Kill()
		}
		until(start, 20*time.Second)
		require.Nil(t, e.Leader())
		require.False(t, o.Serves())
	}, Observers(1))
}

func TestSessionSurvivesTheDeathOfItsFollowerByReconnecting(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		first, second := e.Followers()[0], e.Followers()[1]
		c := dial(t, first.server)
		path := c.create("/mine", 1)
		until(start, 3*time.Second)
		first.Kill()
		c.isCut()
		require.Equal(t, c.session, c.moveTo(second))
		other := dial(t, e.Leader().server)
		require.Equal(t, zkwire.OK, other.exists(path, true))
		for at := 5 * time.Second; at < 30*time.Second; at += 3 * time.Second {
			until(start, at)
			c.sync()
			other.sync()
		}
		require.NoError(t, first.Start())
		until(start, 31*time.Second)
		require.True(t, first.Serves())
		require.NotZero(t, c.moveTo(first))
		require.Equal(t, zkwire.OK, c.exists(path, false))
		sameTrees(t, e)

		until(start, 38*time.Second)
		other.sync()
		require.Empty(t, other.events)
		until(start, 46*time.Second)
		require.Equal(t, []string{"NodeDeleted " + path}, other.heard())
	})
}

func TestWriteThatAMajorityHasLoggedOutlivesItsLeader(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		old := e.Leader()
		c := dial(t, old.server)
		c.ask(zkwire.OpCreate, "/x", []byte{}, tree.OpenACL, 0)
		time.Sleep(150 * ms) // logged by all, committed by none
		synctest.Wait()
		require.Empty(t, old.Tree("/x"))
		old.Kill()
		until(start, 2*time.Second)
		require.Len(t, e.Leader().Tree("/x"), 1)
		require.NoError(t, old.Start())
		until(start, 4*time.Second)
		sameTrees(t, e)
	}, LinkDelay(100*ms))
}

func TestWriteThatNoOtherHasLoggedIsLostWithItsLeader(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		old := e.Leader()
		c := dial(t, old.server)
		e.Split(old)
		c.silent(c.ask(zkwire.OpCreate, "/x", []byte{}, tree.OpenACL, 0), ms)
		until(start, 15*time.Second)
		require.NotEqual(t, old, e.Leader())
		e.Heal()
		until(start, 17*time.Second)
		require.True(t, old.Serves())
		require.Empty(t, old.Tree("/x"))
		sameTrees(t, e)

		// nor does it come back when it leads again
		e.Leader().Kill()
		until(start, 20*time.Second)
		require.Equal(t, old, e.Leader())
		require.Empty(t, old.Tree("/x"))
	})
}

func TestFollowerReadsThePastByTheDelayOfItsLink(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		slow := e.Followers()[0]
		writer, reader := dial(t, e.Leader().server), dial(t, slow.server)
		slow.SetDelay(time.Second)
		writer.create("/x", 0)
		require.Equal(t, zkwire.NoNode, reader.exists("/x", true))
		reader.sync()
		require.Equal(t, []string{"NodeCreated /x"}, reader.events)
		require.Equal(t, zkwire.OK, reader.exists("/x", false))
	})
}

func TestClientThatHasMovedIsRefusedWhereItWas(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		first, second := e.Followers()[0], e.Followers()[1]
		c := dial(t, first.server)
		was := *c
		c.open(second.server, "", second.Addr())
		require.Equal(t, was.session, c.greet())
		was.ask(zkwire.OpCreate, "/x", []byte{}, tree.OpenACL, 0)
		was.isCut()
		require.Equal(t, zkwire.NoNode, c.exists("/x", false))
	})
}

func TestClosedSessionIsGoneAtOnceEverywhere(t *testing.T) {
	inEnsemble(t, func(t *testing.T, e *Ensemble, start time.Time) {
		c := dial(t, e.Followers()[0].server)
		c.create("/mine", 1)
		code, _ := c.do(zkwire.OpCloseSession)
		require.Equal(t, zkwire.OK, code)
		c.isCut()
		sameTrees(t, e)
		require.Empty(t, e.Leader().Tree("/mine"))
		require.Zero(t, c.moveTo(e.Followers()[1]))
	})
}

func TestOptionsOfAnEnsembleAreRefusedByAServer(t *testing.T) {
	_, err := Start(Members(3))
	require.ErrorContains(t, err, "Members is for StartEnsemble")
	_, err = StartEnsemble(FrozenClock())
	require.ErrorContains(t, err, "FrozenClock")
	_, err = StartEnsemble(Members(0))
	require.ErrorContains(t, err, "0 members")
}

// Without a bubble the members listen on the network.
func TestEnsembleOnTheNetwork(t *testing.T) {
	e := RunEnsembleT(t, ElectionTime(ms))
	c := dial(t, e.Followers()[0].server)
	c.create("/x", 0)
	c.sync()
	old := e.Leader()
	old.Kill()
	require.Eventually(t, func() bool { l := e.Leader(); return l != nil && l != old }, time.Minute, ms)
	require.NoError(t, old.Start())
	require.Eventually(t, old.Serves, time.Minute, ms)
	require.NotZero(t, c.moveTo(old))
	require.Equal(t, zkwire.OK, c.exists("/x", false))
}
