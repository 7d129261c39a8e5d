package zkclient

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

func TestFrameHeadersAreSeenHoweverTheStreamIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		var want [][]byte
		var passed []byte // to the library
		frame := func(body []byte) {
			_ = binary.Write(&stream, binary.BigEndian, uint32(len(body)))
			stream.Write(body)
		}
		greeting := rapid.SliceOfN(rapid.Byte(), 36, 37).Draw(t, "greeting")
		greeting[4], greeting[7] = greeting[4]&0x7f, greeting[7]|1 // a timeout
		frame(greeting)
		want = append(want, greeting[:36])
		passed = bytes.Clone(stream.Bytes())
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			body := rapid.SliceOfN(rapid.Byte(), 16, 80).Draw(t, "body")
			begin := stream.Len()
			frame(body)
			want = append(want, body[:16])
			passed = append(passed, stream.Bytes()[begin:]...)
			clear(passed[begin+8 : begin+16]) // the zxid
		}

		var got [][]byte
		reader := frameReader{greeting: true}
		rest := bytes.Clone(stream.Bytes())
		all := rest
		for len(rest) > 0 {
			n := rapid.IntRange(1, min(len(rest), 50)).Draw(t, "cut")
			require.NoError(t, reader.feed(rest[:n], func(head []byte, greeting bool) {
				require.Equal(t, len(got) == 0, greeting)
				got = append(got, bytes.Clone(head))
			}))
			rest = rest[n:]
		}
		require.Equal(t, want, got)
		require.Equal(t, passed, all)
	})
}

// again is a link that has connected to the next server after a reply with zxid 41, and its other end.
type again struct {
	*link
	t   *testing.T
	far net.Conn
}

func newAgain(t *testing.T, watches ...watchKey) again {
	t.Helper()
	before, far := connected(t)
	for _, key := range watches {
		before.s.watches.library[key] = make(libraryWatch)
	}
	first := again{before, t, far}
	first.answers(1, 41)
	first.receives()
	first.answers(zkwire.XidPing, 50) // which may be ahead of the events
	first.receives()
	first.answers(2, 0) // an error without a transaction
	first.receives()

	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	l := again{newLink(near, before.s), t, far}
	before.s.link = l.link
	greeting := zkwire.EndFrame(append(zkwire.BeginFrame(nil), make([]byte, 44)...), 0)
	require.EqualValues(t, 41, binary.BigEndian.Uint64(l.sends(greeting)[8:]), "no server that knows less")
	reply := zkwire.ConnectResponse{Timeout: 6000, Session: 1, Password: make([]byte, 16)}.Append(nil)
	go func() { _, _ = far.Write(reply) }()
	l.reads(make([]byte, len(reply)))
	return l
}

// answers has the server answer.
func (l again) answers(xid int32, zxid int64) {
	l.sent[xid] = sentRequest{op: zkwire.OpGetData}
	reply := answerTo(xid)
	binary.BigEndian.PutUint64(reply[8:], uint64(zxid))
	go func() { _, _ = l.far.Write(reply) }()
}

// receives has the library read the answer.
func (l again) receives() {
	l.t.Helper()
	reply := make([]byte, setReply)
	l.reads(reply)
	require.Zero(l.t, binary.BigEndian.Uint64(reply[8:]), "the library must learn no zxid")
}

func (l again) reads(b []byte) {
	l.t.Helper()
	for read := 0; read < len(b); {
		n, err := l.Read(b[read:])
		require.NoError(l.t, err)
		read += n
	}
}

// sends returns what comes of a request of the library's.
func (l again) sends(frame []byte) []byte {
	l.t.Helper()
	was := bytes.Clone(frame)
	go func() { _, _ = l.Write(frame) }()
	got := make([]byte, len(frame))
	_, err := io.ReadFull(l.far, got)
	require.NoError(l.t, err)
	require.Equal(l.t, was, frame, "the library's own bytes are left alone")
	return got
}

// setsWatches returns the zxid from which on the server tells of changes.
func (l again) setsWatches() int64 {
	l.t.Helper()
	frame := zkwire.Int32(zkwire.Int32(zkwire.BeginFrame(nil), 3), int32(zkwire.OpSetWatches))
	frame = zkwire.EndFrame(append(frame, make([]byte, 20)...), 0)
	return int64(binary.BigEndian.Uint64(l.sends(frame)[12:]))
}

