package zkclient

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sessionOf16 = 16 * time.Second // its ping interval is 4s at most, a grain 125ms

// replies notes answers that arrive at once, at these seconds.
func replies(t *touches, zxid int64, seconds ...float64) {
	for _, s := range seconds {
		at := Instant(s * float64(time.Second))
		t.answered(leaderReply{sent: at, answered: at, zxid: zxid}, sessionOf16)
	}
}

func TestTouchIsKnownOnceAPingCameBetweenTwoLaterAnswers(t *testing.T) {
	at := func(s int) Instant { return Instant(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name    string
		replies []float64
		want    Instant
	}{
		{"one answer proves nothing", []float64{10}, at(0)},
		{"a second one may come before the next ping", []float64{10, 11}, at(0)},
		{"one after a ping interval has not seen the follower's answer to the ping", []float64{10, 14}, at(0)},
		{"but the one after it has", []float64{10, 14, 14.2}, at(10)},
		{"less than a ping interval apart", []float64{10, 13.9, 20}, at(0)},
		{"the latest counts", []float64{10, 11, 12, 16, 17}, at(12)},
		{"answers long after each other count as well", []float64{10, 100, 200}, at(10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var touches touches
			replies(&touches, 1, c.replies...)
			require.Equal(t, c.want, touches.touched)
		})
	}
}

func TestReplyThatIsLateProvesNothingForWhatWasSentMeanwhile(t *testing.T) {
	s := Instant(time.Second)
	var touches touches
	touches.answered(leaderReply{sent: 0, answered: 3 * s}, sessionOf16)
	touches.answered(leaderReply{sent: 6 * s, answered: 6 * s}, sessionOf16) // 4s before it the first answer was not there
	touches.answered(leaderReply{sent: 7 * s, answered: 7 * s}, sessionOf16)
	require.Zero(t, touches.touched)
	touches.answered(leaderReply{sent: 8 * s, answered: 9 * s}, sessionOf16) // and so for the last one
	require.Zero(t, touches.touched, "r2 is the one at 7: it is 4s after the first answer, and that was sent at 0")
	touches.answered(leaderReply{sent: 11 * s, answered: 11 * s}, sessionOf16)
	touches.answered(leaderReply{sent: 12 * s, answered: 12 * s}, sessionOf16)
	require.Equal(t, 7*s, touches.touched)
}

func TestGreetingIsKnownAtTheLeaderAndBeginsTheCountAnew(t *testing.T) {
	s, beat := Instant(time.Second), Instant(sessionOf16/beatInterval)
	var touches touches
	touches.begin(s)
	touches.greeted(2*s, true, sessionOf16)
	require.Equal(t, 2*s-beat, touches.known())
	require.Equal(t, 2*s, touches.quorate)

	replies(&touches, 1, 3)
	touches.greeted(5*s, false, sessionOf16)
	require.Equal(t, 5*s-beat, touches.touched)
	require.Equal(t, 2*s, touches.quorate, "a leader without a quorum revalidates sessions, too")
	replies(&touches, 1, 9, 9.5)
	require.Equal(t, 5*s-beat, touches.touched, "what another server has answered is no part of it")
	touches.greeted(4*s, false, sessionOf16)
	require.Equal(t, 5*s-beat, touches.touched, "it never goes back")
}

func TestQuorumIsKnownByWritesAndByNewTransactions(t *testing.T) {
	s := Instant(time.Second)
	var touches touches
	replies(&touches, 7, 1, 2, 3, 4)
	require.Zero(t, touches.quorate, "a leader that leads no more answers a sync as well")
	third := Instant(sessionOf16 / quorumInterval)
	require.False(t, touches.needsWrite(third-1, sessionOf16))
	require.True(t, touches.needsWrite(third, sessionOf16))

	replies(&touches, 8, 5)
	require.Equal(t, 3*s, touches.quorate, "the transaction came after the answer of 4, so it was proposed after that of 3")
	touches.wrote(6 * s)
	require.Equal(t, 6*s, touches.quorate)
	touches.wrote(5 * s)
	require.Equal(t, 6*s, touches.quorate)
}

func TestAnswersOfABusyClientAreFewAndCostLittleTime(t *testing.T) {
	var touches touches
	for at := Instant(0); at < Instant(sessionOf16); at += Instant(time.Millisecond) {
		touches.answered(leaderReply{sent: at, answered: at}, sessionOf16)
	}
	require.Less(t, len(touches.answers), answerGrain/pingInterval+8)
	require.InDelta(t, (sessionOf16 * 3 / 4).Seconds(), touches.touched.Sub(0).Seconds(), 0.5)
}

// An idle session's heartbeats leave it half of its timeout, and more, at each moment.
func TestIdleSessionOutlivesASilenceOfHalfItsTimeout(t *testing.T) {
	var touches touches
	beat := Instant(sessionOf16 / beatInterval)
	trip := Instant(sessionOf16 / 1000)
	least := Instant(sessionOf16)
	for at := Instant(0); at < 3*Instant(sessionOf16); at += beat {
		if at > Instant(sessionOf16) {
			least = min(least, touches.touched.Add(sessionOf16-sessionOf16/defaultMargin)-at-trip)
		}
		touches.answered(leaderReply{sent: at, answered: at + trip}, sessionOf16)
	}
	require.Greater(t, least, Instant(sessionOf16/2))
	t.Logf("at least %.3f of the timeout", float64(least)/float64(sessionOf16))
}

// The claim itself, on links whose delays are as bad as can be: if the follower
// dies the moment an answer is there, with all that is on its way, the leader
// has seen a touch at known() or later.
func TestLeaderHasSeenWhatIsTakenForKnown(t *testing.T) {
	known, seeds := 0, papers()
	for seed := range seeds {
		e := newFollowerOnPaper(seed)
		for e.step() {
			if e.client.touched > e.leaderKnows {
				t.Fatalf("seed %d, at %s: %d is taken for known, the leader knows %d", seed, time.Duration(e.now), e.client.touched, e.leaderKnows)
			}
		}
		if e.client.touched > 0 {
			known++
		}
	}
	require.Greater(t, known, int(seeds)*6/10, "it would be true of a client that never knows anything")
}

// Where the leader pings later than every quarter of the timeout, it may lack what was noted within that time before what
// is taken for known, and one request more.
func TestLatePingCostsItsLatenessAndOneRequest(t *testing.T) {
	const late = Instant(20 * time.Millisecond)
	lacking := 0
	for seed := range papers() {
		e := newFollowerOnPaper(seed)
		e.late = late
		for e.step() {
			if e.client.touched > e.leaderKnows {
				lacking++
			}
			for _, noted := range slices.Backward(e.notes) {
				if noted <= e.client.touched-late {
					if noted > e.leaderKnows {
						t.Fatalf("seed %d, at %s: %d was noted, the leader knows %d", seed, time.Duration(e.now), noted, e.leaderKnows)
					}
					break
				}
			}
		}
	}
	require.Positive(t, lacking, "a late ping costs nothing")
}

// papers is how many seeds are tried.
func papers() uint64 {
	if testing.Short() {
		return 200
	}
	return 1000
}

// followerOnPaper is a leader, a follower and a client, and the links between them: each keeps its order.
type followerOnPaper struct {
	random *rand.Rand
	slow   bool    // links stand still now and then
	late   Instant // of a ping, at most
	now    Instant
	events []paperEvent
	busy   [4]Instant // arrival of the last message, by link

	noted, leaderKnows Instant // the last touch that the follower has in its table, that the leader was told of
	notes              []Instant
	client             touches
}

type paperEvent struct {
	at  Instant
	do  func()
	seq int
}

const (
	toFollower = iota // from the client
	toLeader
	fromLeader
	toClient
)

const paperTimeout = 400 * time.Millisecond // ping interval 100ms

func newFollowerOnPaper(seed uint64) *followerOnPaper {
	e := &followerOnPaper{random: rand.New(rand.NewPCG(seed, 1)), slow: seed%3 != 0}
	e.at(Instant(e.random.Int64N(int64(paperTimeout/pingInterval))), e.ping)
	e.at(1, e.request)
	return e
}

func (e *followerOnPaper) step() bool {
	next := slices.MinFunc(e.events, func(a, b paperEvent) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	e.events = slices.DeleteFunc(e.events, func(x paperEvent) bool { return x.seq == next.seq })
	e.now = next.at
	next.do()
	return e.now < Instant(8*paperTimeout)
}

func (e *followerOnPaper) at(at Instant, do func()) {
	e.events = append(e.events, paperEvent{at, do, int(e.random.Int64N(1 << 60))})
}

// send delivers a message, behind those that were sent before over the same link.
func (e *followerOnPaper) send(link int, do func()) {
	delay := Instant(e.random.Int64N(int64(2 * time.Millisecond)))
	if e.slow && e.random.IntN(10) == 0 {
		delay += Instant(e.random.Int64N(int64(paperTimeout / 2)))
	}
	e.busy[link] = max(e.now+delay, e.busy[link]+1)
	e.at(e.busy[link], do)
}

func (e *followerOnPaper) ping() {
	e.send(fromLeader, func() {
		told := e.noted
		e.send(toLeader, func() { e.leaderKnows = max(e.leaderKnows, told) })
	})
	e.at(e.now+Instant(paperTimeout/pingInterval)+Instant(e.random.Int64N(int64(e.late)+1)), e.ping)
}

func (e *followerOnPaper) request() {
	sent := e.now
	e.send(toFollower, func() {
		e.noted = e.now
		e.notes = append(e.notes, e.now)
		e.send(toLeader, func() {
			e.send(fromLeader, func() {
				e.send(toClient, func() {
					e.client.answered(leaderReply{sent: sent, answered: e.now}, paperTimeout)
				})
			})
		})
	})
	e.at(e.now+1+Instant(e.random.Int64N(int64(paperTimeout/8))), e.request)
}
