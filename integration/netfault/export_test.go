package netfault

// Holed returns how many connections have lost bytes that way.
func (p *Proxy) Holed(to Direction) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.holed[to] {
			n++
		}
	}
	return n
}

// Writing tells whether a write is under way that way.
func (p *Proxy) Writing(to Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if !l.gates[to].TryLock() {
			return true
		}
		l.gates[to].Unlock()
	}
	return false
}
