package zkclient

import "time"

// touches works out since when the leader of the ensemble, which alone expires
// sessions, has certainly known of the client: the session's deadline counts from
// there. It is pure: it has no clock and no lock.
//
// An answer through the leader is no such moment. The server that the client is
// connected to may be a follower. A follower notes each request as a touch of
// the session, and reports it to the leader when it answers the leader's next
// ping: a ping comes every half tick, and the answer dies with the follower.
// What an answer proves follows from the order of the two streams between
// follower and leader. Take three requests r1, r2, r3 through the leader, each
// sent after the answer to the one before, r2 at least one ping interval after
// the answer to r1:
//
//   - The leader sent a ping between r2 and one ping interval before it. The
//     answer to r2 came behind that ping, so the follower has answered the ping
//     when r3 is sent. That answer reported r1, or an earlier one did.
//   - r3 reached the leader behind that answer to the ping. So when r3 is
//     answered, the leader knows of r1.
//
// A leader that lost its quorum does not know it at once, and goes on to answer a
// sync. Its successor gives each session its whole timeout from its own start. So an
// answer counts only as of the last moment at which the leader certainly had a quorum:
// a write shows that, and so does a transaction that was proposed after a sync.
//
// docs/protocol.md, "The session's deadline", has the argument for each kind of server.
type touches struct {
	answers []leaderReply // of the connection, oldest first, a grain apart

	touched Instant // the leader knows of a touch at this time or later
	quorate Instant // a leader had a quorum at this time or later
}

// A leaderReply is a request that was answered through the leader.
type leaderReply struct {
	sent, answered Instant
	zxid           int64 // of the last transaction that its server had applied
}

// Fractions of the session timeout.
const (
	// pingInterval bounds the time between two pings of the leader: half a tick, of
	// which a client knows only that a session timeout is two ticks at least.
	pingInterval = 4
	// beatInterval is the time between two heartbeats. A little more than a quarter of
	// pingInterval: the fourth heartbeat before another is more than a ping interval older.
	beatInterval = 15
	// quorumInterval is how old the proof of a quorum may be before a write follows a heartbeat.
	quorumInterval = 3
	// defaultMargin is Config.Margin, unless it is set.
	defaultMargin = 12
	// longestMargin bounds Config.Margin, so that an idle session whose heartbeats are
	// answered is never at risk.
	longestMargin = 2
	// answerGrain is how far apart the answers are that are remembered.
	answerGrain = 128
)

// begin starts the count for a session that does not exist yet.
func (t *touches) begin(now Instant) { t.touched, t.quorate = now, now }

// greeted notes that a server has accepted the session: the leader knows of it since
// then, of itself or because the server asked it. It counts as a heartbeat older, so that
// a process that stands still for a moment right after a greeting has more than the margin left, as at
// any other time. A new session took a transaction.
func (t *touches) greeted(asked Instant, created bool, timeout time.Duration) {
	t.answers = t.answers[:0]
	touched := asked.Add(-timeout / beatInterval)
	if created {
		t.touched, t.quorate = touched, asked
		return
	}
	t.touched = max(t.touched, touched)
}

// wrote notes the answer to a write: when it was sent, or later, it was committed.
func (t *touches) wrote(sent Instant) { t.quorate = max(t.quorate, sent) }

// tellsMore reports whether an answer is worth noting: the one before may say nearly as much.
func (t *touches) tellsMore(sent Instant, timeout time.Duration) bool {
	n := len(t.answers)
	return n == 0 || sent.Sub(t.answers[n-1].sent) >= timeout/answerGrain
}

// answered notes an answer through the leader. Answers come in the order of the requests.
func (t *touches) answered(r3 leaderReply, timeout time.Duration) {
	if !t.tellsMore(r3.sent, timeout) {
		return
	}
	i2 := t.before(len(t.answers), r3.sent)
	if i2 >= 0 {
		r2 := t.answers[i2]
		// A transaction that came after r2 was proposed after whatever was answered before r2.
		if i := t.before(i2, r2.sent); i >= 0 && r3.zxid > r2.zxid {
			t.quorate = max(t.quorate, t.answers[i].sent)
		}
		if i1 := t.before(i2, r2.sent.Add(-timeout/pingInterval)); i1 >= 0 {
			t.touched = max(t.touched, t.answers[i1].sent)
			t.answers = append(t.answers[:0], t.answers[i1:]...)
		}
	}
	t.answers = append(t.answers, r3)
}

// before returns which one, of the first n answers, is the last that had arrived at that time; -1: none.
func (t *touches) before(n int, at Instant) int {
	for n--; n >= 0 && t.answers[n].answered > at; n-- {
	}
	return n
}

// known is the last time at which the client certainly lived by the clock of any leader
// that may expire its session.
func (t *touches) known() Instant { return min(t.touched, t.quorate) }

// needsWrite reports whether the proof of a quorum is so old that a write should renew it.
func (t *touches) needsWrite(now Instant, timeout time.Duration) bool {
	return now.Sub(t.quorate) >= timeout/quorumInterval
}
