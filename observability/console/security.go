package console

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// policy lets a page load what this server has, and nothing else: no inline
// script or style, no frame around it, no form that goes elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'self'; " +
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
			c.refuse(w, r, notThisHost(r.Host))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		inner.ServeHTTP(w, r)
	})
}

// ForMonitors has next answer what machines ask, such as /metrics and /healthz, under
// the names that the pages have, and under those that no page of the internet can have:
// without a dot, or ending in .svc, .local or .internal. hosts are as in Options. A
// request without a name comes from no browser, and is answered.
func ForMonitors(hosts []string, next http.Handler) http.Handler {
	names := newHostNames(hosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := hostName(r.Host); name != "" && !names.knows(r.Host) && !isInternal(name) {
			writeProblem(w, notThisHost(r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isInternal(name string) bool {
	return !strings.Contains(name, ".") || slices.ContainsFunc([]string{".svc", ".local", ".internal"},
		func(end string) bool { return strings.HasSuffix(name, end) })
}

func notThisHost(host string) problem {
	return problem{
		Status: http.StatusMisdirectedRequest, Title: "Not this host",
		Detail: "nothing here goes by the name " + quoted(host),
		Next: "use its address, or name the host in the configuration, console: {hosts: [...]}, " +
			"or in the address that is listened on",
	}
}

func newHostNames(hosts []string) hostNames {
	names := hostNames{}
	for _, name := range hosts {
		names[strings.ToLower(strings.TrimSuffix(name, "."))] = true
	}
	return names
}

// hostNames are those that a browser may ask for. A page of somebody else whose
// name is made to point here (DNS rebinding) asks for that name.
type hostNames map[string]bool

// knows reports whether the Host header is an address, localhost, or a name that
// was given.
func (names hostNames) knows(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil { // an IP address cannot be rebound by DNS
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || names[name]
}

// hostName is a Host header without the port.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}
