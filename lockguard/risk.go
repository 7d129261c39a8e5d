package lockguard

import "time"

// A risk is that a silence of ZooKeeper loses the lock.
type risk struct {
	signal chan struct{} // closed in a silence
	end    time.Time     // when the lock will be lost to that silence
}

// mark says that ZooKeeper is silent.
func (r *risk) mark(end time.Time) {
	r.end = end
	if !isClosed(r.signal) {
		close(r.signal)
	}
}

// now returns what is closed in a silence. The deadline moves on with the answer
// that ends it.
func (r *risk) now(deadline time.Time) <-chan struct{} {
	const sameDeadline = time.Millisecond // computed at another moment
	if isClosed(r.signal) && deadline.Sub(r.end) > sameDeadline {
		r.signal = make(chan struct{})
	}
	return r.signal
}

func (l *heldLock) atRisk() <-chan struct{} {
	deadline := l.grant.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.risk.now(deadline)
}
