package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is one that was played, or is under way.
type Fault struct {
	Number int // from 1 on, in order of their beginning
	Kind   Kind
	// Began is stamped before anything is done, Ended when all is healed, and serves again where servers were concerned.
	// Both by Options.Now. Ended is 0 while the fault is under way.
	Began, Ended time.Duration
	Clients      []string // victims: clients
	Servers      []int    // victims: servers, or those at the other end of the clients' links
	Sessions     []int64  // victims: sessions
	Detail       string   // what was done, in words
	// Err says why it could not be done, or not be healed: "" when it was. Nothing is left behind of what could
	// not be done.
	Err string
}

// Victims describes who is concerned: "server 2", "client a", "client a - server 2", "session 0x10…".
func (f Fault) Victims() []string {
	var list []string
	for _, c := range f.Clients {
		name := "client " + c
		switch f.Kind.trait().aim {
		case atLink, atLeaderLink, atServing:
			if len(f.Servers) == 1 {
				name += fmt.Sprintf(" - server %d", f.Servers[0])
			}
		default: // the client alone
		}
		list = append(list, name)
	}
	if len(f.Clients) == 0 {
		for _, s := range f.Servers {
			list = append(list, fmt.Sprintf("server %d", s))
		}
	}
	for _, s := range f.Sessions {
		list = append(list, fmt.Sprintf("session %#x", uint64(s)))
	}
	return list
}

// OfServers reports whether servers are concerned, or the network between them: all clients may notice.
func (f Fault) OfServers() bool {
	return len(f.Clients) == 0 || f.Kind == LeaderTrap || f.Kind.trait().aim == atServing
}

// String is a line of a report: "#3 leader-kill 12.301s-14.100s server 2".
func (f Fault) String() string {
	text := fmt.Sprintf("#%d %s %.3fs-%.3fs %s",
		f.Number, f.Kind, f.Began.Seconds(), f.Ended.Seconds(), strings.Join(f.Victims(), ", "))
	if f.Ended == 0 {
		text = fmt.Sprintf("#%d %s %.3fs… %s", f.Number, f.Kind, f.Began.Seconds(), strings.Join(f.Victims(), ", "))
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	if f.Err != "" {
		text += ": FAILED: " + f.Err
	}
	return text
}

// record keeps the faults and tells the observer.
type record struct {
	observe func(Fault)

	mu     sync.Mutex
	faults []Fault
}

func (r *record) began(f Fault) Fault {
	r.mu.Lock()
	f.Number = len(r.faults) + 1
	r.faults = append(r.faults, f)
	r.mu.Unlock()
	r.observe(f)
	return f
}

func (r *record) ended(f Fault) {
	r.mu.Lock()
	r.faults[f.Number-1] = f
	r.mu.Unlock()
	r.observe(f)
}

func (r *record) all() []Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults)
}

// claims keeps two faults from having one victim.
type claims struct {
	mu      sync.Mutex
	taken   map[string]bool
	changed chan struct{} // closed and replaced when one is given back
}

func newClaims() *claims {
	return &claims{taken: map[string]bool{}, changed: make(chan struct{})}
}

// take waits until all of the names are free, or done is closed, and returns how to give them back; nil: not taken.
func (c *claims) take(done <-chan struct{}, names []string) func() {
	for {
		c.mu.Lock()
		if !slices.ContainsFunc(names, func(name string) bool { return c.taken[name] }) {
			c.set(names, true)
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.set(names, false)
				close(c.changed)
				c.changed = make(chan struct{})
			}
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-done:
			return nil
		}
	}
}

func (c *claims) set(names []string, taken bool) {
	for _, name := range names {
		c.taken[name] = taken
	}
}
