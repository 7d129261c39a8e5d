package lockguard

import (
	"context"
	"errors"
	"sync"
)

// ErrWaiting is returned by Ticket.Hold before the ticket is done.
var ErrWaiting = errors.New("lockkeeper: the ticket is not done: its request waits; wait for Done")

// A Ticket is a request that goes on in the background, see Guard.Enqueue. Its
// methods are safe for concurrent use.
type Ticket struct {
	joined chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	ref   Reference
	known bool
	hold  *Hold
	err   error
}

// Enqueue is Acquire in the background: it returns at once, and the request goes
// on until ctx ends. The Hold that it leads to derives from ctx as well, and has to
// be released by the caller that takes it from the Ticket; otherwise the lock stays held.
//
// If the requirement has a Hold, another process can adopt the request by its
// Reference, now or when it is granted: Guard.Adopt. The Hold of the ticket is lost
// then, with the reason lock.LossSuperseded, or the request fails with that.
func (g *Guard) Enqueue(ctx context.Context, requirement Requirement) *Ticket {
	t := &Ticket{joined: make(chan struct{}), done: make(chan struct{})}
	mine := *g
	mine.ticket = t
	go func() {
		hold, err := mine.Acquire(ctx, requirement)
		if err == nil {
			t.at(hold.Reference())
		}
		t.mu.Lock()
		t.hold, t.err = hold, err
		t.mu.Unlock()
		close(t.done)
	}()
	return t
}

// at takes note of where the request stands.
func (t *Ticket) at(ref Reference) {
	if ref.Hold == "" || ref.ID == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ref = ref
	if !t.known {
		t.known = true
		close(t.joined)
	}
}

// Reference names the request, or the Hold that it has become; false as long as it
// is not known, and for ever if the requirement has no Hold. It changes with the
// grant, which adds the token, and when the request has to queue again: an old one
// names nothing then.
func (t *Ticket) Reference() (Reference, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ref, t.known
}

// Joined returns a channel that is closed once there is a Reference. It stays open
// if the request fails before.
func (t *Ticket) Joined() <-chan struct{} { return t.joined }

// Done returns a channel that is closed when the request has been granted or has
// failed: what Hold returns does not change any more.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Hold returns what Acquire would: the Hold, or why there is none. ErrWaiting before
// Done.
func (t *Ticket) Hold() (*Hold, error) {
	select {
	case <-t.done:
	default:
		return nil, ErrWaiting
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hold, t.err
}
