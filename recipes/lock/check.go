package lock

// Check looks, without asking ZooKeeper, whether the lock is certainly held
// right now, with the time counted that the machine was suspended: nil, the
// *LostError, or ErrReleased after Release. What it finds lost is lost from
// then on, and Notify is called: a process that was stopped for long may come
// here before its timers have noticed.
func (g *Grant) Check() error {
	g.s.Check((*grantTenant)(g))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case stateLost:
		return g.loss
	case stateReleased:
		return ErrReleased
	case stateHeld:
	}
	return nil
}
