package console

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

func TestVendoredScriptsAreThoseOfThePackage(t *testing.T) {
	for file, want := range map[string]string{ // of htmx.org 4.0.1
		"static/htmx.min.js":   "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
		"static/hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
		"static/htmx.LICENSE":  "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
	} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		require.Equal(t, want, hex.EncodeToString(sum[:]), "%s has changed; scripts/htmx.sh fetches it", file)
	}
}

func TestAnswersForbidWhatPagesDoNotNeed(t *testing.T) {
	c := newConsole(t, Options{})
	for _, target := range append([]string{"/api/v1/locks", "/static/none"}, allPages...) {
		h := ask(t, c, http.MethodGet, target, "").Header
		require.Equal(t, policy, h.Get("Content-Security-Policy"), target)
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "DENY", h.Get("X-Frame-Options"), target)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), target)
		require.Equal(t, "no-store", h.Get("Cache-Control"), target)
	}
	for name, url := range c.assets.named {
		answer := ask(t, c, http.MethodGet, url, "")
		require.Equal(t, http.StatusOK, answer.StatusCode, name)
		require.Contains(t, answer.Header.Get("Cache-Control"), "immutable")
		require.NotEmpty(t, answer.Header.Get("Content-Type"))
	}
}

func TestOnlyHostsThatAreOursAreAnswered(t *testing.T) {
	c := newConsole(t, Options{Hosts: []string{"Locks.example.org"}})
	for host, want := range map[string]int{
		"127.0.0.1:9480": 200, "[::1]:9480": 200, "localhost": 200, "localhost:1": 200, "LOCKS.example.org:443": 200, "locks.example.org.": 200, "10.1.2.3": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:9480": 421, "": 421, "locks.example.org.evil": 421,
	} {
		answer := ask(t, c, http.MethodGet, "/", "", func(r *http.Request) { r.Host = host })
		require.Equal(t, want, answer.StatusCode, host)
		answer = ask(t, c, http.MethodGet, "/api/v1/locks", "", func(r *http.Request) { r.Host = host })
		require.Equal(t, want, answer.StatusCode, host)
	}
}

const orders = "/locks/cluster/orders/resource/users"

func signedIn(t testing.TB) (*Console, *recorded) {
	t.Helper()
	users := usersOf(t, map[string]string{"ana": "secret", "ben": "other"})
	o := &recorded{}
	return newConsole(t, Options{Operator: o, Users: users}), o
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	c, o := signedIn(t)
	form := "do=preempt&reason=because&token=7301444"
	for name, change := range map[string]func(*http.Request){
		"fetch metadata": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same site":      func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"origin":         func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		answer := ask(t, c, http.MethodPost, orders, form, as("ana", "secret"), change)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, name)
		answer = ask(t, c, http.MethodPost, "/api/v1/overrides", `{}`, as("ana", "secret"), change)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, name)
	}
	require.Empty(t, o.all())
	answer := ask(t, c, http.MethodPost, orders, form, as("ana", "secret"), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") })
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Len(t, o.all(), 1)
}

func TestPersonWhoSignsInIsKnownUntilShePutsAnEndToIt(t *testing.T) {
	c, _ := signedIn(t)
	bad := ask(t, c, http.MethodPost, "/sign-in", "name=ana&password=wrong&next=/jobs")
	require.Equal(t, http.StatusUnauthorized, bad.StatusCode)
	require.Contains(t, text(t, bad), "the name or the password is wrong")
	require.Empty(t, bad.Cookies())

	good := ask(t, c, http.MethodPost, "/sign-in", "name=ana&password=secret&next=/jobs")
	require.Equal(t, http.StatusSeeOther, good.StatusCode)
	require.Equal(t, "/jobs", good.Header.Get("Location"))
	cookie := good.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	with := func(r *http.Request) { r.AddCookie(cookie) }
	require.Contains(t, text(t, ask(t, c, http.MethodGet, "/", "", with)), `<span class="person" title="signed in">ana</span>`)
	require.NotContains(t, text(t, ask(t, c, http.MethodGet, "/", "")), "ana</span>")

	ask(t, c, http.MethodPost, "/sign-out", "", with)
	require.NotContains(t, text(t, ask(t, c, http.MethodGet, "/", "", with)), "ana</span>")
}

