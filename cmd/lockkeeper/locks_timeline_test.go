package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// timelineOf runs locks timeline without anything of the machine's environment.
func timelineOf(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for _, name := range []string{consoleVariable, "LC_ALL", "LC_CTYPE", "LANG", "COLUMNS"} {
		if _, given := os.LookupEnv(name); given && name != consoleVariable {
			t.Setenv(name, "")
		}
	}
	return runProgram(append([]string{"locks", "timeline"}, args...)...)
}

func TestTimelineOfWhatZooKeeperTellsNow(t *testing.T) {
	f := newFortress(t, time.Minute)
	now := func(args ...string) string {
		code, out, errs := timelineOf(t, append(args, "db/orders", "--for", "0s", "--zk", f.zk.Addr(), "--zk-digest-file", f.file)...)
		require.Zero(t, code, errs)
		require.Empty(t, errs)
		return out
	}

	var line live.Timeline
	require.NoError(t, json.Unmarshal([]byte(now("-o", "json")), &line))
	require.Equal(t, "db/orders", line.Scope)
	require.Len(t, line.Rows, 2)
	batch, next := line.Rows[0], line.Rows[1]
	require.Equal(t, "batch", batch.Owner)
	require.Equal(t, live.SpellHolding, batch.Spells[len(batch.Spells)-1].Kind)
	require.Equal(t, f.token, batch.Spells[len(batch.Spells)-1].Token)
	require.Equal(t, "next", next.Owner)
	require.Equal(t, live.SpellWaiting, next.Spells[0].Kind)
	require.Zero(t, next.Spells[0].To, "it goes on")
	require.False(t, line.From.After(batch.Spells[0].From), "it begins with those who are there")
	require.WithinRange(t, line.Known, line.From, line.To)

	ascii := now()
	require.Contains(t, ascii, "2 requests")
	require.Contains(t, ascii, "batch")
	for _, r := range ascii {
		require.Less(t, r, rune(0x80), "this locale has no UTF-8")
	}
	require.Contains(t, now("-o", "text"), "█")
	t.Setenv("LC_ALL", "C.UTF-8")
	code, out, errs := runProgram("locks", "timeline", "db/orders", "--for", "0s", "--zk", f.zk.Addr(), "--zk-digest-file", f.file)
	require.Zero(t, code, errs)
	require.Contains(t, out, "█")
	require.NotContains(t, out, "\x1b", "this is no terminal")

	svg := now("-o", "svg")
	require.True(t, strings.HasPrefix(svg, "<svg "), svg[:20])
	require.Contains(t, svg, "<style>", "it is a file of its own")
	require.Contains(t, svg, ">next</text>")
}

func TestTimelineOfLocksThatAreNotThere(t *testing.T) {
	f := newFortress(t, time.Minute)
	code, out, errs := timelineOf(t, "db/order", "--for", "0s", "--zk", f.zk.Addr(), "--zk-digest-file", f.file)
	require.Equal(t, exitConfig, code)
	require.Empty(t, out)
	require.Equal(t, "lockkeeper: lock \"db/order\" was never locked; look at the spelling: a scope is written in full, and lockkeeper locks ls lists those that there are\n", errs)
}

func TestTimelineFlags(t *testing.T) {
	code, _, errs := timelineOf(t, "a//b", "-o", "table", "--for", "-1s", "--range", "2h", "--console", "localhost:9480")
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, `lockkeeper: --output: "table" is unknown; write text, ascii, svg or json`)
	require.Contains(t, errs, `lockkeeper: --range: "2h" is unknown; write 10m, 1h, 6h or 24h`)
	require.Contains(t, errs, `lockkeeper: SCOPE: "a//b" has an empty part`)
	require.Contains(t, errs, "lockkeeper: --for: -1s is negative; ")
	require.Contains(t, errs, "lockkeeper: --for does not go with --console")

	for address, want := range map[string]string{
		"":                            "--console is empty",
		"localhost:9480":              `"localhost:9480" is not the address of a console; write for example http://127.0.0.1:9480`,
		"http://":                     "is not the address of a console",
		"http://h/?x=1":               "has more than an address",
		"http://ana:hush@zk1:9480":    `"http://ana:xxxxx@zk1:9480" would send a password that the network can read; write https://`,
		"https://ana:hush@zk1:9480:1": "that is not an address",
	} {
		code, _, errs := timelineOf(t, "a", "--console", address)
		require.Equal(t, exitConfig, code, address)
		require.Contains(t, errs, want)
		require.NotContains(t, errs, "hush")
	}
}

