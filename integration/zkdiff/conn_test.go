package zkdiff

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// patience is how long a server may take to answer.
const patience = time.Minute

// conn is a connection that sends and receives frames, and knows nothing of what is in them.
type conn struct {
	net.Conn
	in  *bufio.Reader
	lie func(frame []byte) // alters what comes; nil: nothing does
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReader(c)}, nil
}

// send writes frames at once. That the other end is gone is seen when reading.
func (c *conn) send(bodies ...[]byte) {
	var out []byte
	for _, body := range bodies {
		out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
		out = append(out, body...)
	}
	c.write(out)
}

func (c *conn) write(raw []byte) {
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, _ = c.Write(raw)
}

var (
	errClosed  = errors.New("closed by the server")
	errSilence = errors.New("no answer")
)

// receive reads a frame. Its errors are errClosed, errSilence, and that what came is no frame.
func (c *conn) receive(within time.Duration) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	var head [4]byte
	for i := range head {
		b, err := c.in.ReadByte()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errSilence
		case err != nil && i > 0:
			return nil, errors.New("closed by the server within a frame")
		case err != nil:
			return nil, errClosed
		}
		head[i] = b
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > 64<<20 {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	body := make([]byte, size)
	for n := 0; n < len(body); {
		m, err := c.in.Read(body[n:])
		if err != nil {
			return nil, fmt.Errorf("a frame that ends after %d of %d bytes: %w", n, size, err)
		}
		n += m
	}
	if c.lie != nil {
		c.lie(body)
	}
	return body, nil
}

// session is what a client needs to come back.
type session struct {
	id       int64
	password []byte
}

// greeting returns the first frame of a connection. An id of 0 asks for a new session.
func greeting(s session, zxid int64, timeout time.Duration) []byte {
	var e encoder
	e.int32(0)
	e.int64(zxid)
	e.int32(int32(timeout.Milliseconds()))
	e.int64(s.id)
	password := s.password
	if password == nil {
		password = make([]byte, 16)
	}
	e.bytes(password)
	e.bool(false)
	return e.buf
}

// header is how a reply begins. Events have one too.
type header struct {
	xid  int32
	zxid int64
	code int32
}

func (d *decoder) header() header {
	return header{xid: d.int32(), zxid: d.int64(), code: d.int32()}
}

func pingFrame() []byte {
	return Step{Do: Ping}.frame(pingXid, 0)
}
