package lockguard

import "sync"

// A mutex guards what happens to a lock. What happens to a member of a bundle
// takes the mutexes of other locks, and so has to wait until this one is free.
type mutex struct {
	sync.Mutex
	later []func()
}

// whenFree has f called by Unlock.
func (m *mutex) whenFree(f func()) { m.later = append(m.later, f) }

// Unlock unlocks m, and does what was left for then.
func (m *mutex) Unlock() {
	later := m.later
	m.later = nil
	m.Mutex.Unlock()
	for _, f := range later {
		f()
	}
}
