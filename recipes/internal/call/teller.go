package call

import "sync"

// A Teller calls one listener with one thing at a time, in the order in which
// it happened, and holds no lock meanwhile. The listener may use what it gets:
// notices that this causes follow, by the same goroutine.
type Teller[N any] struct {
	Listener func(N)      // may be nil
	Last     func(N) bool // reports whether this is the last one; nil: never

	mu    sync.Mutex
	over  bool // the last one was told
	muted bool // the listener has left
	queue []news[N]
	quiet chan struct{} // closed when no call runs any more; nil: none runs
}

// news is one thing to tell, and what to do when that is done, or when there is
// no listener.
type news[N any] struct {
	x    N
	then func()
}

// Send sends one thing. It returns before the listener was called if another
// call is under way.
func (n *Teller[N]) Send(x N) {
	if n.Listener != nil {
		n.SendThen(x, func() {})
	}
}

// SendThen is Send, and does something when that was told, or when there is no listener.
func (n *Teller[N]) SendThen(x N, then func()) { n.SendIf(x, func() bool { return true }, then) }

// SendIf does something, and if that succeeds tells of it before whatever
// follows from it.
func (n *Teller[N]) SendIf(x N, do func() bool, then func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !do() {
		return false
	}
	n.queue = append(n.queue, news[N]{x, then})
	if n.quiet == nil {
		n.drain()
	}
	return true
}

// drain tells what there is to tell. The caller holds n.mu.
func (n *Teller[N]) drain() {
	quiet := make(chan struct{})
	n.quiet = quiet
	defer func() {
		n.quiet = nil
		close(quiet)
	}()
	for len(n.queue) > 0 {
		next := n.queue[0]
		n.queue = n.queue[1:]
		listens := n.Listener != nil && !n.muted && !n.over
		if n.Last != nil && n.Last(next.x) {
			n.over = true
		}
		n.tell(next, listens)
	}
}

// tell is called with n.mu held, and lets go of it meanwhile.
func (n *Teller[N]) tell(next news[N], listens bool) {
	n.mu.Unlock()
	defer n.mu.Lock()
	if listens {
		n.Listener(next.x)
	}
	next.then()
}

// Mute: the listener has left. After it returns the listener is not called.
func (n *Teller[N]) Mute() {
	n.mu.Lock()
	n.muted = true
	quiet := n.quiet
	n.mu.Unlock()
	if quiet != nil {
		<-quiet
	}
}
