package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// litter is what somebody with the credentials of a job can leave anywhere.
func litter() map[string]string {
	return map[string]string{
		"empty": "", "newer": `{"format":9}`, "types": `{"format":1,"owner":[],"job":[],"name":{},"locks":"x","holders":true,"overrides":7,"scope":[]}`,
		"list": `[1]`, "bytes": "\x00\xff{\u202e", "big": strings.Repeat("x", 1_000_000),
	}
}

// spoiled is a root with credentials in which all is well, with junk in every
// directory.
type spoiled struct {
	*fixture
	client    *lock.Client
	dir       string
	questions []string
	token     lock.Token // of the holder of good/break

	// The bad ones, by the room.
	bad map[string][]string
}

func newSpoiled(t *testing.T) *spoiled {
	h := &fixture{harness.New(t, shared.Server(t))}
	require.NoError(t, h.Shell().AddAuth("digest", []byte("ana:secret")))
	v := &spoiled{fixture: h, dir: t.TempDir(), bad: map[string][]string{}}
	v.client = h.Client(func(cfg *lock.Config) { cfg.Auth = &lock.Digest{User: "ana", Password: "secret"} })
	v.settle()
	v.spoil()
	return v
}

// settle makes what is good.
func (v *spoiled) settle() {
	ctx := v.Context()
	hold := func(scope string) *harness.Request {
		return v.Hold(v.Lock(v.client, scope), "holder", func(r *lock.Request) { r.Message = "\u202etxt.exe" })
	}
	hold("good/lock")
	hold("good/preempt")
	hold("good/\u202etxt.exe")
	v.token = hold("good/break").Token()
	_, err := v.client.TickLedger("past").RecordSkip(ctx, "good", "first", time.Now().Add(-time.Hour))
	require.NoError(v, err)
	group, err := group.New(v.client.Client, group.Spec{Name: "good", Locks: []string{"a", "b"}})
	require.NoError(v, err)
	_, err = group.Apply(ctx)
	require.NoError(v, err)
	for range 3 {
		open, err := v.client.Approvals().Open(ctx, opstore.ApprovalRequest{Scope: "good/lock", Requestor: opstore.AuditParty{Owner: "asker"}})
		require.NoError(v, err)
		v.questions = append(v.questions, open.ID())
	}
	trail, err := v.client.AuditLog(0)
	require.NoError(v, err)
	for range 3 {
		_, err := trail.Append(ctx, opstore.AuditEntry{Action: opstore.AuditBreak, Phase: opstore.AuditIntent, By: "ana", Scope: "good/lock"})
		require.NoError(v, err)
	}
	config := fmt.Sprintf(`
version: 1
zookeeper: {servers: [%q], root: %s, auth: {digest_file: %s}}
state_dir: %s
console: {listen: "127.0.0.1:0"}
jobs:
  good: {schedule: "@every 1h", run: ["true"], locks: [{scope: good/job}]}
groups:
  - {name: good, locks: [a, b]}
`, shared.Server(v).Addr(), v.Root, filepath.Join(v.dir, "ana"), v.dir)
	require.NoError(v, os.WriteFile(filepath.Join(v.dir, "ana"), []byte("ana:secret"), 0o600))
	require.NoError(v, os.WriteFile(filepath.Join(v.dir, "lockkeeper.yaml"), []byte(config), 0o600))
}

