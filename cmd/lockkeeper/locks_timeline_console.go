package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// A consoleClient asks the console of a daemon.
type consoleClient struct {
	base *url.URL // with who asks, if that is given
	http *http.Client
}

const (
	consolePatience = 15 * time.Second
	consoleMost     = 64 << 20 // bytes of an answer
	usualConsole    = "http://127.0.0.1:9480"
)

// newConsoleClient returns one for the console at an address. Its errors are about
// that, and do not repeat a password.
func newConsoleClient(address string) (*consoleClient, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil: // its text has the address, and what may be in there
		return nil, errors.New("that is not an address; write for example " + usualConsole)
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, fmt.Errorf("%q is not the address of a console; write for example %s", base.Redacted(), usualConsole)
	case base.Scheme == "http" && base.User != nil && !onThisMachine(base.Hostname()):
		return nil, fmt.Errorf("%q would send a password that the network can read; write https://", base.Redacted())
	case base.RawQuery != "", base.Fragment != "":
		return nil, fmt.Errorf("%q has more than an address; write for example %s", base.Redacted(), usualConsole)
	}
	return &consoleClient{base: base, http: &http.Client{
		Timeout: consolePatience,
		// A redirect may lead to a foreign sign-in page: never send a password there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func onThisMachine(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// at is the console, for people.
func (r *consoleClient) at() string {
	open := *r.base
	open.User = nil
	return "the console at " + open.String()
}

// timeline asks what happened to a lock.
func (r *consoleClient) timeline(ctx context.Context, scope, back string) (t live.Timeline, err error) {
	if err := r.get(ctx, "api/v1/locks/"+url.PathEscape(scope)+"/timeline", url.Values{"range": {back}}, &t); err != nil {
		return t, err
	}
	if t.Scope != scope {
		return t, r.isNone(fmt.Sprintf("it answers about %q", t.Scope))
	}
	if len(t.Rows) == 0 {
		return t, r.noRequests(ctx, scope)
	}
	return t, nil
}

// noRequests is an error where the console does not know the lock.
func (r *consoleClient) noRequests(ctx context.Context, scope string) error {
	var page struct {
		Complete bool        `json:"complete"`
		Blind    *live.Blind `json:"blind"`
		Locks    []live.Lock `json:"locks"`
	}
	if err := r.get(ctx, "api/v1/locks",
		url.Values{"q": {scope}, "limit": {"1000"}, "waiters": {"0"}}, &page); err != nil {
		return err
	}
	for _, l := range page.Locks {
		if l.Scope == scope {
			return nil
		}
	}
	if !page.Complete || page.Blind != nil {
		return &codeError{
			exitNotAcquired,
			fmt.Sprintf("%s does not know a lock %q, and has not seen all locks yet; try again in a moment", r.at(), scope),
		}
	}
	return neverLocked(scope, r.at()+" lists those that there are")
}

// get asks for JSON.
func (r *consoleClient) get(ctx context.Context, path string, query url.Values, answer any) error {
	address := r.base.String()
	address = strings.TrimSuffix(address, "/") + "/" + path + "?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return r.isNone("its address cannot be used")
	}
	request.Header.Set("Accept", "application/json")
	response, err := r.http.Do(request)
	if err != nil {
		return r.silent(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, consoleMost+1))
	if err != nil {
		return r.silent(ctx, err)
	}
	if err := r.refused(response, body); err != nil {
		return err
	}
	if len(body) > consoleMost {
		return r.isNone(fmt.Sprintf("its answer is longer than %d MB", consoleMost>>20))
	}
	if kind := mediaType(response); kind != "application/json" {
		return r.isNone("it answers with " + cmp.Or(kind, "what has no type"))
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return r.isNone("its answer cannot be read: " + err.Error())
	}
	return nil
}

// refused says what an answer means that is none.
func (r *consoleClient) refused(response *http.Response, body []byte) error {
	var problem struct {
		Detail string `json:"detail"`
		Next   string `json:"next"`
	}
	if mediaType(response) == "application/problem+json" {
		_ = json.Unmarshal(body, &problem) // what it does not say is not told
	}
	said := problem.Detail
	if problem.Next != "" {
		said += "; " + problem.Next
	}
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusUnauthorized && r.base.User == nil && response.Header.Get("WWW-Authenticate") == "":
		// a name and a password would not help
		return &codeError{exitConfig, r.at() + " refuses: " + cmp.Or(said, response.Status)}
	case code == http.StatusUnauthorized && r.base.User == nil:
		return &codeError{
			exitConfig, r.at() + " shows that only to those who sign in; put a name and a password into its address, " +
				consoleVariable + "=" + r.base.Scheme + "://NAME:PASSWORD@" + r.base.Host,
		}
	case code == http.StatusUnauthorized:
		return &codeError{exitConfig, r.at() + " refuses the name and the password in its address: " +
			cmp.Or(problem.Detail, response.Status)}
	case code >= 300 && code < 400:
		to := "elsewhere"
		if target, err := response.Location(); err == nil {
			target.User, target.RawQuery = nil, ""
			to = target.String()
		}
		return &codeError{
			exitConfig,
			fmt.Sprintf("%s sends us to %s, perhaps to sign in; name the address of the daemon's console itself", r.at(), to),
		}
	case said == "" && code == http.StatusBadRequest && r.base.Scheme == "http":
		return r.isNone("it answers with " + response.Status + ", perhaps because it expects https")
	case said == "" && code < 500:
		return r.isNone("it answers with " + response.Status)
	case code == http.StatusServiceUnavailable, code == http.StatusTooManyRequests, said == "":
		return &codeError{exitNotAcquired, fmt.Sprintf("%s cannot answer now: %s", r.at(), cmp.Or(said, response.Status))}
	}
	return &codeError{exitConfig, r.at() + " refuses: " + said}
}

// isNone says that something answers which is no console.
func (r *consoleClient) isNone(what string) error {
	return &codeError{exitConfig, fmt.Sprintf("%s is not one of this version of Lockkeeper: %s; "+
		"name the address that a daemon's configuration has in console: {listen: ...}", r.at(), what)}
}

// silent says why there is no answer.
func (r *consoleClient) silent(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the rest has the address, and who asks
	}
	var (
		untrusted x509.UnknownAuthorityError
		name      x509.HostnameError
		bad       x509.CertificateInvalidError
		noTLS     tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &noTLS), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &codeError{exitConfig, r.at() + " does not speak TLS; write http:// in its address"}
	case errors.As(err, &untrusted):
		return &codeError{exitConfig, fmt.Sprintf("the certificate of %s is not trusted here: %v; "+
			"SSL_CERT_FILE=FILE names the certificates of authorities to trust", r.at(), err)}
	case errors.As(err, &name), errors.As(err, &bad):
		return &codeError{exitConfig, fmt.Sprintf(
			"the certificate of %s is not good for it: %v; write the name that it is for, or renew it", r.at(), err)}
	}
	return &codeError{exitNotAcquired, fmt.Sprintf(
		"%s does not answer: %v; check the address, and that the daemon runs with console: {listen: ...}", r.at(), err)}
}

func mediaType(response *http.Response) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return kind
}
