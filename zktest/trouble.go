package zktest

// Expire ends a session at once, as if its client had been silent for its
// timeout: its ephemeral nodes go, its connection is cut, and when the client
// comes back it learns that its session has expired. It reports whether there
// was such a session.
func (s *Server) Expire(session int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[session]
	if x == nil {
		return false
	}
	s.endSession(x)
	return true
}

// Disconnect cuts the connection of a session, which may come back. What the
// server has answered already may not arrive. It reports whether there was one.
func (s *Server) Disconnect(session int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[session]
	if x == nil || x.conn == nil {
		return false
	}
	s.crash(x.conn)
	return true
}

// StallPings lets a session die while its client is alive and is answered:
// from now on nothing that it sends keeps the session alive. So it is behind
// a server of an ensemble that answers, but whose reports to its leader get
// lost. The session expires after its timeout. It reports whether there was
// such a session.
func (s *Server) StallPings(session int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[session]
	if x == nil {
		return false
	}
	x.stalled = true
	return true
}

// On begins a rule: what is to go wrong, for the requests or events that match.
// See Fault for what can. RunT fails its test for a rule that never acts.
func (s *Server) On(m Match) *Fault { return s.faults.on(m) }

// Partition cuts the network between the server and the connections that come
// from one of these dialers or listeners; all connections without a name. The
// connections stay, and what is sent over them is kept, as TCP keeps it, until
// Heal.
func (s *Server) Partition(names ...string) { s.faults.partition(names...) }

// Heal ends the partitions of these names; all without a name.
func (s *Server) Heal(names ...string) { s.faults.heal(names...) }

// Unfired describes the faults that were asked for and have not happened: rules
// that never acted, a Match without an action, partitions of names that no
// connection had. RunT fails its test for them.
func (s *Server) Unfired() []string { return s.faults.unfired() }

// Trace returns the last frames, oldest first, with what rules did to them.
func (s *Server) Trace() []Exchange { return s.faults.exchanges() }
