package group

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A lockHold is one grant of one lock to this participant, from the read that
// showed it until it is written down as released, or was lost.
type lockHold struct {
	inc    *incarnation
	grant  LockGrant
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Guarded by Member.mu.
	ended    bool // ctx ends
	cause    error
	deadline time.Time   // of the cleanup, once it has ended
	entered  bool        // OnLocked has returned
	overrun  *time.Timer // while the cleanup is under way
	gone     chan struct{}
	loss     error                   // set when gone is closed
	cleaning context.CancelCauseFunc // of the context of OnReleased, while that runs
}

// A lockCell runs the callbacks of one lock, one after the other. It has a
// goroutine only while there is something to run. Guarded by Member.mu.
type lockCell struct {
	m       *Member
	lock    string
	running bool
	current *lockHold // its callbacks are being run
	next    *lockHold // granted meanwhile, by a later session
	known   bool      // was held, and is not dropped
	drop    bool      // to be dropped
}

// start makes the cell hold a lock.
func (m *Member) start(inc *incarnation, grant LockGrant) *lockHold {
	h := &lockHold{inc: inc, grant: grant, gone: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(context.WithValue(m.base, lockGoneKey{}, (<-chan struct{})(h.gone)))
	cell := m.cells[grant.Lock]
	if cell == nil {
		cell = &lockCell{m: m, lock: grant.Lock}
		m.cells[grant.Lock] = cell
	}
	cell.drop = false
	cell.next = h // one that stood there was lost before it began
	cell.wake()
	return h
}

// finish ends the lock's context, before any client can learn that the lock is
// free; and when it is lost while it is cleaned up, that of the cleanup. The
// caller holds m.mu.
func (h *lockHold) finish(cause error, cleanup time.Duration) {
	if _, lost := errors.AsType[*lock.LostError](cause); lost && h.loss == nil {
		h.loss = cause
		close(h.gone)
		if h.cleaning != nil {
			h.cleaning(cause)
		}
	}
	if h.ended {
		return
	}
	h.cancel(cause)
	m := h.inc.m
	h.ended, h.cause, h.deadline = true, cause, time.Now().Add(cleanup)
	if cell := m.cells[h.grant.Lock]; cell != nil {
		if cell.current == h {
			h.overrun = time.AfterFunc(cleanup, func() {
				m.tell(CleanupOverrun{Lock: h.grant.Lock, After: cleanup})
			})
		}
		cell.wake()
	}
}

// wake lets the cell go on. The caller holds m.mu.
func (cell *lockCell) wake() {
	if !cell.running {
		cell.running = true
		cell.m.work.Go(cell.run)
	}
}

func (cell *lockCell) run() {
	m := cell.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		h := cell.current
		switch {
		case h == nil && cell.next != nil:
			h, cell.next = cell.next, nil
			if h.ended {
				m.let(h) // it was never told
				continue
			}
			cell.current, cell.known = h, true
			cell.call("OnLocked", func() { m.handler.OnLocked(h.ctx, h.grant) })
			h.entered = true
		case h != nil && h.entered && h.ended:
			values := context.WithValue(context.WithValue(m.base, releaseCauseKey{}, h.cause), lockGoneKey{},
				(<-chan struct{})(h.gone))
			cleaning, lose := context.WithCancelCause(values)
			ctx, cancel := context.WithDeadline(cleaning, h.deadline)
			if _, was := errors.AsType[*lock.LostError](h.cause); h.loss != nil && !was { // since it was asked to release
				lose(h.loss)
			}
			h.cleaning = lose
			cell.call("OnReleased", func() { m.handler.OnReleased(ctx, cell.lock) })
			h.cleaning = nil
			cancel()
			lose(nil)
			if h.overrun != nil {
				h.overrun.Stop()
			}
			cell.current = nil
			m.let(h)
		case h == nil && cell.drop:
			cell.drop, cell.known = false, false
			ctx, cancel := context.WithTimeout(m.base, m.cleanup)
			cell.call("OnDropped", func() { m.handler.OnDropped(ctx, cell.lock) })
			cancel()
		default:
			cell.running = false
			if h == nil && !cell.known {
				delete(m.cells, cell.lock)
			}
			m.settle()
			return
		}
	}
}

// call runs a callback without m.mu, in a goroutine of its own: the callback
// may end that one (runtime.Goexit, as FailNow of a test does).
func (cell *lockCell) call(name string, f func()) {
	m := cell.m
	m.mu.Unlock()
	defer m.mu.Lock()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		defer func() {
			if v := recover(); v != nil {
				m.tell(Panicked{Lock: cell.lock, Callback: name, Value: v, Stack: string(debug.Stack())})
			}
		}()
		f()
	}()
	<-returned
}

// let notes that a hold is over for good: it may be given to others once that
// is written down. The caller holds m.mu.
func (m *Member) let(h *lockHold) {
	inc := h.inc
	if inc.lost != nil || inc.holds[h.grant] != h {
		return
	}
	delete(inc.holds, h.grant)
	inc.release(h.grant)
}

// dropped marks a lock that will not come back. The caller holds m.mu.
func (cell *lockCell) dropped() {
	if cell.known && !cell.drop {
		cell.drop = true
		cell.wake()
	}
}

// idle reports whether no callback runs or is to run, and nothing is held. The
// caller holds m.mu.
func (m *Member) idle() bool {
	for _, cell := range m.cells {
		if cell.running || cell.current != nil || cell.next != nil {
			return false
		}
	}
	return true
}

// settle is called whenever a cell has nothing more to do. One that leaves and
// holds nothing does not need its session any longer. The caller holds m.mu.
func (m *Member) settle() {
	if inc := m.inc; m.leaving && inc != nil && m.idle() {
		inc.s.Unhold(inc)
		inc.poke()
	}
}

// label names what a member holds, for people.
func (m *Member) label() string { return fmt.Sprintf("group %s as %s", m.g.spec.Name, m.name) }
