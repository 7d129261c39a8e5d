package secrets

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// What people are to see, each where it belongs: a test that sees nothing finds no
// secret either.
const (
	ownerSeen   = "seen-owner-71"
	waiterSeen  = "seen-waiter-44"
	messageSeen = "seen-message-93"
	reasonSeen  = "seen-reason-28"
	pauseSeen   = "seen-pause-65"
)

// A look is everything that was shown, by where.
type look struct {
	*scene
	made  map[string]string // secrets that are made anew each time, by what they are
	shown map[string]string
}

// saw looks for all secrets in what was shown.
func (l *look) saw(where, text string) {
	l.Helper()
	l.leaks(where, text)
	l.arguments(where, text)
	for what, secret := range l.made {
		if strings.Contains(text, secret) {
			l.Errorf("%s: %s came out", where, what)
		}
	}
	l.shown[where] += text
}

// command runs the program; its output may have no argument of a command in it either.
func (l *look) command(env []string, args ...string) {
	l.Helper()
	l.saw(strings.Join(args, " "), l.run(env, args...))
}

// certificate writes one of the console, and its key, which is a secret.
func (l *look) certificate() {
	l.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(l, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "console"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(l, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(l, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	l.write("console.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	l.write("console.key", string(text))
	number, err := key.Bytes()
	require.NoError(l, err)
	l.made["the key of the console, as PEM"] = strings.Split(string(text), "\n")[2]
	l.made["the key of the console, as a number"] = fmt.Sprintf("%x", number)
	l.made["the key of the console, in decimal digits"] = new(big.Int).SetBytes(number).String()
}

// people writes who can sign in: their hashes are secrets.
func (l *look) people() {
	l.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(secret("password of a person at the console")), bcrypt.DefaultCost)
	require.NoError(l, err)
	l.made["the hash of a password"] = string(hash[29:])
	l.made["the salt of a hash"] = string(hash[7:29])
	l.write("people", "ana:"+string(hash)+"\n")
}

func (l *look) served() string {
	return `version: 1
zookeeper:
  session_timeout: 2m
  auth: {digest_file: keeper}
  operators: [` + lock.DigestID("keeper", secret("password in digest_file")) + `, ` + lock.DigestID("ana", secret("password of an operator")) + `]
log: {level: debug, format: json}
audit: {file: audit.jsonl}
console: {listen: "127.0.0.1:0", actions: true, sign_in: to_see, users_file: people, tls: {cert_file: console.crt, key_file: console.key}}
metrics: {listen: "127.0.0.1:0"}
temporal: {address: "127.0.0.1:1", api_key_file: api.key, tls: {}}
jobs:
  works: {schedule: "@every 1s", run: {command: [sh, -c, "sleep 0.3", "` + arguments["argument of a job"] + `"], env: {TOKEN: "${FROM_ENVIRONMENT}"}}, locks: [{scope: town/works, message: ` + messageSeen + `}]}
  fails: {schedule: "@every 1s", run: {command: [sh, -c, "exit 3", "` + arguments["argument of a job"] + `"], env: {TOKEN: ` + secret("environment with user") + `}}, locks: [{scope: town/works}]}
  asks:  {schedule: "@every 1s", run: {http: {url: "http://ana:` + secret("password in a URL") + `@127.0.0.1:1/?key=` + secret("query of a URL") + `", headers: {Authorization: "Bearer ` + secret("header of a request") + `"}, body: ` + secret("body of a request") + `}}}
  flows: {schedule: "@every 1s", run: {temporal: {workflow: Rebalance, task_queue: orders, args: [{key: "` + arguments["payload of a workflow"] + `"}]}}, locks: [{scope: town/flows}]}
  idle:  {schedule: "@every 1h", run: ["true"]}
`
}

// contend has somebody hold a lock for which somebody else waits.
func (l *look) contend() {
	l.Helper()
	client := l.Client(func(cfg *lock.Config) {
		cfg.Auth = &lock.Digest{User: "keeper", Password: secret("password in digest_file")}
		cfg.Operators = []string{lock.DigestID("keeper", secret("password in digest_file")), lock.DigestID("ana", secret("password of an operator"))}
	})
	guard, err := lockguard.New(client)
	require.NoError(l, err)
	ctx, stop := context.WithCancel(context.Background())
	held := make(chan struct{})
	do := func(who string, work func(context.Context) error, message string) *harness.Call[any] {
		r := lockguard.Requirement{Scope: "town/held", Class: "town/{name}", Owner: who, Message: message, Terms: priority.Terms{Priority: 5}}
		return harness.Go(l, who, func() (any, error) { return nil, guard.Do(ctx, r, work) })
	}
	holder := do(ownerSeen, func(ctx context.Context) error { close(held); <-ctx.Done(); return nil }, messageSeen)
	harness.Receive(l, held, "the lock is not granted")
	waiter := do(waiterSeen, func(context.Context) error { return nil }, "")
	l.Cleanup(func() {
		stop()
		<-holder.Done()
		<-waiter.Done()
	})
}

// A browser is somebody who looks at a console, having signed in or not.
type browser struct {
	*look
	who string
	url string
	*http.Client
}

func (l *look) browser(who, address string) *browser {
	l.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(l, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	l.Cleanup(transport.CloseIdleConnections)
	return &browser{look: l, who: who, url: "https://" + address, Client: &http.Client{Jar: jar, Transport: transport, Timeout: harness.Patience}}
}

// ask returns the answer, which may be any, with its status and headers in front.
func (b *browser) ask(method, path, body string, headers ...string) string {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(b, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := b.Do(request)
	require.NoError(b, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(b, err)
	var out bytes.Buffer
	out.WriteString(answer.Status + "\r\n")
	_ = answer.Header.Write(&out)
	out.Write(text)
	b.saw(b.who+": "+method+" "+path, out.String())
	return out.String()
}

// deed does something, as ana.
func (b *browser) deed(path string, body map[string]string) {
	b.Helper()
	text, err := json.Marshal(body)
	require.NoError(b, err)
	ana := base64.StdEncoding.EncodeToString([]byte("ana:" + secret("password of a person at the console")))
	said := b.ask(http.MethodPost, path, string(text), "Content-Type", "application/json", "Authorization", "Basic "+ana)
	require.Regexp(b, "^2", said)
}

// follow reads a stream until something has come that was looked for.
func (b *browser) follow(path, until string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), harness.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, http.NoBody)
	require.NoError(b, err)
	request.Header.Set("Accept", "text/event-stream")
	answer, err := b.Do(request)
	require.NoError(b, err)
	defer answer.Body.Close()
	require.Equal(b, "text/event-stream", answer.Header.Get("Content-Type"))
	var all []byte
	for part := make([]byte, 64<<10); !strings.Contains(string(all), until); {
		n, err := answer.Body.Read(part)
		all = append(all, part[:n]...)
		require.NoError(b, err, "the stream of %s has no %q: %s", path, until, all)
	}
	b.saw(b.who+": stream "+path, string(all))
}

// mostPages bounds a walk: there are links to each lock and each kind of order.
const mostPages = 400

var links = regexp.MustCompile(`(?:href|action)="([^"]*)"`)

// walk opens every page to which any leads, and returns how many there were.
func (b *browser) walk(from ...string) int {
	b.Helper()
	seen, next := map[string]bool{}, from
	for len(next) > 0 && len(seen) < mostPages {
		at := next[0]
		next = next[1:]
		here, err := url.Parse(at)
		require.NoError(b, err)
		if seen[page(*here)] {
			continue
		}
		seen[page(*here)] = true
		for _, found := range links.FindAllStringSubmatch(b.ask(http.MethodGet, at, ""), -1) {
			to, err := url.Parse(strings.ReplaceAll(found[1], "&amp;", "&"))
			require.NoError(b, err)
			to = here.ResolveReference(to)
			to.Fragment = ""
			if to.Host == "" && !strings.HasPrefix(to.Path, "/static/") && to.Path != "/sign-in" { // which says where to go on
				next = append(next, to.String())
			}
		}
	}
	return len(seen)
}

// page says what is the same page: a job that runs each second has another token whenever one looks.
func page(at url.URL) string {
	query := at.Query()
	if query.Has("token") {
		query.Set("token", "any")
	}
	at.RawQuery = query.Encode()
	return at.String()
}

// An endpoint is a path of the API, and the methods that it has.
type endpoint map[string]any

// described returns what the description of the API has.
func (b *browser) described() map[string]endpoint {
	b.Helper()
	var spec struct{ Paths map[string]endpoint }
	text := b.ask(http.MethodGet, "/api/v1/openapi.json", "")
	require.NoError(b, json.Unmarshal([]byte(text[strings.Index(text, "\r\n{")+2:]), &spec))
	require.NotEmpty(b, spec.Paths)
	return spec.Paths
}

// interfaces asks for everything that the API has, by these names.
func (b *browser) interfaces(paths map[string]endpoint, names ...string) {
	b.Helper()
	parameter := regexp.MustCompile(`\{[a-z]+\}`)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, name := range names {
			at := parameter.ReplaceAllString(path, url.PathEscape(name))
			if _, reads := paths[path]["get"]; reads {
				b.ask(http.MethodGet, at, "")
			}
			if _, acts := paths[path]["post"]; acts { // what is wrong is said, and only that
				b.ask(http.MethodPost, at, `{"nothing": 1}`, "Content-Type", "application/json")
			}
		}
	}
}

// is fails when something was not shown where it belongs.
func (l *look) is(where, text string) {
	l.Helper()
	if !strings.Contains(l.shown[where], text) {
		l.Errorf("%s does not show %s, and so proves nothing, of %q: %s", where, text, slices.Sorted(maps.Keys(l.shown)), l.shown[where])
	}
}

func TestNoSecretIsShownToThoseWhoLook(t *testing.T) {
	l := &look{scene: newScene(t), made: map[string]string{}, shown: map[string]string{}}
	l.certificate()
	l.people()
	l.write("lockkeeper.yaml", l.served())
	ana := []string{"LOCKKEEPER_ZK_DIGEST_FILE=" + filepath.Join(l.dir, "ana")}

	// given a daemon with a console, jobs of all kinds, and a lock that somebody waits for
	daemon := l.daemon("works", "fails", "asks", "flows")
	address := regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(daemon.Await(t, "the console is served"))
	require.NotNil(t, address)
	l.contend()

	// when somebody who may looks at everything, and acts
	person := l.browser("ana", address[1])
	person.ask(http.MethodPost, "/sign-in", url.Values{"name": {"ana"}, "password": {secret("wrong password")}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	person.ask(http.MethodPost, "/sign-in", url.Values{"name": {"ana"}, "password": {secret("password of a person at the console")}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	person.deed("/api/v1/jobs/idle/pause", map[string]string{"reason": pauseSeen, "for": "1h"})
	l.command(ana, "override", "apply", "INC-1", "--kind", "freeze", "--scope", "town/other", "--for", "1h", "--reason", reasonSeen)
	for path, text := range map[string]string{"/api/v1/overrides": reasonSeen, "/api/v1/locks/town%2Fheld": waiterSeen} {
		harness.Eventually(t, func() bool { return strings.Contains(person.ask(http.MethodGet, path, ""), text) }, "%s does not show %s", path, text)
	}
	pages := person.walk("/", "/jobs/works", "/locks/town/held", "/locks/town/nowhere", "/jobs/none", "/waits", "/heat", "/groups", "/groups/none", "/overrides", "/approvals", "/audit", "/events",
		"/metrics", "/healthz", "/readyz")
	require.Greater(t, pages, 40)
	require.Less(t, pages, mostPages, "there are more pages than were looked at")
	paths := person.described()
	person.interfaces(paths, "town/held", "town/works", "works", "flows", "asks", "idle", "INC-1", "nothing")
	person.follow("/api/v1/events", "works")
	for page, text := range map[string]string{"/": "town/held", "/locks/town/held": ownerSeen, "/jobs": "flows", "/jobs/works": "works", "/waits": waiterSeen, "/overrides": reasonSeen, "/audit": reasonSeen, "/events": "works"} {
		person.follow(page+"?live=1", text)
	}
	// and somebody who may not
	stranger := l.browser("a stranger", address[1])
	stranger.walk("/", "/sign-in", "/jobs/works", "/metrics", "/healthz", "/readyz")
	stranger.interfaces(paths, "town/held", "works", "nothing")
	// and from a terminal
	for _, args := range [][]string{
		{"locks", "ls", "-o", "json"},
		{"locks", "ls", "-o", "wide"},
		{"locks", "show", "town/held", "-o", "json"},
		{"locks", "show", "town/works", "-o", "json"},
		{"locks", "why", waiterSeen, "-o", "json"},
		{"locks", "why", "works", "-o", "json"},
		{"locks", "timeline", "town/held", "--for", "0s"},
		{"locks", "timeline", "town/held", "--for", "0s", "-o", "svg"},
		{"locks", "timeline", "town/works", "--for", "2s", "-o", "json"},
		{"top", "--once"},
		{"top", "--once", "-o", "json"},
		{"jobs", "ls", "-o", "json"},
		{"jobs", "history", "flows", "-o", "json"},
		{"override", "ls", "-o", "json"},
		{"approvals", "ls", "-o", "json"},
		{"audit", "-o", "json"},
		{"dashboards", "ls"},
		{"dashboards", "print", "locks"},
		{"dashboards", "print", "rules"},
	} {
		l.command(ana, args...)
	}

	// then they have seen what they should
	for where, text := range map[string]string{
		"ana: GET /locks/town/held":                   messageSeen,
		"ana: GET /waits":                             waiterSeen,
		"ana: GET /jobs/idle":                         pauseSeen,
		"ana: GET /overrides":                         reasonSeen,
		"ana: GET /audit":                             reasonSeen,
		"ana: GET /metrics":                           "lockkeeper_lock_wait_duration_seconds_bucket",
		"ana: GET /api/v1/locks":                      ownerSeen,
		"ana: GET /api/v1/locks/town%2Fheld/timeline": waiterSeen,
		"ana: GET /api/v1/jobs/idle":                  pauseSeen,
		"ana: GET /api/v1/audit":                      pauseSeen,
		"ana: GET /api/v1/events":                     "town/works",
		"locks ls -o json":                            messageSeen,
		"locks show town/held -o json":                ownerSeen,
		"locks why " + waiterSeen + " -o json":        ownerSeen,
		"locks timeline town/held --for 0s":           waiterSeen,
		"locks timeline town/held --for 0s -o svg":    ownerSeen,
		"locks timeline town/works --for 2s -o json":  "works",
		"top --once":                                  ownerSeen,
		"jobs ls -o json":                             pauseSeen,
		"override ls -o json":                         reasonSeen,
		"audit -o json":                               reasonSeen,
	} {
		l.is(where, text)
	}
	require.NotContains(t, l.shown["a stranger: GET /"]+l.shown["a stranger: GET /api/v1/locks"], ownerSeen)

	// and no secret is in the log, in what was exported, in the tree or in a file
	shell := l.shell()
	require.Greater(t, l.nodes(shell, l.Root), 20)
	daemon.Stop()
	l.saw("the log", daemon.String())
	l.is("the log", "user signed in to the console")
	l.saw("telemetry", l.receiver.Text())
	l.is("telemetry", messageSeen)
	l.left("keeper", "ana", "wrong", "key.pem", "api.key", "lockkeeper.yaml", "people", "console.key")
}
