package zktest

import (
	"net"
	"sync"
	"time"
)

// An outbox writes to a connection what is put into it, so that no holder of a
// mutex waits for a slow reader.
type outbox struct {
	conn  net.Conn
	limit int // bytes unsent at which the connection is cut; 0: none

	mu       sync.Mutex
	wake     sync.Cond
	unsent   []byte
	finished bool // say so once all is sent
	aborted  bool
}

func newOutbox(conn net.Conn, limit int) *outbox {
	o := &outbox{conn: conn, limit: limit}
	o.wake.L = &o.mu
	return o
}

// put takes bytes to send. It does not wait.
func (o *outbox) put(bytes []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished || o.aborted {
		return
	}
	o.unsent = append(o.unsent, bytes...)
	if o.limit > 0 && len(o.unsent) > o.limit {
		o.aborted = true
		go o.abort() // run may be stuck in a write
	}
	o.wake.Signal()
}

// finish lets the other end know, behind everything that was put, that no more
// will come.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	o.wake.Signal()
}

// abort closes the connection at once. It does not wait.
func (o *outbox) abort() {
	o.mu.Lock()
	o.aborted = true
	o.wake.Signal()
	o.mu.Unlock()
	_ = o.conn.SetDeadline(time.Unix(1, 0)) // TLS would wait to say goodbye
	_ = o.conn.Close()
}

// run writes until the outbox is finished or aborted.
func (o *outbox) run() {
	var writing []byte
	for {
		o.mu.Lock()
		for len(o.unsent) == 0 && !o.finished && !o.aborted {
			o.wake.Wait()
		}
		writing, o.unsent = o.unsent, writing[:0]
		aborted := o.aborted
		o.mu.Unlock()
		switch {
		case aborted:
			o.abort()
			return
		case len(writing) == 0:
			closeWrite(o.conn)
			return
		}
		if _, err := o.conn.Write(writing); err != nil {
			o.abort()
			return
		}
		if cap(writing) > keptBuffer {
			writing = nil
		}
	}
}

// keptBuffer is how large a buffer may be to be used again.
const keptBuffer = 64 << 10

// closeWrite ends one direction of a connection, or both if it cannot do that.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = conn.Close()
}
