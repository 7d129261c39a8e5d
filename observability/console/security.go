package console

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets a page load what this server has, and nothing else: no inline
// script or style, no frame around it, no form that goes elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxBody is how much a form or a request in JSON may be.
const maxBody = 64 << 10

// guarded adds the headers of all answers, and refuses what no page of ours asks
// for.
func (c *Console) guarded(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.refuse(w, r, problem{
			Status: http.StatusForbidden, Title: "Not from this page",
			Detail: "the request comes from a page of another site", Next: "open the console itself, and do it there",
		})
	}))
	inner := origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		if !c.hosts.knows(r.Host) {
			c.refuse(w, r, problem{
				Status: http.StatusMisdirectedRequest, Title: "Not this host",
				Detail: "the console does not go by the name " + quoted(r.Host),
				Next:   "use its address, or name the host in the configuration, console: {hosts: [...]}",
			})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		inner.ServeHTTP(w, r)
	})
}

// hostNames are those that a browser may ask for. A page of somebody else whose
// name is made to point here (DNS rebinding) asks for that name.
type hostNames map[string]bool

// knows reports whether the Host header is an address, localhost, or a name that
// was given.
func (names hostNames) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if _, err := netip.ParseAddr(name); err == nil { // nobody can give a name to it that we would not know
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || names[name]
}