// The first answer waits for the request that sets the watches again: a later zxid would hide from them what changed
// while there was no connection.
func TestWatchesAreSetAgainFromTheLastAnswerOfTheConnectionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAgain(t, watchKey{path: "/a"})
		begun := time.Now()
		l.answers(2, 60)
		read := make(chan struct{})
		go func() { defer close(read); l.receives() }()
		synctest.Wait()
		require.EqualValues(t, 41, l.setsWatches())
		<-read
		require.Equal(t, begun, time.Now())
		require.EqualValues(t, 60, l.s.zxid.Load())
		require.EqualValues(t, 60, l.setsWatches(), "the second of two")
	})
}

// A waiter takes a change of its node for its grant: the server must not tell of one that was known when the node was read.
func TestWatchesThatAreSetAgainLateAreNotToldWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAgain(t, watchKey{path: "/a"})
		l.answers(2, 60)
		begun := time.Now()
		l.receives() // after a second: the library comes to nothing
		require.Equal(t, time.Second, time.Since(begun))
		require.EqualValues(t, 60, l.setsWatches())
	})
}

func TestAConnectionThatBreaksBeforeTheWatchesAreSetAgainEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAgain(t, watchKey{path: "/a"})
		begun := time.Now()
		read := make(chan error)
		go func() {
			_, err := l.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.Error(t, <-read)
		require.Equal(t, begun, time.Now())
	})
}

// The request that closes the session is answered behind what waits.
func TestASessionThatEndsDoesNotWaitForItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAgain(t, watchKey{path: "/a"})
		begun := time.Now()
		l.answers(3, 60)
		close(l.s.over)
		l.receives()
		require.Equal(t, begun, time.Now())
	})
}

func TestAClientWithoutWatchesWaitsForNoneAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newAgain(t)
		begun := time.Now()
		l.answers(2, 60)
		l.receives()
		require.Equal(t, begun, time.Now())
	})
}

func TestCredentialsTravelAsOneFrame(t *testing.T) {
	b := appendAuth([]byte("greeting"), &Digest{User: "ana", Password: "s3cret"})
	frame := b[len("greeting"):]
	require.Equal(t, int(binary.BigEndian.Uint32(frame)), len(frame)-4)
	require.Equal(t, zkwire.XidAuth, int32(binary.BigEndian.Uint32(frame[4:])))
	require.Equal(t, uint32(zkwire.OpAuth), binary.BigEndian.Uint32(frame[8:]))
	require.True(t, bytes.HasSuffix(frame, []byte("ana:s3cret")))
}

func TestOnlyAnswersThatTookTheLeaderKeepTheSessionAlive(t *testing.T) {
	s := &Session{c: &Client{}, clock: newClock()}
	l := newLink(nil, s)
	answer := func(xid int32) {
		head := make([]byte, 16)
		binary.BigEndian.PutUint32(head, uint32(xid))
		l.header(head, false)
	}

	l.pings = []Instant{7}
	answer(zkwire.XidPing)
	l.sent[1] = sentRequest{at: 8, led: throughLeader(4)} // getData
	answer(1)
	require.Zero(t, s.lastAck, "a follower answers these without its leader")

	l.sent[2] = sentRequest{at: 9, led: throughLeader(zkwire.OpSync)}
	answer(2)
	require.Equal(t, Instant(9), s.lastAck)
	require.Empty(t, l.sent)
	require.Empty(t, l.pings)
}

// Another server has not seen what the one before was asked: its pings prove nothing of that.
func TestAnswersOfTheConnectionBeforeAreNoPartOfTheCount(t *testing.T) {
	s := &Session{c: &Client{}, clock: newClock(), timeout: sessionOf16}
	before, now := newLink(nil, s), newLink(nil, s)
	s.link = now
	at := Instant(time.Second)

	s.acked(before, leaderReply{sent: at, answered: at}, false)
	s.acked(now, leaderReply{sent: 6 * at, answered: 6 * at}, false)
	s.acked(now, leaderReply{sent: 7 * at, answered: 7 * at}, false)
	require.Zero(t, s.touches.touched)

	s.acked(now, leaderReply{sent: 11 * at, answered: 11 * at}, false)
	s.acked(now, leaderReply{sent: 12 * at, answered: 12 * at}, false)
	require.Equal(t, 7*at, s.touches.touched)
}

