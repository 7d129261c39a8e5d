package zkclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A tap keeps what goes through a connection.
type tap struct {
	net.Conn
	mu      sync.Mutex
	out, in bytes.Buffer
}

func (c *tap) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.out.Write(b)
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *tap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	c.in.Write(b[:n])
	c.mu.Unlock()
	return n, err
}

// exchange returns the one request that was sent since the last time, and its reply. A slow test is pinged meanwhile.
func (c *tap) exchange(t *testing.T) (request, reply []byte) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	request, reply = withoutPings(c.out.Bytes()), withoutPings(c.in.Bytes())
	require.Len(t, request, 4+int(binary.BigEndian.Uint32(request)), "one request")
	require.Len(t, reply, 4+int(binary.BigEndian.Uint32(reply)), "one reply")
	c.out.Reset()
	c.in.Reset()
	return request, reply
}

func withoutPings(frames []byte) (others []byte) {
	const ping = -2
	for len(frames) >= 8 {
		n := min(len(frames), 4+int(binary.BigEndian.Uint32(frames)))
		if int32(binary.BigEndian.Uint32(frames[4:])) != ping {
			others = append(others, frames[:n]...)
		}
		frames = frames[n:]
	}
	return others
}

// The library is asked for the same: what a parcel consists of is what it sends, and what
// is read from the reply is what it returns.
func TestAParcelIsWhatTheLibraryWritesAndReads(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	var wire *tap
	conn, events, err := zk.Connect([]string{server.Addr()}, time.Minute, zk.WithLogInfo(false), zk.WithDialer(
		func(network, address string, timeout time.Duration) (net.Conn, error) {
			c, err := net.DialTimeout(network, address, timeout)
			wire = &tap{Conn: c}
			return wire, err
		}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	wire.mu.Lock()
	wire.out.Reset()
	wire.in.Reset()
	wire.mu.Unlock()

	world := zk.WorldACL(zk.PermAll)
	same := func(op zkwire.Op, ops []any, ask func() *Parcel) {
		t.Helper()
		want := ask()
		request, reply := wire.exchange(t)
		got := appendFrame(nil, op, ops)
		require.Zero(t, binary.BigEndian.Uint32(got[4:]))
		copy(got[4:8], request[4:8])
		require.Equal(t, request, got)

		p := &Parcel{op: op, ops: ops, done: make(chan struct{})}
		require.NoError(t, p.deliver(reply[4:]))
		require.Equal(t, want.err, p.err)
		require.Equal(t, want.err == nil, p.Succeeded())
		if want.err == nil || op == zkwire.OpMulti {
			require.Equal(t, want.results, slices.Clone(p.results))
		}
		require.Equal(t, want.data, p.data)
		require.Equal(t, want.names, p.names)

		for cut := 16; cut < len(reply)-4; cut++ { // however it is cut
			p := &Parcel{op: op, ops: ops, done: make(chan struct{})}
			require.ErrorIs(t, p.deliver(reply[4:4+cut]), errGarbled)
			require.False(t, p.isDone(), "its sender is not notified")
		}
	}
	multi := func(ops ...any) {
		t.Helper()
		same(zkwire.OpMulti, ops, func() *Parcel {
			r, err := conn.Multi(ops...)
			return &Parcel{results: r, err: err}
		})
	}
	create := func(r zk.CreateRequest) {
		t.Helper()
		same(zkwire.OpCreate, []any{&r}, func() *Parcel {
			path, err := conn.Create(r.Path, r.Data, r.Flags, r.Acl)
			return &Parcel{results: []zk.MultiResponse{{String: path}}, err: err}
		})
	}
	set := func(r zk.SetDataRequest) {
		t.Helper()
		same(zkwire.OpSetData, []any{&r}, func() *Parcel {
			stat, err := conn.Set(r.Path, r.Data, r.Version)
			return &Parcel{results: []zk.MultiResponse{{Stat: stat}}, err: err}
		})
	}
	get := func(path string) {
		t.Helper()
		same(zkwire.OpGetData, []any{NodeRead(path)}, func() *Parcel {
			data, stat, err := conn.Get(path)
			return &Parcel{results: []zk.MultiResponse{{Stat: stat}}, data: data, err: err}
		})
	}
	list := func(path string) {
		t.Helper()
		same(zkwire.OpGetChildren2, []any{NodeRead(path)}, func() *Parcel {
			names, stat, err := conn.Children(path)
			return &Parcel{results: []zk.MultiResponse{{Stat: stat}}, names: names, err: err}
		})
	}
	remove := func(path string, version int32) {
		t.Helper()
		same(zkwire.OpDelete, []any{&zk.DeleteRequest{Path: path, Version: version}}, func() *Parcel {
			return &Parcel{results: []zk.MultiResponse{{}}, err: conn.Delete(path, version)}
		})
	}
	create(zk.CreateRequest{Path: "/a", Data: []byte("größer"), Acl: append(world, zk.ACL{Perms: zk.PermRead, Scheme: "digest", ID: "ana:x"})})
	create(zk.CreateRequest{Path: "/a", Acl: world})
	create(zk.CreateRequest{Path: "/a/n-", Data: []byte{}, Flags: zk.FlagEphemeral | zk.FlagSequence, Acl: world})
	set(zk.SetDataRequest{Path: "/a", Data: []byte(strings.Repeat("long ", 10_000)), Version: 0})
	set(zk.SetDataRequest{Path: "/a", Version: 0})
	get("/a")
	list("/a")
	set(zk.SetDataRequest{Path: "/a", Version: -1})
	get("/a")
	get("/none")
	list("/none")
	list("/a/n-0000000000")
	multi(
		&zk.CheckVersionRequest{Path: "/a", Version: 2},
		&zk.CreateRequest{Path: "/a/x-", Data: []byte("x"), Flags: zk.FlagEphemeral | zk.FlagSequence, Acl: world},
		&zk.SetDataRequest{Path: "/a", Data: []byte("y"), Version: 2},
		&zk.SetDataRequest{Path: "/a", Data: nil, Version: 3},
		&zk.SetDataRequest{Path: "/a", Data: []byte("z"), Version: 4},
		&zk.DeleteRequest{Path: "/a/x-0000000001", Version: -1},
	)
	multi(&zk.SetDataRequest{Path: "/a", Version: -1}, &zk.CheckVersionRequest{Path: "/a", Version: 2}, &zk.DeleteRequest{Path: "/none", Version: -1})
	remove("/a/n-0000000000", 7)
	remove("/a/n-0000000000", 0)
	remove("/a/n-0000000000", -1)
}

// Results are of the right kind for each operation.
func TestAReplyToAnotherTransactionIsNoReply(t *testing.T) {
	type answer struct {
		op   zkwire.Op
		code int32 // of an error
	}
	check, remove, failed := answer{op: zkwire.OpCheck}, answer{op: zkwire.OpDelete}, func(code int32) answer { return answer{zkwire.OpError, code} }
	for _, c := range []struct {
		answers []answer
		want    error
	}{
		{[]answer{check, remove}, nil},
		{[]answer{check, {op: zkwire.OpCreate2}}, errGarbled},
		{[]answer{failed(0), failed(-101)}, zk.ErrNoNode},
		{[]answer{}, errGarbled},
		{[]answer{check}, errGarbled},
		{[]answer{failed(0), failed(0)}, errGarbled},
		{[]answer{check, check}, errGarbled},
		{[]answer{check, {op: zkwire.OpAuth}}, errGarbled},
		{[]answer{check, remove, remove}, errGarbled},
		{[]answer{failed(0), failed(0), failed(-101)}, errGarbled},
	} {
		reply := make([]byte, replyHeader)
		for _, a := range c.answers {
			reply = zkwire.MultiHeader(reply, a.op, false, -1)
			if a.op == zkwire.OpError {
				reply = binary.BigEndian.AppendUint32(reply, uint32(a.code))
			}
		}
		reply = zkwire.MultiHeader(reply, zkwire.OpError, true, -1)
		p := &Parcel{op: zkwire.OpMulti, ops: []any{&zk.CheckVersionRequest{}, &zk.DeleteRequest{}}, done: make(chan struct{})}
		err := p.deliver(reply)
		if err == nil {
			err = p.err
		}
		require.ErrorIs(t, err, c.want, "%v", c.answers)
		require.LessOrEqual(t, len(p.results), len(p.ops))
	}
}

// The creation of a container is answered in another way than that of a node, which the
// library cannot read.
func TestAContainerIsCreatedWithoutDoubt(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	c, err := NewClient(Config{Servers: []string{server.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	s, err := c.Usable(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Await(t.Context()))
	r, _, err := s.Multi(t.Context(),
		&zk.CreateRequest{Path: "/container", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagContainer},
		&zk.SetDataRequest{Path: "/container", Version: 0})
	require.NoError(t, err)
	require.Equal(t, "/container", r[0].String)
	require.EqualValues(t, 1, r[1].Stat.Version)
	require.Zero(t, c.Health().Reconnects)
}

func TestEveryErrorOfAServerIsTheLibrarys(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	conn, _, err := zk.Connect([]string{server.Addr()}, time.Minute, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	for code := int32(-130); code < 0; code++ {
		rule := server.On(zktest.Op(zktest.Delete).Nth(1)).Fail(zktest.Code(code))
		err := conn.Delete("/x", -1)
		require.Error(t, err)
		require.Equal(t, err, wireError(zkwire.Code(code)), "%d", code)
		require.Equal(t, 1, rule.Fired())
	}
	require.NoError(t, wireError(0))
}

// However many requests the library has sent: never the same number twice at a time.
func TestParcelsAreNumberedFarFromTheLibrarysRequests(t *testing.T) {
	l := &link{}
	const step, far = 1<<28 - 3, 1 << 27
	for theirs := int64(1); theirs < 1<<33; theirs += step {
		l.theirs = theirs % (1 << 31)
		for range 3 {
			last := l.xid
			xid := int64(l.nextXidLocked())
			require.Positive(t, xid)
			require.NotEqual(t, last, xid)
			ahead := (xid - l.theirs + 1<<31) % (1 << 31)
			require.Greater(t, ahead, int64(far))
			require.Less(t, ahead, int64(1<<31-far))
		}
	}
}

func TestParcelsInTheirCallersHandsDoNotBlock(t *testing.T) {
	client, server := net.Pipe() // without a reader
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	s := &Session{c: &Client{}, clock: newClock()}
	l := newLink(client, s)
	parcelOf := func(bytes int) *Parcel {
		return &Parcel{op: zkwire.OpSetData, ops: []any{&zk.SetDataRequest{Path: "/a", Data: make([]byte, bytes)}}, done: make(chan struct{})}
	}
	require.False(t, l.post(parcelOf(1), true), "there is no connection yet")
	l.welcome = true
	require.False(t, l.post(parcelOf(inlineWindow), true), "it may be more than fits")
	l.unanswered = inlineWindow - 100
	require.False(t, l.post(parcelOf(100), true), "with those before it, it may be more than fits")
	l.unanswered = 0
	l.out <- struct{}{}
	require.False(t, l.post(parcelOf(1), true), "another goroutine writes")
	<-l.out
	require.Empty(t, l.sent)

	// and the waiting sender learns of the end
	sent := parcelOf(1)
	posted := make(chan bool, 1)
	go func() { posted <- l.post(sent, true) }()
	require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.sent) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
	require.True(t, <-posted)
	<-sent.done
	require.ErrorIs(t, sent.err, zk.ErrConnectionClosed)
	require.Empty(t, l.sent)
	require.False(t, l.post(parcelOf(1), false), "it is closed")
}

// An event that the server has sent before a reply has been told before that.
func TestAReplyComesAfterWhatWasSentBeforeIt(t *testing.T) {
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	s := &Session{c: &Client{}, clock: newClock()}
	l := newLink(client, s)
	l.welcome, l.frame.greeting = true, false
	p := &Parcel{op: zkwire.OpDelete, done: make(chan struct{})}
	l.sent[5] = sentRequest{op: zkwire.OpDelete, led: true, parcel: p}
	frame := func(xid int32) []byte {
		b := binary.BigEndian.AppendUint32(nil, 16)
		b = binary.BigEndian.AppendUint32(b, uint32(xid))
		return append(b, make([]byte, 12)...)
	}
	event := frame(zkwire.XidNotification)
	event[4+7] = 5 // within it, something looks like the reply
	go func() { _, _ = server.Write(slices.Concat(event, frame(5), frame(zkwire.XidPing))) }()

	length, body := make([]byte, 4), make([]byte, 16)
	for _, b := range [][]byte{length, body} { // as the library reads
		n, err := l.Read(b)
		require.NoError(t, err)
		require.Len(t, b, n)
	}
	require.False(t, p.Succeeded(), "the library has not dealt with the event yet")
	_, err := l.Read(length)
	require.NoError(t, err)
	require.True(t, p.Succeeded())
	_, err = l.Read(body)
	require.NoError(t, err)
	require.Equal(t, zkwire.XidPing, int32(binary.BigEndian.Uint32(body)), "the library does not see it")
}

// What was acknowledged is, though the session has ended since.
func TestAReplyThatHasComeCountsWhateverBecomesOfTheSession(t *testing.T) {
	s := &Session{c: &Client{}, clock: newClock(), over: make(chan struct{})}
	s.overErr = ErrSessionOver
	close(s.over)
	p := &Parcel{op: zkwire.OpDelete, done: make(chan struct{})}
	close(p.done)
	for range 100 {
		_, _, err := s.Outcome(p)
		require.NoError(t, err)
	}
}
