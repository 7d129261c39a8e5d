package jobs

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// client returns what makes the request, and what ends it. A connection of its
// own is never one that the server has just given up, which a POST could not
// be repeated for.
func (r *HTTP) client() (c *http.Client, done func()) {
	if r.Client != nil {
		return r.Client, func() {}
	}
	const patience = 10 * time.Second
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: patience}).DialContext,
		DisableKeepAlives:   true,
		ForceAttemptHTTP2:   true,
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: patience,
	}
	return &http.Client{Transport: transport, CheckRedirect: follow}, transport.CloseIdleConnections
}

// maxRedirects is how many redirects are followed.
const maxRedirects = 10

// follow goes on where the request does nothing twice, and where its headers,
// which may be secret, come to whom they were meant for.
func follow(next *http.Request, via []*http.Request) error {
	first := via[0]
	upgrade := next.URL.Scheme == first.URL.Scheme || next.URL.Scheme == "https"
	switch {
	case !readOnly(first.Method), !upgrade, next.URL.Host != first.URL.Host:
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return fmt.Errorf("it was redirected more than %d times", maxRedirects)
	}
	return nil
}

// maxSnippet is how much of an unexpected answer its error tells.
const maxSnippet = 500

// head keeps the beginning of what is written to it.
type head struct {
	limit int
	kept  []byte
	cut   bool
}

func (h *head) Write(p []byte) (int, error) {
	room := min(h.limit-len(h.kept), len(p))
	h.kept = append(h.kept, p[:room]...)
	h.cut = h.cut || room < len(p)
	return len(p), nil
}

func (h *head) String() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(h.kept), "\uFFFD"))
	if h.cut {
		text += "…"
	}
	return text
}

// copyAll reads all of an answer, whatever becomes of those who listen.
func copyAll(from io.Reader, to ...io.Writer) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for i, w := range to {
			if w == nil || n == 0 {
				continue
			}
			if _, failure := w.Write(buffer[:n]); failure != nil {
				to[i] = nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// retryAfter reads the header of that name: seconds, or a date by the clock of
// the server.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		const most = int(time.Duration(1<<63-1) / time.Second)
		return time.Duration(min(max(0, seconds), most)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, at.Sub(now))
}

// location is where an answer points to, without secrets.
func location(response *http.Response) string {
	if response.StatusCode < 300 || response.StatusCode > 399 {
		return ""
	}
	to, err := response.Location()
	if err != nil {
		return ""
	}
	return redacted(to)
}

// redacted tells which server and path, without user, password and query.
func redacted(u *url.URL) string {
	plain := url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if u.RawQuery != "" {
		return plain.String() + "?…"
	}
	return plain.String()
}

// withoutURL is the reason of an error that begins with a URL, query and all.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// percentASCII writes what is not ASCII as in a URL.
func percentASCII(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escapedASCII writes what is not ASCII in a JSON text as JSON can.
func escapedASCII(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// sorted yields headers by name.
func sorted(header http.Header) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for _, name := range slices.Sorted(maps.Keys(header)) {
			if !yield(name, header[name]) {
				return
			}
		}
	}
}
