package zkclient

import "sync"

// hosts hands server names to the library in a shuffled circle. Names are
// resolved anew at each dial.
type hosts struct {
	s       *Session
	mu      sync.Mutex
	servers []string
	next    int
}

func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next never asks the library to pause, dial does that, until the session is
// over: only then does the library look whether it was closed.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	return server, h.s.IsOver()
}

func (h *hosts) Connected() {}
