package console

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/connlimit"
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

// person returns the name that the proxy gives, "" if none.
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
	return err == nil && p.isOne(from.Addr().Unmap())
}

func (p *Proxy) isOne(address netip.Addr) bool {
	return slices.ContainsFunc(p.Trusted, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// isName reports whether a text can be the name of a person on record.
func isName(s string) bool {
	const most = 200
	return s != "" && len(s) <= most && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd })
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

// begin returns an unguessable key.
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

// find returns the person a key belongs to, "" if none.
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

// The names of the cookie. Browsers take the prefix of the first for a promise: it was
// set by https, and by this host.
const (
	secureCookie = "__Host-lockkeeper"
	plainCookie  = "lockkeeper"
)

// secure reports whether a browser has sent a request by https, to us or to a proxy.
// Headers can only make the cookie stricter: who lies about himself has none.
func (c *Console) secure(r *http.Request) bool {
	if c.o.TLS || r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://") {
		return true
	}
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.EqualFold(strings.TrimSpace(first), "https")
}

// keys are those of the sessions that a request may belong to. Where there is nothing
// but https, only the strict cookie counts.
func (c *Console) keys(r *http.Request) (keys []string) {
	for _, name := range []string{secureCookie, plainCookie} {
		if cookie, err := r.Cookie(name); err == nil && (name == secureCookie || !c.o.TLS) {
			keys = append(keys, cookie.Value)
		}
	}
	return keys
}

// cookie is one with a key; lasting less than a second removes it.
func (c *Console) cookie(key string, secure bool, lasts time.Duration) *http.Cookie {
	is := &http.Cookie{
		Name: plainCookie, Value: key, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
		MaxAge: int(lasts / time.Second),
	}
	if secure {
		is.Name = secureCookie
	}
	if is.MaxAge == 0 {
		is.MaxAge = -1
	}
	return is
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
	for _, key := range c.keys(r) {
		if name, proof := c.sessions.find(key); name != "" && c.o.Users.still(name, proof) {
			return identity{name, func() bool { return c.sessions.lasts(key) && c.o.Users.still(name, proof) }}, nil
		}
	}
	if name, password, ok := r.BasicAuth(); ok {
		proof, err := c.o.Users.check(r.Context(), c.remote(r), name, password)
		if err != nil {
			return identity{}, err
		}
		return identity{name, func() bool { return c.o.Users.still(name, proof) }}, nil
	}
	return identity{}, nil
}

// remote is the address that guesses are counted for. Of a request by the proxy it is
// the one that the proxy has seen: the last of X-Forwarded-For that is none of its own.
func (c *Console) remote(r *http.Request) string {
	if c.o.Proxy.trusts(r) {
		all := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, text := range slices.Backward(all) {
			seen, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				break
			}
			if !c.o.Proxy.isOne(seen.Unmap()) {
				return connlimit.Network(seen.Unmap().WithZone("")).String()
			}
		}
	}
	if from := connlimit.Network(connlimit.Address(r.RemoteAddr)); from.IsValid() {
		return from.String()
	}
	return r.RemoteAddr
}
