package deadlines

import (
	"sync"
	"time"
)

// noise measures how late timers are in this process: how long the machine lets a goroutine wait for a processor.
type noise struct {
	done   chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
	latest time.Duration
}

func watchNoise() *noise {
	n := &noise{done: make(chan struct{})}
	n.ended.Go(func() {
		const step = 2 * time.Millisecond
		timer := time.NewTimer(step)
		defer timer.Stop()
		for due := time.Now().Add(step); ; {
			select {
			case <-timer.C:
			case <-n.done:
				return
			}
			n.latest = max(n.latest, time.Since(due))
			due = time.Now().Add(step)
			timer.Reset(step)
		}
	})
	return n
}

// stop ends the measurement and returns the worst.
func (n *noise) stop() time.Duration {
	n.once.Do(func() { close(n.done) })
	n.ended.Wait()
	return n.latest
}
