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

// The library builds the request that sets its watches again while answers come in already. Those must not
// decide from where on the server looks for changes: one that came between would be taken for known.
func TestWatchesAreSetAgainFromTheLastAnswerOfTheConnectionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, far := connected(t)
		s := before.s
		receives := func(l *link, far net.Conn, xid int32, zxid int64) {
			l.sent[xid] = sentRequest{op: zkwire.OpGetData}
			reply := answerTo(xid)
			binary.BigEndian.PutUint64(reply[8:], uint64(zxid))
			go func() { _, _ = far.Write(reply) }()
			for read := 0; read < len(reply); {
				n, err := l.Read(reply[read:])
				require.NoError(t, err)
				read += n
			}
			require.Zero(t, binary.BigEndian.Uint64(reply[8:]), "the library must learn none")
		}
		sends := func(l *link, far net.Conn, frame []byte) []byte {
			go func() { _, _ = l.Write(frame) }()
			got := make([]byte, len(frame))
			_, err := io.ReadFull(far, got)
			require.NoError(t, err)
			return got
		}
		receives(before, far, 1, 41)
		receives(before, far, zkwire.XidPing, 50) // which may be ahead of the events

		near, far := net.Pipe()
		t.Cleanup(func() { _, _ = near.Close(), far.Close() })
		l := newLink(near, s)
		greeting := zkwire.EndFrame(append(zkwire.BeginFrame(nil), make([]byte, 44)...), 0)
		require.EqualValues(t, 41, binary.BigEndian.Uint64(sends(l, far, greeting)[8:]), "no server that knows less")
		l.welcome, l.frame.greeting = true, false

		receives(l, far, 2, 60)
		again := zkwire.Int32(zkwire.Int32(zkwire.BeginFrame(nil), 3), int32(zkwire.OpSetWatches))
		again = zkwire.EndFrame(append(again, make([]byte, 20)...), 0)
		require.EqualValues(t, 41, binary.BigEndian.Uint64(sends(l, far, again)[12:]))
		require.Zero(t, binary.BigEndian.Uint64(again[12:]), "the library's own bytes are left alone")
		require.EqualValues(t, 60, s.zxid.Load())
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
