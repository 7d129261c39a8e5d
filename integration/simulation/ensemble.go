package simulation

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// An Ensemble is how long a ZooKeeper takes. Reads take a round trip. Writes go
// through one pipeline, whatever server they came to: they are flushed together, at
// multiples of Flush, as many at once as Rate allows, in the order in which they came.
type Ensemble struct {
	RoundTrip time.Duration // of each request
	Flush     time.Duration // how often writes are made durable and told
	Rate      int           // of writes, a second

	begun  time.Time
	reads  atomic.Int64
	writes atomic.Int64
	pings  atomic.Int64

	mu   sync.Mutex
	slot int64 // of the flush that the last write is in
	used int   // writes in it
}

// Load is how much has been asked of an Ensemble.
type Load struct{ Reads, Writes, Pings int64 }

// Load returns what was asked so far.
func (e *Ensemble) Load() Load { return Load{e.reads.Load(), e.writes.Load(), e.pings.Load()} }

// Through makes connections take as long as the Ensemble does.
func (e *Ensemble) Through(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l := &line{Conn: conn, ensemble: e, more: make(chan struct{}, 1), closed: make(chan struct{})}
		go l.deliver()
		return l, nil
	}
}

// due is when a request that is sent now has been executed.
func (e *Ensemble) due(kind kind) time.Time {
	now := time.Now()
	there := now.Add(e.RoundTrip)
	switch kind {
	case ping:
		e.pings.Add(1)
		return there
	case read:
		e.reads.Add(1)
		return there
	case write:
	}
	e.writes.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun.IsZero() {
		e.begun = now
	}
	if first := int64(there.Sub(e.begun)/e.Flush) + 1; first > e.slot {
		e.slot, e.used = first, 0
	}
	if e.used == max(1, int(float64(e.Rate)*e.Flush.Seconds())) {
		e.slot, e.used = e.slot+1, 0
	}
	e.used++
	return e.begun.Add(time.Duration(e.slot) * e.Flush)
}

type kind uint8

const (
	read kind = iota
	write
	ping
)

// kindOf reads what a frame is, from ZooKeeper's numbers of operations.
func kindOf(frame []byte) kind {
	if len(frame) < 12 {
		return read
	}
	switch int32(binary.BigEndian.Uint32(frame[8:])) {
	case 11:
		return ping
	case 1, 2, 5, 7, 14, 15, 16, 19, 20, 21, -11: // create … multi … the end of a session
		return write
	}
	return read
}

// A line is a connection on which frames arrive when they have been executed, in
// order. The client writes a frame at a time.
type line struct {
	net.Conn
	ensemble *Ensemble
	more     chan struct{}
	closed   chan struct{}
	once     sync.Once

	mu      sync.Mutex
	begun   bool
	pending []parcel
}

type parcel struct {
	frame []byte
	due   time.Time
}

func (l *line) Write(frame []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what := write // the first frame begins a session
	if l.begun {
		what = kindOf(frame)
	}
	l.begun = true
	l.pending = append(l.pending, parcel{append([]byte(nil), frame...), l.ensemble.due(what)})
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(frame), nil
}

func (l *line) deliver() {
	for {
		select {
		case <-l.more:
		case <-l.closed:
			return
		}
		l.mu.Lock()
		parcels := l.pending
		l.pending = nil
		l.mu.Unlock()
		for _, p := range parcels {
			if wait := time.Until(p.due); wait > 0 {
				select {
				case <-time.After(wait):
				case <-l.closed:
					return
				}
			}
			if _, err := l.Conn.Write(p.frame); err != nil {
				_ = l.Close()
				return
			}
		}
	}
}

// SetWriteDeadline does nothing: a line takes whatever is written.
func (l *line) SetWriteDeadline(time.Time) error { return nil }

func (l *line) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}
