package recipes

import "sync"

// A teller tells one listener one thing at a time, in the order in which it
// happened, and holds no lock meanwhile. The listener may use what it is told
// of: what that brings to light is told next, by whoever is telling.
type teller[N any] struct {
	f func(N) // nil: nobody listens

	mu    sync.Mutex
	over  bool // nothing follows a Lost
	muted bool // the listener has left
	queue []news[N]
	quiet chan struct{} // closed when nobody is telling any more; nil: nobody is
}

// news is one thing to tell, and what to do when that is done, or when nobody
// listens.
type news[N any] struct {
	x    N
	then func()
}

// notices are what a request and its grant tell.
type notices = teller[Notice]

// send tells of something. It returns before that is done if somebody is telling
// of something else.
func (n *teller[N]) send(x N) {
	if n.f != nil {
		n.sendThen(x, func() {})
	}
}

func (n *teller[N]) sendThen(x N, then func()) { n.sendIf(x, func() bool { return true }, then) }

// sendIf does something, and if that succeeds tells of it before whatever
// follows from it.
func (n *teller[N]) sendIf(x N, do func() bool, then func()) bool {
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
func (n *teller[N]) drain() {
	quiet := make(chan struct{})
	n.quiet = quiet
	defer func() {
		n.quiet = nil
		close(quiet)
	}()
	for len(n.queue) > 0 {
		next := n.queue[0]
		n.queue = n.queue[1:]
		listens := n.f != nil && !n.muted && !n.over
		if _, lost := any(next.x).(Lost); lost {
			n.over = true
		}
		n.tell(next, listens)
	}
}

// tell is called with n.mu held, and lets go of it meanwhile.
func (n *teller[N]) tell(next news[N], listens bool) {
	n.mu.Unlock()
	defer n.mu.Lock()
	if listens {
		n.f(next.x)
	}
	next.then()
}

// mute: whoever listens has left. When it returns, nothing is told any more.
func (n *teller[N]) mute() {
	n.mu.Lock()
	n.muted = true
	quiet := n.quiet
	n.mu.Unlock()
	if quiet != nil {
		<-quiet
	}
}