func TestSignInDoesNotRedirectToAnotherSite(t *testing.T) {
	for next, want := range map[string]string{
		"/jobs?q=a": "/jobs?q=a", "": "/", "//evil.example": "/", "https://evil.example/": "/", "/\\evil.example": "/", "jobs": "/", "/a\r\nb": "/", "javascript:x": "/",
	} {
		require.Equal(t, want, localPath(next), next)
	}
}

func TestGuessesHaveToWaitAndPasswordsThatAreRightDoNotCount(t *testing.T) {
	now := noon
	users, err := LoadUsers(usersFile(t, map[string]string{"ana": "secret"}), nil, func() time.Time { return now })
	require.NoError(t, err)
	for range freeGuesses {
		_, err := users.check(t.Context(), "10.0.0.1", "ana", "wrong")
		require.Equal(t, http.StatusUnauthorized, problemOf(err).Status)
	}
	_, err = users.check(t.Context(), "10.0.0.1", "ana", "secret")
	require.Equal(t, http.StatusTooManyRequests, problemOf(err).Status, "also the right one, which would else be found out")
	now = now.Add(2 * time.Second)
	_, err = users.check(t.Context(), "10.0.0.1", "ana", "secret")
	require.NoError(t, err)
	_, err = users.check(t.Context(), "10.0.0.1", "ana", "wrong")
	require.Equal(t, http.StatusUnauthorized, problemOf(err).Status, "the right one has put an end to the waiting")
}

func TestGuessesOfStrangersDoNotLockUsersOut(t *testing.T) {
	file := usersFile(t, map[string]string{"ana": "secret", "ben": "other"})
	synctest.Test(t, func(t *testing.T) {
		users, err := LoadUsers(file, nil, nil)
		require.NoError(t, err)
		// given that somebody behind a proxy has guessed the password of ana, and many
		// elsewhere as well
		for i := range 30 {
			_, err := users.check(t.Context(), fmt.Sprintf("10.0.0.%d", i), "ana", "wrong")
			require.Equal(t, http.StatusUnauthorized, problemOf(err).Status)
		}
		for range 20 {
			_, err = users.check(t.Context(), "10.0.0.1", "ana", "wrong")
		}
		require.Equal(t, http.StatusTooManyRequests, problemOf(err).Status)

		// when
		start := time.Now()
		_, other := users.check(t.Context(), "10.0.0.1", "ben", "other")
		_, elsewhere := users.check(t.Context(), "10.0.1.1", "ana", "secret")

		// then
		require.NoError(t, other, "another one behind that proxy")
		require.NoError(t, elsewhere, "the one who is meant, from elsewhere")
		took := time.Since(start)
		require.Positive(t, took, "many guesses for one name are slow")
		require.LessOrEqual(t, took, 2*longestSlow)
	})
}

