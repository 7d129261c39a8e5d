package scheduler

import (
	"time"

	"github.com/lockkeeper/lockkeeper/override"
)

// paused returns the operator's override that pauses the job at an instant, nil
// if none does, and a channel that is closed when that may have changed. A tick
// at the moment when the override ends runs, whose clock it may be that is
// behind.
func (l *lane) paused(def *definition, at time.Time) (*override.Override, <-chan struct{}) {
	if l.s.cfg.Overrides == nil {
		return nil, nil
	}
	o, changed := l.s.cfg.Overrides.Paused(def.Name, def.Labels)
	if o != nil && !at.Before(o.Until) {
		return nil, changed
	}
	return o, changed
}

// pokeOn pokes once the channel is closed.
func (l *lane) pokeOn(changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits || l.gone || !l.s.enter() {
		return
	}
	l.waits = true
	go func() {
		defer l.s.deciding.Done()
		select {
		case <-changed:
		case <-l.s.firing.Done():
		}
		l.mu.Lock()
		l.waits = false
		l.mu.Unlock()
		l.poke()
	}()
}
