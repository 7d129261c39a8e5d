package zkclient

import (
	"encoding/binary"
	"io"
	"net"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A garblingConn shows to its reader another message in place of the next one of the server for which
// there is one.
type garblingConn struct {
	net.Conn
	greeted bool
	garble  *atomic.Pointer[garbling]
	come    []byte // and not been read
}

// garbling returns what comes in place of a frame; nil: nothing else does.
type garbling func(frame []byte, greeting bool) []byte

func (c *garblingConn) Read(b []byte) (int, error) {
	if len(c.come) == 0 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		frame := slices.Concat(head, make([]byte, binary.BigEndian.Uint32(head)))
		if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
			return 0, err
		}
		if f := c.garble.Load(); f != nil {
			if other := (*f)(frame, !c.greeted); other != nil {
				c.garble.Store(nil)
				frame = other
			}
		}
		c.greeted, c.come = true, frame
	}
	n := copy(b, c.come)
	c.come = c.come[n:]
	return n, nil
}

// garbled returns a client that is connected, and what garbles its connections once each
// time that it is set.
func garbled(t *testing.T) (*Client, *atomic.Pointer[garbling]) {
	t.Helper()
	garble := new(atomic.Pointer[garbling])
	c, _ := clientThrough(t, func(conn net.Conn, _ <-chan struct{}) net.Conn { return &garblingConn{Conn: conn, garble: garble} })
	require.NoError(t, c.Ready(t.Context()))
	return c, garble
}

// message is one that says how long it is.
func message(length uint32, body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), body...)
}

// allocated is how many bytes were, since the program began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// What a server says that is none, or whose bytes get lost: it is neither believed nor made
// room for, and the next connection is a good one.
func TestAMessageThatNoServerSendsEndsTheConnection(t *testing.T) {
	const event = "\xff\xff\xff\xff"
	greeting := func(b []byte, change func([]byte)) []byte {
		change(b[4:])
		return b
	}
	for name, instead := range map[string]func(frame []byte) []byte{
		"nothing":                         func([]byte) []byte { return message(0) },
		"less than an xid":                func([]byte) []byte { return message(2, 0, 0) },
		"an event without anything":       func([]byte) []byte { return message(4, []byte(event)...) },
		"a reply without anything":        func(b []byte) []byte { return message(4, b[4:8]...) },
		"a reply without an error":        func(b []byte) []byte { return message(12, b[4:16]...) },
		"a reply of 2 GiB":                func(b []byte) []byte { return message(1<<31-1, b[4:]...) },
		"a reply of 4 GiB":                func(b []byte) []byte { return message(1<<32-1, b[4:]...) },
		"an event of 2 GiB":               func([]byte) []byte { return message(1<<31-1, []byte(event+"\x00\x00\x00\x00")...) },
		"a page, and no greeting":         func([]byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") },
		"an alert, and no greeting":       func([]byte) []byte { return []byte("\x15\x03\x01\x00\x02\x02\x46") },
		"half a greeting":                 func(b []byte) []byte { return append(message(20), b[4:24]...) },
		"a greeting of a session at once": func(b []byte) []byte { return greeting(b, func(b []byte) { copy(b[4:8], "\x00\x00\x00\x00") }) },
		"a greeting from the past":        func(b []byte) []byte { return greeting(b, func(b []byte) { copy(b[4:8], "\xff\xff\xff\xff") }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, garble := garbled(t)
				s, err := c.Usable(t.Context())
				require.NoError(t, err)
				_, err = s.Create(t.Context(), "/a", []byte("b"), 0)
				require.NoError(t, err)
				id, _ := c.Session()

				before, begin := allocated(), time.Now()
				isGreeting := strings.Contains(name, "greeting")
				garble.Store(new(garbling(func(frame []byte, greeting bool) []byte {
					if greeting != isGreeting {
						return nil
					}
					return instead(frame)
				})))
				if isGreeting {
					breakOff(s)
				}
				for {
					var data []byte
					if data, _, err = s.Get(t.Context(), "/a"); err == nil {
						require.Equal(t, "b", string(data))
						break
					}
					require.ErrorIs(t, err, ErrAmbiguous)
				}
				require.Nil(t, garble.Load())
				require.Less(t, time.Since(begin), time.Second, "no call had to wait until the connection was late")
				require.Less(t, allocated()-before, uint64(32<<20))
				still, _ := c.Session()
				require.Equal(t, id, still)
			})
		})
	}
}

// What has come instead of a reply does not show whether the request was
// executed: it counts as no reply.
func TestAReplyThatCannotBeReadIsNone(t *testing.T) {
	const result, stat, last = 9, 68, 9 // bytes
	for name, instead := range map[string]func(frame []byte) []byte{
		"cut off in the middle": func(frame []byte) []byte { return frame[:len(frame)-30] },
		"with another operation": func(frame []byte) []byte {
			return slices.Concat(frame[:len(frame)-last-stat-result], []byte{0, 0, 0, byte(zkwire.OpCheck), 0, 0, 0, 0, 0}, frame[len(frame)-last:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, garble := garbled(t)
				s, err := c.Usable(t.Context())
				require.NoError(t, err)
				_, err = s.Create(t.Context(), "/users", nil, 0)
				require.NoError(t, err)

				begin := time.Now()
				garble.Store(new(garbling(func(frame []byte, _ bool) []byte {
					if len(frame) < 100 {
						return nil
					}
					frame = instead(frame)
					binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
					return frame
				})))
				_, _, err = s.Multi(t.Context(),
					&zk.CheckVersionRequest{Path: "/users", Version: -1},
					&zk.CreateRequest{Path: "/users/n-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral | zk.FlagSequence},
					&zk.SetDataRequest{Path: "/users", Version: -1})
				require.ErrorIs(t, err, ErrAmbiguous)
				require.Nil(t, garble.Load())
				names, _, err := s.List(t.Context(), "/users")
				require.NoError(t, err)
				require.Len(t, names, 1, "it was executed once")
				require.Less(t, time.Since(begin), time.Second)
			})
		})
	}
}

// The same of what the library has asked for.
func TestAReplyThatTheLibraryCannotReadIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, garble := garbled(t)
		s, err := c.Usable(t.Context())
		require.NoError(t, err)
		_, err = s.Create(t.Context(), "/a", []byte("b"), 0)
		require.NoError(t, err)
		garble.Store(new(garbling(func(frame []byte, _ bool) []byte { return append(message(20), frame[4:24]...) })))
		w := Watcher(func(WatchKind) {})
		_, _, err = s.Look(t.Context(), "/a", &w)
		require.ErrorIs(t, err, ErrAmbiguous)
		data, _, err := s.Look(t.Context(), "/a", &w)
		require.NoError(t, err)
		require.Equal(t, "b", string(data))
	})
}