// spoil leaves junk in every room, nodes that may not be read, directories in the
// place of nodes, and bad names.
func (v *spoiled) spoil() {
	ana, bob := zk.DigestACL(zk.PermAll, "ana", "secret"), zk.DigestACL(zk.PermAll, "bob", "secret")
	plant := func(room, node, data string, flags int32, acl []zk.ACL) {
		for i := len(v.Root) + 1; i < len(v.Root+node); i++ {
			if (v.Root + node)[i] == '/' {
				_, _ = v.Shell().Create((v.Root + node)[:i], nil, 0, ana) // else it is there
			}
		}
		v.put(v.Root+node, data, flags, acl)
		v.bad[room] = append(v.bad[room], v.Root+node)
	}
	good := strings.TrimPrefix(v.escaped("good/lock"), v.Root)
	n := 700
	for kind, data := range litter() {
		n++
		plant("ticks", "/ticks/bad-"+kind, data, 0, ana)
		plant("groups", "/groups/bad-"+kind, data, 0, ana)
		plant("approvals", fmt.Sprintf("/approvals/a-%010d", n), data, 0, ana)
		plant("requests", "/requests/"+guid(n), data, 0, ana)
		if kind != "empty" { // that is a lock that was never held
			plant("locks", strings.TrimPrefix(v.lockNode("bad-"+kind), v.Root), data, 0, ana)
		}
		plant("contenders", good+"/"+request(0, n), data, zk.FlagEphemeral, ana)
	}
	// Behind all participants: one in front, alive, decides for them, even if it cannot be read; a newer version's does.
	plant("members", "/groups/good/members/m-"+guid(1)+"-1000000001", "x", zk.FlagEphemeral, ana)
	plant("ticks", "/ticks/bad-denied", "{}", 0, bob)
	plant("groups", "/groups/bad-denied", "{}", 0, bob)
	plant("approvals", "/approvals/a-0000000799", "{}", 0, bob)
	plant("requests", "/requests/"+guid(799), "{}", 0, bob)
	plant("locks", strings.TrimPrefix(v.lockNode("bad-denied"), v.Root), `{"format":1}`, 0, bob)
	plant("contenders", good+"/"+request(0, 799), "{}", zk.FlagEphemeral, bob)
	plant("members", "/groups/good/members/m-"+guid(2)+"-1000000002", "{}", zk.FlagEphemeral, bob)
	for _, free := range []string{"00", "01", "02", "03", "04", "05"} { // an unused bucket
		if there, _, err := v.Shell().Exists(v.Root + "/locks/" + free); err == nil && !there {
			plant("locks", "/locks/"+free, "", 0, bob)
			v.bad["bucket"] = []string{v.Root + "/locks/" + free}
			break
		}
	}
	plant("below", "/ticks/bad-directory/below", "", 0, ana)
	plant("below", "/groups/bad-directory/below", "", 0, ana)
	plant("below", "/requests/bad-directory/below", "", 0, ana)
	plant("below", "/overrides/below", "", 0, ana)
	v.bad["ticks"] = append(v.bad["ticks"], v.Root+"/ticks/bad-directory")
	v.bad["groups"] = append(v.bad["groups"], v.Root+"/groups/bad-directory")
	v.bad["requests"] = append(v.bad["requests"], v.Root+"/requests/bad-directory")
	plant("ticks", "/ticks/a%2", "", 0, ana)
	plant("groups", "/groups/a%2", "", 0, ana)
	plant("approvals", "/approvals/x", "", 0, ana)
	plant("members", "/groups/good/members/x", "", 0, ana)
	plant("locks", "/locks/"+strings.Split(good, "/")[2]+"/a%2", "", 0, ana)
	plant("notes", "/emergency/notes/bad", "x", 0, ana)
	record := v.Root + "/audit/log/0000000002"
	v.Set(record, []byte("x"))
	v.bad["audit"] = []string{record}
}

// escaped is the node of a scope with a slash.
func (v *spoiled) escaped(scope string) string {
	bucket := strings.Split(strings.TrimPrefix(v.lockNode(strings.ReplaceAll(scope, "/", "%2F")), v.Root), "/")[2]
	return v.Root + "/locks/" + bucket + "/" + strings.ReplaceAll(scope, "/", "%2F")
}

// in are the bad nodes of some rooms.
func (v *spoiled) in(rooms ...string) (all []string) {
	for _, room := range rooms {
		require.NotEmpty(v, v.bad[room], room)
		all = append(all, v.bad[room]...)
	}
	return all
}

// command is one run of the program, from where no configuration is.
func (v *spoiled) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = v.dir
	c.Env = append(os.Environ(), "COLUMNS=1000", "LOCKKEEPER_ZK="+shared.Server(v).Addr(), "LOCKKEEPER_ROOT="+v.Root,
		"LOCKKEEPER_ZK_DIGEST_FILE="+filepath.Join(v.dir, "ana"), "GORACE=atexit_sleep_ms=0")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = harness.Patience
	return c
}

// A use is a command with all that it needs, and what has to come of it.
type use struct {
	args  string   // separated by blanks
	code  int      // of the exit
	says  string   // of the good ones
	names []string // the bad nodes that it names, on either output
	ends  bool     // it has no end: it is asked to end when it has said so
}