// A lookedAt console shows a fortress, at one moment.
func lookedAt(t *testing.T, change func(*console.Options)) (*httptest.Server, *fortress) {
	f := newFortress(t, time.Minute)
	sees, err := openObservatory(t.Context(), &config.Config{Client: lock.Config{
		Servers: []string{f.zk.Addr()}, Root: "/lockkeeper", Auth: ana,
	}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(sees.end)
	for snap := range sees.board.Changes(t.Context()) {
		if snap.Complete && snap.Totals.Waiters == 1 {
			break
		}
	}
	now := f.client.Now()
	o := console.Options{Board: sees.board, Now: func() time.Time { return now }}
	if change != nil {
		change(&o)
	}
	page, err := console.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(page.Handler())
	t.Cleanup(server.Close)
	return server, f
}

func TestTimelineOfAConsoleIsThatOfItsAPI(t *testing.T) {
	server, f := lookedAt(t, nil)
	response, err := http.Get(server.URL + "/api/v1/locks/db%2Forders/timeline?range=1h")
	require.NoError(t, err)
	want, err := io.ReadAll(response.Body)
	require.NoError(t, response.Body.Close())
	require.NoError(t, err)

	for _, address := range []string{server.URL, server.URL + "/"} {
		code, out, errs := timelineOf(t, "db/orders", "--range", "1h", "-o", "json", "--console", address)
		require.Zero(t, code, errs)
		require.Equal(t, string(want), out, "byte for byte")
		require.Empty(t, errs)
	}

	t.Setenv(consoleVariable, server.URL)
	code, out, errs := timelineOf(t, "db/orders")
	require.Zero(t, code, errs)
	require.Contains(t, out, "batch")
	t.Setenv(consoleVariable, "http://127.0.0.1:1")
	code, out, errs = timelineOf(t, "db/orders", "--for", "0s", "--zk", f.zk.Addr(), "--zk-digest-file", f.file)
	require.Zero(t, code, errs)
	require.Contains(t, out, "batch", "it was not asked")
}

func TestTimelineOfAConsoleThatWantsToKnowWhoAsks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	hash, err := bcrypt.GenerateFromPassword([]byte("hush"), bcrypt.MinCost)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append([]byte("ana:"), append(hash, '\n')...), 0o600))
	server, _ := lookedAt(t, func(o *console.Options) {
		var err error
		o.Users, err = console.LoadUsers(file, nil, nil)
		require.NoError(t, err)
		o.Private = true
	})
	with := func(user string) string { return strings.Replace(server.URL, "http://", "http://"+user+"@", 1) }

	code, _, errs := timelineOf(t, "db/orders", "--console", server.URL)
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "shows that only to those who sign in; put a name and a password into its address, LOCKKEEPER_CONSOLE=http://NAME:PASSWORD@127.0.0.1:")

	code, _, errs = timelineOf(t, "db/orders", "--console", with("ana:wrong"))
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "refuses the name and the password in its address: ")
	require.NotContains(t, errs, "ana:wrong")

	code, out, errs := timelineOf(t, "db/orders", "--console", with("ana:hush"))
	require.Zero(t, code, errs)
	require.Contains(t, out, "batch")
}

func TestWhatIsNoConsoleIsToldFromOneThatIsSilent(t *testing.T) {
	const (
		html    = "text/html; charset=utf-8"
		asJSON  = "application/json"
		trouble = "application/problem+json"
	)
	answer := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Location", "https://login.example/?next=secret")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		code    int
		want    string
	}{
		"a page":            {answer(200, html, "<h1>hello</h1>"), exitConfig, "is not one of this version of Lockkeeper: it answers with text/html; name the address that a daemon's configuration has in console: {listen: ...}"},
		"something else":    {answer(404, html, "404"), exitConfig, "is not one of this version of Lockkeeper: it answers with 404 Not Found"},
		"other JSON":        {answer(200, asJSON, `{"hello": "world"}`), exitConfig, `it answers about ""`},
		"no JSON":           {answer(200, asJSON, `{"scope": `), exitConfig, "its answer cannot be read: "},
		"a page to sign in": {answer(302, html, ""), exitConfig, "sends us to https://login.example/, perhaps to sign in; "},
		"behind a proxy":    {answer(401, trouble, `{"detail": "sign-in required", "next": "come by the proxy"}`), exitConfig, "refuses: sign-in required; come by the proxy"},
		"another name":      {answer(421, trouble, `{"detail": "the console does not go by the name x", "next": "use its address"}`), exitConfig, "refuses: the console does not go by the name x; use its address"},
		"not now":           {answer(503, html, ""), exitNotAcquired, "cannot answer now: 503 Service Unavailable"},
		"ZooKeeper":         {answer(503, trouble, `{"detail": "ZooKeeper does not answer", "next": "try again"}`), exitNotAcquired, "cannot answer now: ZooKeeper does not answer; try again"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			t.Cleanup(server.Close)
			code, out, errs := timelineOf(t, "db/orders", "--console", server.URL)
			require.Equal(t, c.code, code, errs)
			require.Contains(t, errs, c.want)
			require.Contains(t, errs, "the console at "+server.URL)
			require.Empty(t, out)
			require.NotContains(t, errs, "secret")
		})
	}

	secure := httptest.NewTLSServer(answer(200, asJSON, "{}"))
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = nil
	code, _, errs := timelineOf(t, "db/orders", "--console", secure.URL)
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "the certificate of the console at "+secure.URL+" is not trusted here: ")
	require.Contains(t, errs, "; SSL_CERT_FILE=FILE names the certificates of authorities to trust")
	code, _, errs = timelineOf(t, "db/orders", "--console", strings.Replace(secure.URL, "https", "http", 1))
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "perhaps because it expects https")

	plain := httptest.NewServer(answer(200, asJSON, "{}"))
	code, _, errs = timelineOf(t, "db/orders", "--console", strings.Replace(plain.URL, "http", "https", 1))
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "does not speak TLS; write http:// in its address")
	plain.Close()
	code, _, errs = timelineOf(t, "db/orders", "--console", "http://127.0.0.1:1")
	require.Equal(t, exitNotAcquired, code)
	require.Contains(t, errs, "does not answer: ")
	require.Contains(t, errs, "connection refused; check the address, and that the daemon runs with console: {listen: ...}")
}
