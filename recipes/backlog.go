package recipes

import "sync"

// backlog counts work that goes on after its caller has left: undoing what
// was requested too late, giving back what could not be given back at once.
// Unlike a sync.WaitGroup it may grow while somebody waits.
type backlog struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n falls to 0; nil when nobody waits
}

// Go runs f in a goroutine of its own.
func (b *backlog) Go(f func()) {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
	go func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.n--; b.n == 0 && b.empty != nil {
				close(b.empty)
				b.empty = nil
			}
		}()
		f()
	}()
}

// done is closed as soon as nothing is left.
func (b *backlog) done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if b.empty == nil {
		b.empty = make(chan struct{})
	}
	return b.empty
}