// Nothing can be held before the deadline lies ahead again. Without a new greeting requests would be
// granted and given back in a loop until three answers have made one.
func TestConnectionOverWhichTheDeadlineHasPassedIsGivenUpUnlessItIsNew(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration
		ready  bool
		closed bool
	}{
		"old":       {age: sessionOf16/8 + 1, ready: true, closed: true},
		"new":       {age: sessionOf16 / 8, ready: true},
		"not ready": {age: sessionOf16},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer func() { require.NoError(t, server.Close()) }()
			s := &Session{
				c: &Client{log: slog.New(slog.DiscardHandler)}, clock: newClock(), timeout: sessionOf16, watches: newWatchTable(), isReady: c.ready,
				ready: make(chan struct{}), cut: make(chan struct{}), over: make(chan struct{}),
			}
			l := newLink(client, s)
			s.link = l
			s.greetAgain(l, l.born.Add(c.age))
			require.Equal(t, c.closed, l.closed)
			require.Equal(t, c.ready && !c.closed, s.Usable())
		})
	}
}

func TestErrorsThatAreNoAnswersOfTheLeaderKeepNoSessionAlive(t *testing.T) {
	for code, leader := range map[int32]bool{
		0: true, -101: true, -102: false, -103: true, -110: true, -111: true,
		-112: false, -118: false, -127: false, -4: false, // expired, moved, throttled, connection loss
	} {
		s := &Session{c: &Client{}, clock: newClock()}
		l := newLink(nil, s)
		l.sent[1] = sentRequest{at: 9, op: zkwire.OpMulti, led: true}
		head := make([]byte, 16)
		binary.BigEndian.PutUint32(head, 1)
		binary.BigEndian.PutUint32(head[12:], uint32(code))
		l.header(head, false)
		require.Equal(t, leader, s.lastAck == 9, "code %d", code)
		require.Equal(t, leader, s.touches.quorate == 9, "code %d", code)
	}
}

func TestFailedWriteIsSeenByTheReaderAlone(t *testing.T) {
	client, server := net.Pipe()
	require.NoError(t, server.Close())
	s := &Session{c: &Client{}, clock: newClock()}
	l := newLink(client, s)
	l.greeted = true
	ping := []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}

	n, err := l.Write(ping)
	require.NoError(t, err, "the library would answer the request twice")
	require.Len(t, ping, n)
	require.Error(t, s.lastErr)
	_, err = l.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestAClosedConnectionIsNotLateAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		s := &Session{c: &Client{log: slog.New(slog.DiscardHandler)}, clock: newClock()}
		l := newLink(near, s)
		<-time.After(time.Minute)
		now := s.clock.now()
		require.Error(t, l.late(now, 10*time.Second, true))
		require.Error(t, l.late(now, 10*time.Second, false))
		require.NoError(t, l.Close())
		// Else it would hide why the next one cannot be opened.
		require.NoError(t, l.late(now, 10*time.Second, true))
		require.NoError(t, l.late(now, 10*time.Second, false))
	})
}

func TestAnswerAfterAnUnnoticedSuspendIsNotTakenForAnEarlierOne(t *testing.T) {
	s := &Session{c: &Client{}, clock: newClock(), timeout: sessionOf16}
	l := newLink(nil, s)
	s.link = l
	s.clock.before -= time.Minute // as if the machine had slept since
	l.received = s.clock.now()
	l.sent[1] = sentRequest{at: 9, op: zkwire.OpSync, led: true}
	head := make([]byte, 16)
	binary.BigEndian.PutUint32(head, 1)
	l.header(head, false)
	require.GreaterOrEqual(t, s.touches.answers[0].answered, Instant(time.Minute))
}

func TestTimeoutOfASessionDoesNotGrowAtAReconnect(t *testing.T) {
	s := &Session{c: &Client{cfg: Config{SessionTimeout: 10 * time.Second}}, clock: newClock(), timeout: 10 * time.Second}
	for _, granted := range []struct{ here, counts time.Duration }{
		{10 * time.Second, 10 * time.Second}, {20 * time.Second, 10 * time.Second}, {8 * time.Second, 8 * time.Second}, {10 * time.Second, 8 * time.Second},
	} {
		s.greeted(1, 7, granted.here, nil)
		require.Equal(t, granted.counts, s.timeout, "a new leader goes by that of the session's beginning")
	}
}
