package console

import (
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Proxy trusts a proxy in front of the console to say who somebody is.
type Proxy struct {
	// Header has the name of the person, for example X-Forwarded-User. The proxy
	// must remove what clients write there.
	Header string

	// Trusted are the addresses of proxies; the header of others counts for
	// nothing.
	Trusted []netip.Prefix
}

// person returns who it says, "" for nobody.
func (p *Proxy) person(r *http.Request) string {
	if !p.trusts(r) {
		return ""
	}
	values := r.Header.Values(p.Header)
	if len(values) != 1 || !isName(values[0]) {
		return ""
	}
	return values[0]
}

// trusts reports whether a request comes from the proxy.
func (p *Proxy) trusts(r *http.Request) bool {
	if p == nil {
		return false
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && slices.ContainsFunc(p.Trusted, func(prefix netip.Prefix) bool { return prefix.Contains(from.Addr().Unmap()) })
}

// isName reports whether a text can be the name of a person on record.
func isName(s string) bool {
	const most = 200
	return s != "" && len(s) <= most && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd })
}

// How long somebody stays signed in: after the last request, and at all.
const (
	idleTime = time.Hour
	fullTime = 12 * time.Hour
)

// maxSessions is how many people may be signed in at a time.
const maxSessions = 1000

// maxOwnSessions is how many of them may be those of one person; the oldest ends.
const maxOwnSessions = 20

// sessions are people who have signed in with a password. They end with the
// process.
type sessions struct {
	now func() time.Time
	mu  sync.Mutex
	all map[string]*session
}

type session struct {
	name        string
	proof       string // what the users file had for that person; another one ends the session
	begun, seen time.Time
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, all: map[string]*session{}}
}

// begin returns a key that nobody can guess.
func (s *sessions) begin(name, proof string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	own, oldest := 0, ""
	for key, one := range s.all {
		switch {
		case one.over(now):
			delete(s.all, key)
		case one.name == name:
			own++
			if oldest == "" || one.begun.Before(s.all[oldest].begun) {
				oldest = key
			}
		}
	}
	if own >= maxOwnSessions {
		delete(s.all, oldest)
	}
	if len(s.all) >= maxSessions {
		return "", errors.New("too many people are signed in; sign out somewhere, or try again in an hour")
	}
	key := rand.Text() + rand.Text()
	s.all[key] = &session{name: name, proof: proof, begun: now, seen: now}
	return key, nil
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.seen) > idleTime || now.Sub(s.begun) > fullTime
}

// find returns who has a key, "" for nobody.
func (s *sessions) find(key string) (name, proof string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, now := s.all[key], s.now()
	if one == nil || one.over(now) {
		delete(s.all, key)
		return "", ""
	}
	one.seen = now
	return one.name, one.proof
}

// lasts reports whether a session is not over. It does not make it last longer, as
// a request does.
func (s *sessions) lasts(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[key]
	return one != nil && !one.over(s.now())
}

func (s *sessions) end(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// cookieName has the prefix that browsers take for a promise where there is TLS.
func (c *Console) cookieName() string {
	if c.o.TLS {
		return "__Host-lockkeeper"
	}
	return "lockkeeper"
}

// person returns who has sent a request. A password that is
// wrong, or too many of those, is an error.
func (c *Console) person(r *http.Request) (identity, error) {
	if name := c.o.Proxy.person(r); name != "" {
		return identity{name: name}, nil
	}
	if c.o.Users == nil {
		return identity{}, nil
	}
	if cookie, err := r.Cookie(c.cookieName()); err == nil {
		if name, proof := c.sessions.find(cookie.Value); name != "" && c.o.Users.still(name, proof) {
			return identity{name, func() bool { return c.sessions.lasts(cookie.Value) && c.o.Users.still(name, proof) }}, nil
		}
	}
	if name, password, ok := r.BasicAuth(); ok {
		proof, err := c.o.Users.check(remote(r), name, password)
		if err != nil {
			return identity{}, err
		}
		return identity{name, func() bool { return c.o.Users.still(name, proof) }}, nil
	}
	return identity{}, nil
}

// remote is the address that guesses are counted for.
func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
