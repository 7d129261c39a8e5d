package zktest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

const (
	// maxPassed is the longest frame that a proxy takes for one. Lists of children
	// may be longer than what a server reads.
	maxPassed = 64 << 20

	// lingering is how long a proxy waits, after it has cut a connection, for an
	// end to close its side.
	lingering = time.Second
)

// A link is a client's connection through a proxy: two connections and a gate
// between them.
type link struct {
	proxy  *Proxy
	names  []string
	client *outbox
	gate   *gate

	mu      sync.Mutex
	server  *outbox // nil before the client has said something
	aborted bool
}

// run passes frames until both ends are closed.
func (l *link) run() {
	defer l.abort()
	head := make([]byte, lengthSize)
	if _, err := io.ReadFull(l.client.conn, head); err != nil {
		return // it said nothing: the server need not know
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(l.proxy.ctx, "tcp", l.proxy.target)
	if err != nil || !l.reach(conn) {
		return
	}
	if isWord(head) {
		l.splice(head)
		return
	}
	if length(head) > maxPassed {
		return
	}
	l.gate = l.proxy.faults.open(l.names, l.deliver, l.client.put, l.finish)
	defer l.gate.close()
	var running sync.WaitGroup
	running.Go(l.client.run)
	running.Go(l.server.run)
	running.Go(func() {
		defer l.gate.hangUp()
		for n, err := length(head), error(nil); err == nil; n, err = readLength(l.client.conn) {
			body := make([]byte, n)
			if _, err := io.ReadFull(l.client.conn, body); err != nil {
				return
			}
			l.gate.inbound(body)
		}
	})
	running.Go(func() {
		defer l.gate.end(l.finish)
		for {
			n, err := readLength(l.server.conn)
			if err != nil {
				return
			}
			frame := zkwire.Int32(make([]byte, 0, lengthSize+n), int32(n))
			if _, err := io.ReadFull(l.server.conn, frame[lengthSize:cap(frame)]); err != nil {
				return
			}
			l.gate.outbound(frame[:cap(frame)])
		}
	})
	running.Wait()
}

// reach keeps the connection to the server, unless the link is aborted.
func (l *link) reach(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborted {
		_ = conn.Close()
		return false
	}
	l.server = newOutbox(conn, 0)
	return true
}

// deliver is called by the gate.
func (l *link) deliver(body []byte) {
	if body == nil {
		l.server.finish()
		return
	}
	l.server.put(append(zkwire.Int32(make([]byte, 0, lengthSize+len(body)), int32(len(body))), body...))
}

// finish is called by the gate when the server has ended the connection, or a
// rule has cut it. What was let through arrives.
func (l *link) finish() {
	for _, end := range []*outbox{l.client, l.server} {
		end.finish()
		_ = end.conn.SetDeadline(time.Now().Add(lingering))
	}
}

// splice passes on bytes: of a four-letter word and its answer.
func (l *link) splice(head []byte) {
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := l.server.conn.Write(head); err == nil {
			_, _ = io.Copy(l.server.conn, l.client.conn)
		}
		closeWrite(l.server.conn)
	})
	_, _ = io.Copy(l.client.conn, l.server.conn)
	l.abort()
	running.Wait()
}

// abort closes both connections at once.
func (l *link) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	l.client.abort()
	if l.server != nil {
		l.server.abort()
	}
}

// isWord tells whether a connection begins with a four-letter word, which as a
// length would be more than a gigabyte.
func isWord(head []byte) bool {
	for _, c := range head {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

func length(head []byte) int {
	return int(min(binary.BigEndian.Uint32(head), maxPassed+1))
}

func readLength(conn net.Conn) (int, error) {
	head := make([]byte, lengthSize)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 0, err
	}
	n := length(head)
	if n > maxPassed {
		return 0, fmt.Errorf("a frame of %d bytes or more", n)
	}
	return n, nil
}