func TestGuessThatIsSlowEndsWithItsRequest(t *testing.T) {
	file := usersFile(t, map[string]string{"ana": "secret"})
	synctest.Test(t, func(t *testing.T) {
		users, err := LoadUsers(file, nil, nil)
		require.NoError(t, err)
		for i := range slowGuesses + 10 {
			_, _ = users.check(t.Context(), fmt.Sprintf("10.0.0.%d", i), "ana", "wrong")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = users.check(ctx, "10.0.1.1", "ana", "secret")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestWhatIsCountedOfGuessesIsBounded(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret"})
	tried := func(from, name string) [3]*guesses {
		users.mu.Lock()
		defer users.mu.Unlock()
		return users.triedLocked(from, name, noon)
	}
	first := tried("10.0.0.1", "ana")
	first[0].n = freeGuesses
	for i := range 3 * ownNames {
		tried("10.0.0.1", fmt.Sprint("n", i))
	}
	require.LessOrEqual(t, len(users.guesses), 2*ownNames+4, "names of one address")
	require.Same(t, tried("10.0.0.1", "x")[0], tried("10.0.0.1", "y")[0], "those beyond are one")
	require.Same(t, first[0], tried("10.0.0.1", "ana")[0], "others do not make it forgotten")
	for i := range maxGuesses {
		tried(fmt.Sprint("a", i), "ana")
	}
	require.LessOrEqual(t, len(users.guesses), maxGuesses)
}

func TestCookieIsForHTTPSAloneWhereTheBrowserHasComeByIt(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, is := range map[string]struct {
		change func(*http.Request)
		secure bool
	}{
		"plain":               {func(*http.Request) {}, false},
		"from a plain page":   {header("Origin", "http://127.0.0.1:9480"), false},
		"proxy that says so":  {header("X-Forwarded-Proto", "https"), true},
		"several proxies":     {header("X-Forwarded-Proto", "HTTPS, http"), true},
		"plain at the first":  {header("X-Forwarded-Proto", "http, https"), false},
		"from a page of TLS":  {header("Origin", "https://127.0.0.1:9480"), true},
		"TLS of another kind": {func(r *http.Request) { r.TLS = &tls.ConnectionState{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := signedIn(t)
			answer := ask(t, c, http.MethodPost, "/sign-in", "name=ana&password=secret", is.change)
			require.Equal(t, http.StatusSeeOther, answer.StatusCode)
			cookie := answer.Cookies()[0]
			require.Equal(t, is.secure, cookie.Secure)
			require.Equal(t, is.secure, strings.HasPrefix(cookie.Name, "__Host-"))

			// it is known by it, and signed out
			with := func(r *http.Request) { r.AddCookie(cookie); is.change(r) }
			require.Contains(t, text(t, ask(t, c, http.MethodGet, "/", "", with)), "ana</span>")
			out := ask(t, c, http.MethodPost, "/sign-out", "", with)
			require.Equal(t, cookie.Name, out.Cookies()[0].Name)
			require.Negative(t, out.Cookies()[0].MaxAge)
			require.NotContains(t, text(t, ask(t, c, http.MethodGet, "/", "", with)), "ana</span>")
		})
	}
}

func TestGuessesByTheProxyAreCountedForWhomItHasSeen(t *testing.T) {
	c := newConsole(t, Options{Proxy: &Proxy{Header: "X-Forwarded-User", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
	for _, is := range []struct{ from, seen, want string }{
		{"10.0.0.5:1", "192.0.2.7", "192.0.2.7"},
		{"10.0.0.5:1", "198.51.100.9, 192.0.2.7", "192.0.2.7"}, // what comes first a client has written
		{"10.0.0.5:1", "192.0.2.7, 10.0.0.6", "192.0.2.7"},     // two proxies
		{"10.0.0.5:1", "2001:db8::7", "2001:db8::"},
		{"10.0.0.5:1", "192.0.2.7, nonsense", "10.0.0.5"},
		{"10.0.0.5:1", "", "10.0.0.5"},
		{"192.0.2.1:1", "198.51.100.9", "192.0.2.1"}, // none of the proxies
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = is.from
		r.Header.Set("X-Forwarded-For", is.seen)
		require.Equal(t, is.want, c.remote(r), "%s %s", is.from, is.seen)
	}
}

func TestMonitorsAskUnderNamesThatNoPageOfTheInternetHas(t *testing.T) {
	h := ForMonitors([]string{"Locks.example.org"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:9480": 200, "10.1.2.3:9464": 200, "[fd00::1]:9464": 200, "localhost": 200, "locks.example.org:443": 200, "": 200,
		"lockkeeper:9464": 200, "lockkeeper.ops.svc:9464": 200, "lockkeeper.ops.svc.cluster.local": 200, "node-7.eu.internal": 200,
		"evil.example": 421, "evil.example:9464": 421, "127.0.0.1.evil.example": 421, "svc.evil.example": 421, "lockkeeper.svc.evil": 421, "local.": 200,
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
		if want != http.StatusOK {
			require.Contains(t, w.Body.String(), "console: {hosts: [...]}, or in the address that is listened on")
		}
	}
}

func TestUsersFileThatChangesEndsSessionsOfThoseWhoAreGone(t *testing.T) {
	file := usersFile(t, map[string]string{"ana": "secret"})
	now := noon
	users, err := LoadUsers(file, nil, func() time.Time { return now })
	require.NoError(t, err)
	proof, err := users.check(t.Context(), "10.0.0.1", "ana", "secret")
	require.NoError(t, err)
	require.True(t, users.still("ana", proof))

	data, err := os.ReadFile(usersFile(t, map[string]string{"ben": "other", "cleo": "third"}))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	now = now.Add(2 * time.Second)
	require.False(t, users.still("ana", proof))
	_, err = users.check(t.Context(), "10.0.0.1", "ben", "other")
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	now = now.Add(2 * time.Second)
	_, err = users.check(t.Context(), "10.0.0.1", "ben", "other")
	require.Equal(t, http.StatusServiceUnavailable, problemOf(err).Status, "an unreadable file lets no user in")
}

func TestUsersFileIsRefusedWithAllThatIsWrong(t *testing.T) {
	dear, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	require.NoError(t, err)
	text := "# people\n\nana:" + string(dear) + "\nana:" + string(dear) + "\nben:{SHA}abc\nnobody\ncleo:" + strings.Replace(string(dear), "$04$", "$31$", 1) + "\n"
	_, err = parseUsers("users", []byte(text))
	require.EqualError(t, err, `users:4: "ana" is there twice; keep one of them
users:5: the hash of "ben" is not one of bcrypt; write it with htpasswd -B
users:6: is not name:hash; write it with htpasswd -B
users:7: the hash of "cleo" has cost 31, and takes too long; write one of 14 or less: htpasswd -B -C 12`)
	_, err = parseUsers("users", nil)
	require.ErrorContains(t, err, "no users in it")
}

func TestUsersFileThatAllUsersCanWriteIsRefused(t *testing.T) {
	file := usersFile(t, map[string]string{"ana": "secret"})
	require.NoError(t, os.Chmod(file, 0o666))
	_, err := LoadUsers(file, nil, nil)
	require.EqualError(t, err, file+": is writable by all users (-rw-rw-rw-), who could then sign in under any name; look who is in it, then chmod 600 "+file)
}

func TestProxyIsBelievedFromItsAddressAlone(t *testing.T) {
	o := &recorded{}
	c := newConsole(t, Options{Operator: o, Proxy: &Proxy{Header: "X-Forwarded-User", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
	form := "do=preempt&reason=because&token=7301444"
	from := func(addr string, names ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.RemoteAddr = addr
			for _, name := range names {
				r.Header.Add("X-Forwarded-User", name)
			}
		}
	}
	require.Equal(t, 303, ask(t, c, http.MethodPost, orders, form, from("10.1.2.3:9", "ana")).StatusCode)
	require.Equal(t, 303, ask(t, c, http.MethodPost, orders, form, from("[::ffff:10.1.2.3]:9", "ana")).StatusCode)
	require.Equal(t, 401, ask(t, c, http.MethodPost, orders, form, from("192.0.2.1:9", "ana")).StatusCode)
	require.Equal(t, 401, ask(t, c, http.MethodPost, orders, form, from("10.1.2.3:9")).StatusCode)
	require.Equal(t, 401, ask(t, c, http.MethodPost, orders, form, from("10.1.2.3:9", "ana", "ben")).StatusCode, "somebody has added one")
	require.Equal(t, 401, ask(t, c, http.MethodPost, orders, form, from("10.1.2.3:9", "a\tb")).StatusCode)
	require.Len(t, o.all(), 2)
}

func TestSignInDoesNotLeadToItself(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "right"})
	c := newConsole(t, Options{Users: users})
	page := text(t, ask(t, c, http.MethodGet, "/sign-in?next=/jobs", ""))
	require.Contains(t, page, `href="/sign-in?next=%2fjobs"`)
	require.NotContains(t, page, "next=%2fsign-in")
}

func TestPrivateConsoleShowsNothingToStrangers(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret"})
	c := newConsole(t, Options{Users: users, Private: true})
	for _, target := range allPages {
		answer := ask(t, c, http.MethodGet, target, "")
		page := text(t, answer)
		require.NotContains(t, page, "db-7", target)
		if target != "/sign-in" {
			require.Equal(t, http.StatusSeeOther, answer.StatusCode, target)
		}
	}
	api := ask(t, c, http.MethodGet, "/api/v1/locks", "")
	require.Equal(t, http.StatusUnauthorized, api.StatusCode)
	require.Contains(t, api.Header.Get("WWW-Authenticate"), "Basic")
	require.Equal(t, http.StatusUnauthorized, ask(t, c, http.MethodGet, "/?live=1", "").StatusCode)
	require.Equal(t, http.StatusOK, ask(t, c, http.MethodGet, "/api/v1/locks", "", as("ana", "secret")).StatusCode)
	require.Equal(t, http.StatusUnauthorized, ask(t, c, http.MethodGet, "/api/v1/locks", "", as("ana", "wrong")).StatusCode)
}

func TestOnePersonDoesNotKeepOthersFromSigningIn(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret", "ben": "hidden"})
	c := newConsole(t, Options{Users: users, Private: true})
	var cookies []*http.Cookie
	for range maxSessions {
		answer := ask(t, c, http.MethodPost, "/sign-in", "name=ana&password=secret")
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
		cookies = append(cookies, answer.Cookies()[0])
	}
	require.Equal(t, http.StatusSeeOther, ask(t, c, http.MethodPost, "/sign-in", "name=ben&password=hidden").StatusCode)
	with := func(cookie *http.Cookie) int {
		return ask(t, c, http.MethodGet, "/", "", func(r *http.Request) { r.AddCookie(cookie) }).StatusCode
	}
	require.Equal(t, http.StatusSeeOther, with(cookies[0]), "her first session has ended")
	for _, cookie := range cookies[len(cookies)-maxOwnSessions:] {
		require.Equal(t, http.StatusOK, with(cookie), "her last ones have not")
	}
}

func TestWhoSignsInAgainLeavesNoSessionBehind(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret"})
	c := newConsole(t, Options{Users: users, Private: true})
	first := ask(t, c, http.MethodPost, "/sign-in", "name=ana&password=secret").Cookies()[0]
	again := func(r *http.Request) { r.AddCookie(first) }
	require.Equal(t, http.StatusOK, ask(t, c, http.MethodGet, "/", "", again).StatusCode)
	require.Equal(t, http.StatusSeeOther, ask(t, c, http.MethodPost, "/sign-in", "name=ana&password=secret", again).StatusCode)
	require.Equal(t, "/sign-in?next=%2F", ask(t, c, http.MethodGet, "/", "", again).Header.Get("Location"))
}

func TestImpossibleNamesAreNotKept(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret"})
	c := newConsole(t, Options{Users: users})
	long := strings.Repeat("a", maxBody-100)
	require.Equal(t, http.StatusUnauthorized, ask(t, c, http.MethodPost, "/sign-in", "password=x&name="+long).StatusCode)
	require.NotEmpty(t, users.guesses)
	for key := range users.guesses {
		require.Less(t, len(key), 300, "what strangers send is remembered for each of many addresses")
	}
}
