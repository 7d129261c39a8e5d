package zktest

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A client is one connection, which says and hears frames. It is used by one
// goroutine.
type client struct {
	t        testing.TB
	nc       net.Conn
	session  int64
	password []byte
	timeout  time.Duration
	seen     int64
	xid      int32
	events   []string // heard while waiting for replies
}

// dial connects over the network or in memory, whichever the server offers,
// with a session timeout of 10s.
func dial(t testing.TB, s *Server) *client { return dialAs(t, s, "") }

func dialAs(t testing.TB, s *Server, name string) *client {
	t.Helper()
	c := &client{t: t, timeout: 10 * time.Second}
	c.open(s, name, s.Addr())
	require.NotZero(t, c.greet(), "a session")
	return c
}

func (c *client) open(s *Server, name, address string) {
	c.t.Helper()
	var err error
	if s.opts.pipe || name != "" {
		c.nc, err = s.Dialer(name)(c.t.Context(), "tcp", address)
	} else {
		c.nc, err = net.Dial("tcp", address)
	}
	require.NoError(c.t, err)
	nc := c.nc
	c.t.Cleanup(func() { _ = nc.Close() })
}

// reopen comes back with the session and returns it: 0 if it is over.
func (c *client) reopen(s *Server) int64 {
	c.t.Helper()
	_ = c.nc.Close()
	c.open(s, "", s.Addr())
	return c.greet()
}

// greet sends the connect request and returns the session that it was given.
func (c *client) greet() int64 {
	c.t.Helper()
	hello := zkwire.ConnectRequest{
		LastZxid: c.seen, Timeout: int32(c.timeout / time.Millisecond), Session: c.session, Password: c.password,
	}
	if hello.Password == nil {
		hello.Password = make([]byte, 16)
	}
	c.write(hello.Append(nil))
	body, err := c.frame()
	if err != nil {
		return 0
	}
	r, err := zkwire.ParseConnectResponse(body)
	require.NoError(c.t, err)
	if r.Session != 0 {
		c.session, c.password, c.timeout = r.Session, r.Password, time.Duration(r.Timeout)*time.Millisecond
	}
	return r.Session
}

func (c *client) write(frame []byte) {
	c.t.Helper()
	_, err := c.nc.Write(frame)
	require.NoError(c.t, err)
}

// frame reads the next frame.
func (c *client) frame() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.nc, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(c.nc, body)
	return body, err
}

// ask sends a request without waiting for the answer, and returns its xid.
func (c *client) ask(op zkwire.Op, fields ...any) int32 {
	c.t.Helper()
	xid := zkwire.XidPing
	if op != zkwire.OpPing {
		c.xid++
		xid = c.xid
	}
	b := zkwire.Int32(zkwire.Int32(zkwire.BeginFrame(nil), xid), int32(op))
	c.write(zkwire.EndFrame(c.fields(b, fields...), 0))
	return xid
}

func (c *client) fields(b []byte, fields ...any) []byte {
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			b = zkwire.Int32(b, int32(f))
		case int32:
			b = zkwire.Int32(b, f)
		case int64:
			b = zkwire.Int64(b, f)
		case bool:
			b = zkwire.Bool(b, f)
		case string:
			b = zkwire.String(b, f)
		case []byte:
			b = zkwire.Buffer(b, f)
		case []string:
			b = zkwire.Strings(b, f)
		case []zkwire.ACL:
			b = zkwire.ACLs(b, f)
		default:
			require.FailNow(c.t, "no such field", "%T", f)
		}
	}
	return b
}

// answer reads until the reply to a request, and keeps the events before it.
func (c *client) answer(xid int32) (zkwire.ReplyHeader, *zkwire.Decoder) {
	c.t.Helper()
	for {
		body, err := c.frame()
		require.NoError(c.t, err, "while waiting for the answer to %d", xid)
		h, rest, err := zkwire.ParseReplyHeader(body)
		require.NoError(c.t, err)
		if h.Xid == zkwire.XidNotification {
			event, path, err := zkwire.ParseNotification(rest)
			require.NoError(c.t, err)
			c.events = append(c.events, event.String()+" "+path)
			continue
		}
		require.Equal(c.t, xid, h.Xid)
		c.seen = max(c.seen, h.Zxid)
		return h, zkwire.NewDecoder(rest)
	}
}

// do sends a request and returns how it was answered.
func (c *client) do(op zkwire.Op, fields ...any) (zkwire.Code, *zkwire.Decoder) {
	c.t.Helper()
	h, d := c.answer(c.ask(op, fields...))
	return h.Code, d
}

func (c *client) create(path string, flags int32) string {
	c.t.Helper()
	code, d := c.do(zkwire.OpCreate, path, []byte("data"), tree.OpenACL, flags)
	require.Equal(c.t, zkwire.OK, code, "create %s", path)
	return d.String()
}

func (c *client) exists(path string, watch bool) zkwire.Code {
	c.t.Helper()
	code, _ := c.do(zkwire.OpExists, path, watch)
	return code
}

// heard returns the events that have come, up to now.
func (c *client) heard() []string {
	c.t.Helper()
	code, _ := c.do(zkwire.OpPing)
	require.Equal(c.t, zkwire.OK, code)
	heard := c.events
	c.events = nil
	return heard
}

// isCut waits until the server has ended the connection.
func (c *client) isCut() {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(time.Minute)) // fails if it is cut already
	for {
		if _, err := c.frame(); err != nil {
			require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "the connection is still there")
			return
		}
	}
}
