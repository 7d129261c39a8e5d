package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answered is what is true of every answer, whatever was asked.
func answered(t *testing.T, c *Console, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, r)
	require.Less(t, w.Code, 500, "%s %s: %s", r.Method, r.URL, w.Body)
	require.NotEmpty(t, w.Header().Get("Content-Security-Policy"))
	if w.Code >= 400 && strings.HasPrefix(r.URL.Path, "/api/") {
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	}
	return w
}

func request(method, target, body string) (*http.Request, bool) {
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") {
		return nil, false
	}
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.URL, r.RequestURI, r.Host, r.RemoteAddr = u, target, "localhost", "127.0.0.1:1"
	return r, u.Host == ""
}

func FuzzPaths(f *testing.F) {
	for _, target := range allPages {
		f.Add(target)
	}
	for _, target := range []string{"/api/v1/locks/a%2Fb/timeline", "/api/v1/locks/a/b/timeline?range=24h", "/static/../x", "/locks/%00", "/locks/%ff", "//", "/locks/..%2f..", "/jobs/%20"} {
		f.Add(target)
	}
	c := newConsole(f, Options{})
	f.Fuzz(func(t *testing.T, target string) {
		r, ok := request(http.MethodGet, target, "")
		if !ok || r.URL.Query().Get("live") != "" {
			return
		}
		w := answered(t, c, r)
		require.NotContains(t, w.Body.String(), "<script>")
	})
}

func FuzzQueries(f *testing.F) {
	f.Add("/", "q", "a", "sort", "scope")
	f.Add("/", "from", "99999999999999999999", "state", "held")
	f.Add("/audit", "within", "-1h", "limit", "0")
	f.Add("/api/v1/locks", "limit", "1000", "waiters", "0")
	f.Add("/api/v1/heat", "columns", "500", "range", "24h")
	f.Add("/api/v1/events", "after", "5", "limit", "x")
	f.Add(orders, "do", "break", "token", "1")
	c := newConsole(f, Options{})
	f.Fuzz(func(t *testing.T, path, name, value, second, third string) {
		query := url.Values{name: {value}}
		query.Add(second, third)
		query.Del("live")
		r, ok := request(http.MethodGet, path+"?"+query.Encode(), "")
		if !ok || r.URL.Query().Get("live") != "" {
			return
		}
		answered(t, c, r)
	})
}

func FuzzBodies(f *testing.F) {
	f.Add("/api/v1/overrides", "application/json", `{"reason":"x","id":"INC-1","kind":"freeze","scope":"a","for":"1h"}`)
	f.Add("/api/v1/locks/a/break", "application/json", `{"reason":"x","token":5,"confirm":"a"}`)
	f.Add("/api/v1/locks/a/break", "application/json; charset=utf-8", `{"reason":["x"],"token":1e400}`)
	f.Add("/api/v1/jobs/a/pause", "text/plain", `null`)
	f.Add(orders, "application/x-www-form-urlencoded", "do=break&token=1&reason=x&confirm=cluster/orders/resource/users")
	f.Add("/overrides", "application/x-www-form-urlencoded", "do=apply&id=%ff&kind=boost&priority=emergency&reason=%00")
	f.Add("/sign-in", "application/x-www-form-urlencoded", "name=%00&password=&next=//x")
	c, o := signedIn(f)
	name, secret := "ana", "secret"
	f.Fuzz(func(t *testing.T, path, kind, body string) {
		r, ok := request(http.MethodPost, path, body)
		if !ok {
			return
		}
		r.Header.Set("Content-Type", kind)
		r.SetBasicAuth(name, secret)
		before := len(o.all())
		w := answered(t, c, r)
		if after := o.all(); len(after) > before {
			done := after[len(after)-1]
			require.Contains(t, done, "by ana: ", "every action has a name")
			require.False(t, strings.HasSuffix(strings.TrimSpace(done), "by ana:"), "nor without a reason: %q", done)
			require.Less(t, w.Code, 400)
		}
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("localhost", "https://localhost", "cross-site", "lockkeeper=x", "Basic YTpi", "5")
	f.Add("evil.example", "", "", "", "", "")
	f.Add("[::1", "null", "same-origin", "=;=", "Basic ", "-1")
	f.Add("127.0.0.1.", "://", "none", "lockkeeper=", "Bearer x", "18446744073709551615")
	c, o := signedIn(f)
	f.Fuzz(func(t *testing.T, host, origin, site, cookie, authorization, last string) {
		r, _ := request(http.MethodPost, orders, "do=preempt&token=7301444&reason=x")
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for name, value := range map[string]string{"Origin": origin, "Sec-Fetch-Site": site, "Cookie": cookie, "Authorization": authorization, "Last-Event-ID": last} {
			r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		}
		answered(t, c, r)
		require.Empty(t, o.all(), "not signed in")
		get, _ := request(http.MethodGet, "/", "")
		get.Host = host
		if w := answered(t, c, get); w.Code == http.StatusOK {
			require.True(t, c.hosts.knows(host))
		}
	})
}

func FuzzUsersFile(f *testing.F) {
	f.Add([]byte("ana:$2y$05$abcdefghijklmnopqrstuuWzxqCmQVQXGyfAaaaaaaaaaaaaaaaaaaa\n"))
	f.Add([]byte("# empty\n\n"))
	f.Add([]byte("a:b:c\r\n:\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		people, err := parseUsers("users", data)
		require.Equal(t, err != nil, len(people) == 0)
		for name := range people {
			require.True(t, isName(name))
		}
	})
}