// uses are all commands that there are.
func (v *spoiled) uses(served string) map[string]use {
	q, locks := v.questions, v.in("locks", "contenders")
	return map[string]use{
		"approvals approve": {args: q[0] + " -r test"},
		"approvals deny":    {args: q[1] + " -r test"},
		"approvals force":   {args: q[2] + " -r test"},
		"approvals ls":      {says: q[0], names: v.in("approvals")},
		"audit":             {says: "good/lock", names: v.in("audit")},
		"audit verify":      {code: 1, says: "record 2"},
		"bench":             {args: "--for 1s --clients 1 --yes", says: "own lock"},
		"completion bash":   {says: "lockkeeper"}, "completion fish": {says: "lockkeeper"},
		"completion powershell": {says: "lockkeeper"}, "completion zsh": {says: "lockkeeper"},
		"config explain":   {args: "good --offline", says: "good"},
		"config init":      {args: "-", says: "version: 1"},
		"config operator":  {says: "digest:ana"},
		"config schema":    {says: "jobs"},
		"config validate":  {},
		"dashboards ls":    {says: "contention"},
		"dashboards print": {args: "rules", says: "groups"},
		"dashboards write": {args: filepath.Join(v.dir, "dashboards")},
		"dev":              {args: "--zk " + shared.Server(v).Addr() + " --root " + v.Root + " --for 3s --console off"},
		"doctor":           {args: "--timeout 1m", code: 1, says: "ok", names: slices.Concat(v.in("approvals", "audit", "groups", "members", "notes", "requests", "ticks"), locks)},
		"exec":             {args: "--scope good/exec -- echo worked", says: "worked"},
		"gc":               {args: "--older 1s --scope never/*", names: v.bad["bucket"]},
		"group join":       {args: "--name worker", says: "worker acquired lock:", ends: true},
		"group ls":         {says: "good", names: v.in("groups", "members")},
		"group plan":       {args: "--join b", says: "b"},
		"group show":       {args: "good", says: "lockName", names: v.in("members")},
		"healthcheck":      {args: "--url http://" + served, says: "alive"},
		"init":             {},
		"jobs advise":      {code: -1}, // there is no measure of anything yet
		"jobs history":     {args: "good", says: "first"},
		"jobs ls":          {says: "good", names: v.in("ticks")},
		"jobs next":        {args: "good"},
		"jobs pause":       {args: "good -r test", says: "good: paused"},
		"jobs rewind":      {args: "good -r test", says: "good: is not ahead"},
		"jobs resume":      {args: "good", says: "good: resumed"},
		"jobs run":         {args: "good -r test --wait", says: "good"},
		"locks break":      {args: "good/break --yes -r test --token " + v.token.String(), says: "good/break"},
		"locks ls":         {args: "-o wide", says: "good/\uFFFDtxt.exe", names: locks},
		"locks preempt":    {args: "good/preempt --force -r test", says: "was taken from holder"},
		"locks show":       {args: "good/lock", says: "holder", names: v.in("contenders")},
		"locks timeline":   {args: "good/lock --for 0s", says: "holder"},
		"locks why":        {args: "good/lock", says: "holder", names: slices.Concat(locks, v.in("approvals"))},
		"override apply":   {args: "stop --kind freeze -s elsewhere/* --for 1h -r test", says: "in force until", names: locks},
		"override clear":   {args: "stop -r test", says: "cleared"},
		"override ls":      {says: "stop"},
		"run":              {says: "the console is served", ends: true},
		"top":              {args: "--once", says: "good/lock", names: locks},
		"version":          {says: "lockkeeper"},
	}
}

// inOrder are those that come one after the other.
var inOrder = []string{"approvals ls", "override apply", "override ls", "override clear", "jobs pause", "jobs resume", "audit"}

// commandsOf asks the program for the commands that there are below one.
func (v *spoiled) commandsOf(path ...string) (all []string) {
	help, err := v.command(v.Context(), append(slices.Clone(path), "--help")...).Output()
	require.NoError(v, err)
	text, _, _ := strings.Cut(string(help), "\nFlags:")
	_, text, _ = strings.Cut(text, "\nUsage:")
	text, _, _ = strings.Cut(text, "\nExamples:")
	subs := regexp.MustCompile(`(?m)^  ([a-z]+) +\S`).FindAllStringSubmatch(text, -1)
	subs = slices.DeleteFunc(subs, func(m []string) bool { return m[1] == "lockkeeper" }) // the line of usage
	if len(subs) == 0 || strings.Contains(text, "[flags]") && len(path) > 0 {
		all = append(all, strings.Join(path, " "))
	}
	for _, m := range subs {
		all = append(all, v.commandsOf(append(slices.Clone(path), m[1])...)...)
	}
	return all
}

