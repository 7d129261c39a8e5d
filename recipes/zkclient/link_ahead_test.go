package zkclient

import (
	"encoding/binary"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// setReply is the length of a reply to a write of data: its own, and a stat.
const setReply = 4 + replyHeader + 68

func answerTo(xid int32) []byte {
	b := make([]byte, setReply)
	binary.BigEndian.PutUint32(b, setReply-4)
	binary.BigEndian.PutUint32(b[4:], uint32(xid))
	return b
}

// connected returns a link as it is after the greeting, and its other end.
func connected(t *testing.T) (*link, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	s := &Session{
		c: &Client{log: slog.New(slog.DiscardHandler), time: clusterTime{clock: newClock()}}, clock: newClock(), watches: newWatchTable(),
		ready: make(chan struct{}), cut: make(chan struct{}), over: make(chan struct{}), isReady: true, down: true,
	}
	l := newLink(near, s)
	l.greeted, l.welcome, l.frame.greeting = true, true, false
	s.link = l
	return l, far
}

// asks sends a request as a parcel.
func asks(t *testing.T, l *link, far net.Conn) *Parcel {
	t.Helper()
	sent := make(chan *Parcel)
	go func() { sent <- l.s.Post(zkwire.OpSetData, []any{&zk.SetDataRequest{Path: "/a"}}, false) }()
	_, err := far.Read(make([]byte, 1<<10))
	require.NoError(t, err)
	p := <-sent
	require.NotNil(t, p)
	return p
}

// The library reads one frame at a time. One that reads on gets replies to
// parcels, which it does not know: however much of them it reads, the
// connection ends, and their senders learn that their outcome is unknown.
func TestAReaderThatReadsOnEndsTheConnectionWhenItGetsAParcel(t *testing.T) {
	const theirs = 7
	for ahead := 1; ahead <= 2*setReply; ahead++ {
		synctest.Test(t, func(t *testing.T) {
			// given two parcels, of which the replies come behind that to a request of the library
			l, far := connected(t)
			l.sent[theirs] = sentRequest{op: zkwire.OpGetData}
			first, second := asks(t, l, far), asks(t, l, far)
			require.Len(t, l.sent, 3)
			stream := answerTo(theirs)
			for _, p := range []*Parcel{first, second} {
				for xid, request := range l.sent {
					if request.parcel == p {
						stream = append(stream, answerTo(xid)...)
					}
				}
			}
			go func() { _, _ = far.Write(stream) }()

			// when the library reads more than its own, and then the rest
			read, err := l.Read(make([]byte, setReply+ahead))
			if ahead < 4+replyHeader { // the first one cannot be recognized yet
				require.NoError(t, err)
				require.Equal(t, setReply+ahead, read)
				read, err = l.Read(make([]byte, len(stream)))
			}

			// then the connection is over, and both senders learn of that
			require.ErrorIs(t, err, errReadAhead)
			require.Zero(t, read)
			require.True(t, l.closed)
			require.False(t, l.s.Usable())
			synctest.Wait()
			for _, p := range []*Parcel{first, second} {
				require.True(t, p.isDone())
				require.ErrorIs(t, l.s.classify(p.err), ErrAmbiguous)
			}
			require.ErrorIs(t, l.s.lastErr, errReadAhead)
		})
	}
}

// What the library has read on of its own, and events, are no parcels.
func TestAReaderThatReadsOnGetsWhatIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, far := connected(t)
		l.sent[1], l.sent[2] = sentRequest{op: zkwire.OpGetData}, sentRequest{op: zkwire.OpGetData}
		p := asks(t, l, far)
		var mine int32
		for xid, request := range l.sent {
			if request.parcel == p {
				mine = xid
			}
		}
		own := append(append(answerTo(1), answerTo(zkwire.XidNotification)...), answerTo(2)...)
		go func() { _, _ = far.Write(append(append([]byte(nil), own...), answerTo(mine)...)) }()
		b := make([]byte, len(own))
		n, err := l.Read(b)
		require.NoError(t, err)
		require.Equal(t, own, b[:n])
		go func() { _, _ = l.Read(b) }() // which ends with the connection
		<-p.done
		require.NoError(t, p.err)
		require.NoError(t, l.Close())
	})
}
