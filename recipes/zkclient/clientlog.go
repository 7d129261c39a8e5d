package zkclient

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A clientLog is the handler of a client's logger: it hands records on in a
// goroutine of its own, so that a blocked log delays neither the connection nor
// the report of a loss. go-zookeeper logs in the loop that reconnects.
type clientLog struct {
	slog.Handler

	queue *logQueue
}

// maxLogQueue is how many records wait for a log that does not take them. More are
// dropped, and counted.
const maxLogQueue = 256

// logQueue is shared by all handlers of one client.
type logQueue struct {
	base slog.Handler // for the record about the dropped ones

	mu      sync.Mutex
	waiting []logEntry
	dropped int
	running bool          // a goroutine hands on
	idle    chan struct{} // closed when it has done so; nil without a waiting goroutine
}

type logEntry struct {
	to     slog.Handler
	record slog.Record
}

func newClientLog(log *slog.Logger) (*slog.Logger, *logQueue) {
	queue := &logQueue{base: log.Handler()}
	return slog.New(clientLog{log.Handler(), queue}), queue
}

// Handle never blocks.
func (l clientLog) Handle(_ context.Context, record slog.Record) error {
	l.queue.put(logEntry{l.Handler, record.Clone()})
	return nil
}

func (l clientLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return clientLog{l.Handler.WithAttrs(attrs), l.queue}
}

func (l clientLog) WithGroup(name string) slog.Handler {
	return clientLog{l.Handler.WithGroup(name), l.queue}
}

func (q *logQueue) put(e logEntry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxLogQueue {
		q.dropped++
		return
	}
	q.tellDroppedLocked()
	q.waiting = append(q.waiting, e)
	if !q.running {
		q.running = true
		go q.handOn()
	}
}

// tellDroppedLocked puts a record in the place of those that were dropped.
func (q *logQueue) tellDroppedLocked() {
	if q.dropped == 0 {
		return
	}
	record := slog.NewRecord(time.Now(), slog.LevelWarn,
		"records of this log were dropped: it did not take them in time", 0)
	record.AddAttrs(slog.Int("dropped", q.dropped))
	q.dropped = 0
	q.waiting = append(q.waiting, logEntry{q.base, record})
}

func (q *logQueue) handOn() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.tellDroppedLocked()
		}
		if len(q.waiting) == 0 {
			q.waiting, q.running = nil, false
			if q.idle != nil {
				close(q.idle)
				q.idle = nil
			}
			q.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		ctx := context.Background()
		if next.to.Enabled(ctx, next.record.Level) {
			_ = next.to.Handle(ctx, next.record) // as slog.Logger does
		}
	}
}

// flushPatience is how long Close waits for the log at most.
const flushPatience = 100 * time.Millisecond

// flush waits until all is handed on, for a moment.
func (q *logQueue) flush() {
	q.mu.Lock()
	if !q.running {
		q.mu.Unlock()
		return
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	q.mu.Unlock()
	patience := time.NewTimer(flushPatience)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
	}
}