// One unreadable record disables nothing but what it is about: every command and
// every page does its work for the good ones, and names the bad ones.
func TestJunkInEveryRoomStopsNoCommandAndNoPage(t *testing.T) {
	v := newSpoiled(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	daemon := harness.StartDaemon(t, v.command(ctx, "run"))
	served := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(daemon.Await(t, "the console is served"))
	require.NotNil(t, served)
	v.browse(ctx, served[1])

	uses := v.uses(served[1])
	all := v.commandsOf()
	require.Len(t, uses, len(all), "a command has no use here, or is there no more: %q", all)
	later := slices.DeleteFunc(slices.Clone(all), func(c string) bool { return slices.Contains(inOrder, c) })
	for _, name := range slices.Concat(inOrder, later) {
		u, known := uses[name]
		require.True(t, known, "%s: say how to use it here, and what it has to name", name)
		t.Run(name, func(t *testing.T) {
			run, over := context.WithTimeout(ctx, 2*time.Minute)
			defer over()
			var c *exec.Cmd
			var said string
			harness.Eventually(t, func() bool {
				c = v.command(run, append(strings.Fields(name), strings.Fields(u.args)...)...)
				if u.ends {
					d := harness.StartDaemon(t, c)
					d.Await(t, u.says)
					d.Stop()
					said = d.String()
				} else {
					out, _ := c.CombinedOutput()
					said = string(out)
				}
				return u.code != 0 || !harness.Unanswered(c.ProcessState.ExitCode(), said)
			}, "%s is answered", name)
			require.NotContains(t, said, "panic:")
			require.NotContains(t, said, "\u202e")
			if u.code >= 0 {
				require.Equal(t, u.code, c.ProcessState.ExitCode(), said)
			}
			require.Contains(t, said, u.says)
			for _, node := range u.names {
				require.Contains(t, said, node)
			}
		})
	}
	daemon.Stop()
	log := daemon.String()
	require.NotContains(t, log, "panic")
	for _, node := range v.in("requests") {
		require.Equal(t, 1, strings.Count(log, node), "the daemon names a request that it cannot read, once: %s", log)
	}
}

// browse looks at all pages, and asks for all that the API has.
func (v *spoiled) browse(ctx context.Context, address string) {
	v.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	get := func(path string) (string, http.Header) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		require.NoError(v, err)
		answer, err := client.Do(r)
		require.NoError(v, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(v, err)
		require.Equal(v, http.StatusOK, answer.StatusCode, "%s: %s", path, text)
		return string(text), answer.Header
	}
	defer client.CloseIdleConnections()
	lists := slices.Concat(v.in("bucket"), slices.DeleteFunc(v.in("locks"), func(node string) bool { return !strings.HasSuffix(node, "a%2") }))
	harness.Eventually(v, func() bool { // it shows what it has read so far
		text, _ := get("/api/v1/locks")
		return strings.Contains(text, `"complete": true`)
	}, "the console has not looked at all locks")
	home, _ := get("/")
	pages := map[string][]string{
		"/": append(lists, "good/break"), "/approvals": v.in("approvals"), "/audit": v.in("audit"), "/groups": v.in("groups", "members"), "/jobs": v.in("ticks"),
		"/groups/good": v.in("members"), "/jobs/good": nil, "/locks/good/lock": nil,
	}
	for _, m := range regexp.MustCompile(`href="(/[a-z]*)"`).FindAllStringSubmatch(home, -1) {
		if _, known := pages[m[1]]; !known {
			pages[m[1]] = nil
		}
	}
	for page, names := range pages {
		text, _ := get(page)
		for _, node := range names {
			require.Contains(v, text, node, page)
		}
	}

	text, _ := get("/api/v1/openapi.json")
	var api struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(v, json.Unmarshal([]byte(text), &api))
	require.NotEmpty(v, api.Paths)
	for path, methods := range api.Paths {
		if methods["get"] == nil {
			continue
		}
		answer, header := get(strings.NewReplacer("{scope}", "good%2Flock", "{name}", "good").Replace(path))
		told := strings.Join(header.Values("Lockkeeper-Unreadable"), "\n")
		switch path {
		case "/api/v1/jobs":
			v.names(told, v.in("ticks"))
		case "/api/v1/groups":
			v.names(told, v.in("groups", "members"))
		case "/api/v1/approvals":
			v.names(told, v.in("approvals"))
		case "/api/v1/audit":
			v.names(told, v.in("audit"))
		case "/api/v1/locks":
			v.names(answer, v.in("locks", "contenders"))
		}
	}
}

func (v *spoiled) names(text string, nodes []string) {
	v.Helper()
	for _, node := range nodes {
		require.Contains(v, text, `"`+node+`"`)
	}
}
