package secrets

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/observability/otlp"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var (
	shared  testbed.Shared
	program string // its path
)

func TestMain(m *testing.M) {
	os.Exit(harness.WithProgram(func(path string) int { program = path; return shared.Main(m) }))
}

// The secrets, by the way by which they come in. None is part of another.
var planted = map[string]string{
	"password in digest_file":         "planted-digest-4b1d",
	"wrong password":                  "planted-wrong-77aa",
	"password of an operator":         "planted-person-09f3",
	"environment of a command":        "planted-env-c5e2",
	"environment, after a reload":     "planted-later-31b8",
	"environment with user":           "planted-user-8d60",
	"header of a request":             "planted-header-f214",
	"password in a URL":               "planted-url-6a9c",
	"query of a URL":                  "planted-query-b33d",
	"body of a request":               "planted-body-e841",
	"environment of the daemon":       "planted-daemon-2c7f",
	"file that should be a key":       "planted-key-95d0",
	"API key of Temporal":             "planted-temporal-d18e",
	"environment of exec":             "planted-exec-a0c6",
	"header for the collector":        "planted-otlp-37fa",
	"password in the file by mistake": "planted-mistake-5f17",

	"password of a person at the console": "planted-console-7e20",
}

// The arguments of commands, which readers of the configuration see, and everyone on
// the machine by ps, but which no telemetry and no log does.
var arguments = map[string]string{
	"argument of exec":  "planted-execarg-61d4",
	"argument of a job": "planted-jobarg-e90b",

	"payload of a workflow": "planted-payload-2d58",
}

func secret(way string) string {
	if s, ok := planted[way]; ok {
		return s
	}
	panic("not planted: " + way)
}

// A scene is a directory with a daemon in it, and everything that came out.
type scene struct {
	*harness.Fixture
	dir string
	env []string

	receiver *otlp.Receiver // of the telemetry of all processes
}

// leaks fails for each secret in what came out there.
func (s *scene) leaks(where, text string) {
	s.Helper()
	for way, planted := range planted {
		for form, needle := range map[string]string{
			"": planted, " in base64": strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(planted)), "=")[:16], " in hex": fmt.Sprintf("%x", planted),
		} {
			if i := strings.Index(text, needle); i >= 0 {
				s.Errorf("%s: the %s%s came out: …%s…", where, way, form, text[max(0, i-150):min(len(text), i+80)])
			}
		}
	}
}

func (s *scene) write(name, text string) string {
	s.Helper()
	file := filepath.Join(s.dir, name)
	require.NoError(s, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(s, os.Rename(file+".new", file))
	return file
}

// run runs a command of the program, whatever comes of it.
func (s *scene) run(env []string, args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), harness.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = s.dir, append(s.env, env...)
	out, _ := c.CombinedOutput()
	require.NoError(s, ctx.Err(), "%s: %s", args, out)
	s.leaks("lockkeeper "+strings.Join(args, " "), string(out))
	return string(out)
}

func (s *scene) configuration(env, sink string) string {
	return `version: 1
zookeeper:
  session_timeout: 2m
  auth: {digest_file: keeper}
  operators: [` + lock.DigestID("keeper", secret("password in digest_file")) + `, ` + lock.DigestID("ana", secret("password of an operator")) + `]
log: {level: debug, format: json}
audit: {file: audit.jsonl}
metrics: {listen: "127.0.0.1:0"}
emergency: {file: overrides.yaml}
state_dir: state
jobs:
  works:  {schedule: "@every 1s", run: {command: [sh, -c, "exit 0"], env: {TOKEN: "` + env + `"}}, locks: [{scope: town/works}]}
  fails:  {schedule: "@every 1s", run: {command: [sh, -c, "exit 3", "` + arguments["argument of a job"] + `"], env: {TOKEN: "${FROM_ENVIRONMENT}"}}, locks: [{scope: town/fails}]}
  absent: {schedule: "@every 1s", run: {command: [/no/such/program], env: {TOKEN: "${FROM_ENVIRONMENT}"}}}
  person: {schedule: "@every 1s", run: {command: [sh, -c, "exit 4"], user: nobody, env: {TOKEN: ` + secret("environment with user") + `}}}
  asks:   {schedule: "@every 1s", run: {http: {url: "` + strings.Replace(sink, "://", "://ana:"+secret("password in a URL")+"@", 1) + `/refused?key=` + secret("query of a URL") + `", headers: {Authorization: "Bearer ` + secret("header of a request") + `"}, body: '{"key":"` + secret("body of a request") + `"}'}}, locks: [{scope: town/asks}]}
  moved:  {schedule: "@every 1s", run: {http: {url: "` + sink + `/moved?key=` + secret("query of a URL") + `", headers: {Authorization: "Bearer ` + secret("header of a request") + `"}}}}
  silent: {schedule: "@every 1s", run: {http: {url: "http://ana:` + secret("password in a URL") + `@127.0.0.1:1/?key=` + secret("query of a URL") + `", headers: {Authorization: "Bearer ` + secret("header of a request") + `"}}}}
`
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Fixture: harness.New(t, shared.Server(t)), dir: t.TempDir()}
	s.write("keeper", "keeper:"+secret("password in digest_file")+"\n")
	s.write("ana", "ana:"+secret("password of an operator")+"\n")
	s.write("wrong", "keeper:"+secret("wrong password")+"\n")
	s.write("key.pem", "-----BEGIN PRIVATE KEY-----\n"+secret("file that should be a key")+"\n-----END PRIVATE KEY-----\n")
	s.write("api.key", secret("API key of Temporal")+"\n")
	for _, name := range os.Environ() {
		if !strings.HasPrefix(name, "LOCKKEEPER_") {
			s.env = append(s.env, name)
		}
	}
	s.receiver = otlp.Start(t)
	s.env = append(s.env, s.receiver.Env()...)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_HEADERS=authorization="+secret("header for the collector"), "LOCKKEEPER_ZK="+s.Server.Addr(), "LOCKKEEPER_ROOT="+s.Root,
		"FROM_ENVIRONMENT="+secret("environment of a command"), "OF_THE_DAEMON="+secret("environment of the daemon"))
	return s
}

// daemon starts the daemon of the configuration, and waits until each of these jobs has ended a run.
func (s *scene) daemon(jobs ...string) *harness.Daemon {
	s.Helper()
	cmd := exec.Command(program, "run", "-f", "lockkeeper.yaml")
	cmd.Dir, cmd.Env = s.dir, s.env
	d := harness.StartDaemon(s, cmd)
	for _, job := range jobs {
		d.Await(s, `"`+job+`"`, "ended")
	}
	return d
}

// nodes looks for secrets in every node of the server.
func (s *scene) nodes(shell *zk.Conn, at string) (count int) {
	s.Helper()
	s.leaks("the name of a node", at)
	data, _, err := shell.Get(at)
	if err == nil {
		s.leaks("node "+at, string(data))
		count++
	}
	names, _, err := shell.Children(at)
	if err != nil {
		return count
	}
	for _, name := range names {
		count += s.nodes(shell, path.Join(at, name))
	}
	return count
}

func TestNoSecretComesOutOfTheProgram(t *testing.T) {
	s := newScene(t)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "/elsewhere?key="+r.URL.Query().Get("key"), http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer sink.Close()
	s.write("lockkeeper.yaml", s.configuration("${FROM_ENVIRONMENT}", sink.URL))

	// given a daemon whose jobs succeed and fail in all ways
	daemon := s.daemon("works", "fails", "absent", "person", "asks", "moved", "silent")

	// when people look and act
	ana := []string{"LOCKKEEPER_ZK_DIGEST_FILE=" + filepath.Join(s.dir, "ana")}
	for _, args := range [][]string{
		{"config", "validate", "-f", "lockkeeper.yaml"},
		{"config", "operator", "--zk-digest-file", "keeper"},
		{"locks", "ls", "-o", "json"},
		{"locks", "show", "town/works"},
		{"locks", "why", "works"},
		{"jobs", "ls", "-o", "yaml"},
		{"jobs", "history", "fails", "-o", "json"},
		{"jobs", "history", "asks"},
		{"jobs", "next"},
		{"override", "apply", "INC-1", "--kind", "freeze", "--scope", "town/other", "--for", "1h", "--reason", "disk full"},
		{"override", "ls", "-o", "json"},
		{"override", "clear", "INC-1", "--reason", "over"},
		{"audit", "-o", "json"},
		{"audit", "verify"},
		{"doctor", "-f", "lockkeeper.yaml", "-o", "json"},
		{"init", "-f", "lockkeeper.yaml"},
		{"exec", "--scope", "town/exec", "--", "sh", "-c", "exit 5", arguments["argument of exec"]},
		{"exec", "--scope", "town/exec", "--", "/no/such/program"},
	} {
		s.run(append(ana, "OF_EXEC="+secret("environment of exec")), args...)
	}
	for _, job := range []string{"works", "fails", "person", "asks", "silent"} {
		require.Contains(t, s.run(ana, "config", "explain", job, "-f", "lockkeeper.yaml"), job)
		s.run(ana, "config", "explain", job, "-f", "lockkeeper.yaml", "-o", "yaml")
	}
	// and what they give is wrong
	wrong := []string{"LOCKKEEPER_ZK_DIGEST_FILE=" + filepath.Join(s.dir, "wrong")}
	for _, args := range [][]string{
		{"locks", "ls"},
		{"doctor"},
		{"override", "ls"},
		{"override", "clear", "INC-1", "--reason", "over"},
		{"audit"},
		{"exec", "--scope", "town/exec", "--log-level", "debug", "--", "true"},
		{"init"},
	} {
		s.run(wrong, args...)
	}
	down := append(ana, "LOCKKEEPER_ZK=127.0.0.1:1")
	for _, args := range [][]string{{"locks", "ls"}, {"doctor", "--timeout", "2s"}, {"exec", "--acquire", "1s", "--scope", "town/exec", "--", "true"}} {
		s.run(down, args...)
	}
	s.run(ana, "locks", "ls", "--zk-ca-file", "key.pem", "--zk-cert-file", "key.pem", "--zk-key-file", "key.pem")
	s.run(ana, "locks", "ls", "--zk-digest-file", "api.key")
	s.run(nil, "locks", "ls", "--zk-operators", "digest:ana:"+"not-a-hash")
	for name, text := range map[string]string{
		"inline password":  "zookeeper: {auth: {user: keeper, password: " + secret("password in the file by mistake") + "}}",
		"inline digest":    "zookeeper: {auth: {digest: \"keeper:" + secret("password in the file by mistake") + "\"}}",
		"password as file": "zookeeper: {auth: {digest_file: {password: " + secret("password in the file by mistake") + "}}}",
		"inline API key":   "temporal: {api_key: " + secret("password in the file by mistake") + "}",
		"API key":          "temporal: {api_key_file: api.key, address: \"127.0.0.1:1\"}",
		"TLS":              "zookeeper: {tls: {ca_file: key.pem, cert_file: key.pem, key_file: key.pem}}",
		"digest":           "zookeeper: {auth: {digest_file: api.key}}",
	} {
		s.write("bad.yaml", "version: 1\n"+text+"\njobs: {a: {schedule: manual, run: {command: [\"true\"], env: {TOKEN: \"${FROM_ENVIRONMENT}\", 7: ${FROM_ENVIRONMENT, x: ["+secret("environment with user")+"]}}}}\n")
		s.run(ana, "config", "validate", "-f", "bad.yaml")
		s.write("bad.yaml", "version: 1\n"+text+"\njobs: {a: {schedule: manual, run: {command: [\"true\"]}}}\n")
		require.Contains(t, s.run(ana, "config", "validate", "-f", "bad.yaml"), "bad.yaml:", name)
		s.run(ana, "run", "-f", "bad.yaml")
		s.run(ana, "doctor", "-f", "bad.yaml", "--timeout", "5s")
	}
	// and the file changes under the daemon, once for the better, once for the worse
	s.write("lockkeeper.yaml", s.configuration(secret("environment, after a reload"), sink.URL))
	require.NoError(t, daemon.Cmd.Process.Signal(syscall.SIGHUP))
	daemon.Await(t, "configuration reloaded")
	s.write("lockkeeper.yaml", strings.ReplaceAll(s.configuration(secret("environment, after a reload"), sink.URL), "schedule:", "sched: "+secret("environment with user")+", schedule:"))
	require.NoError(t, daemon.Cmd.Process.Signal(syscall.SIGHUP))
	daemon.Await(t, "problem", "sched")
	s.write("overrides.yaml", "overrides: [{id: "+"INC-2"+"}]\n")
	daemon.Await(t, "overrides file not in force")

	// then no secret is anywhere
	shell := s.shell()
	require.Greater(t, s.nodes(shell, s.Root), 20)
	daemon.Stop()
	s.leaks("the daemon", daemon.String())
	s.arguments("the log", daemon.String())
	s.telemetry()
	require.Greater(t, strings.Count(daemon.String(), "\n"), 50)
	s.left("keeper", "ana", "wrong", "key.pem", "api.key", "lockkeeper.yaml", "bad.yaml")
}

// shell returns a connection that may read everything.
func (s *scene) shell() *zk.Conn {
	s.Helper()
	shell := testbed.Shell(s, s.Server)
	for _, user := range []string{"keeper:" + secret("password in digest_file"), "ana:" + secret("password of an operator")} {
		require.NoError(s, shell.AddAuth("digest", []byte(user)))
	}
	return shell
}

// left looks at all files but those in which secrets were planted.
func (s *scene) left(planted ...string) {
	s.Helper()
	require.NoError(s, filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || slices.Contains(planted, filepath.Base(name)) || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		s.leaks("file "+name, string(text))
		return err
	}))
}

// arguments fails for each argument of a command in what came out there.
func (s *scene) arguments(where, text string) {
	s.Helper()
	for what, planted := range arguments {
		if i := strings.Index(text, planted); i >= 0 {
			s.Errorf("%s: the %s came out: …%s…", where, what, text[max(0, i-150):min(len(text), i+80)])
		}
	}
}

// telemetry looks at all that has been exported: of the whole run of the daemon, and of
// all commands.
func (s *scene) telemetry() {
	s.Helper()
	s.leaks("telemetry", s.receiver.Text())
	s.arguments("telemetry", s.receiver.Text())
	names := map[string]int{}
	for _, span := range s.receiver.Spans() {
		names[span.Name]++
	}
	for _, name := range []string{"job.run", "lock.wait", "lock.hold", "lock.release", "lockkeeper.exec"} {
		require.Positive(s, names[name], "no span %s has arrived, which proves nothing: %v", name, names)
	}
	require.Greater(s, len(s.receiver.Records()), 50, "hardly a line of the log has arrived")
	require.True(s, s.receiver.HasMetric("lockkeeper.lock.wait.duration"), "no metrics have arrived")
}

// However a value that has a secret is written, the secret is not; nor in an
// error, a log at the lowest level, or the trace of a panic in a hook.
func TestNoSecretComesOutOfValuesAndErrors(t *testing.T) {
	s := newScene(t)
	sink := "http://127.0.0.1:1"
	s.write("lockkeeper.yaml", s.configuration("${FROM_ENVIRONMENT}", sink))
	cfg, err := config.Load(filepath.Join(s.dir, "lockkeeper.yaml"), config.Options{Env: func(name string) (string, bool) {
		return secret("environment of a command"), name == "FROM_ENVIRONMENT"
	}})
	require.NoError(t, err)
	values := map[string]any{"the configuration": *cfg, "its address": cfg, "how to reach ZooKeeper": cfg.Client, "the user": *cfg.Client.Auth, "its pointer": cfg.Client.Auth}
	for _, job := range cfg.Jobs {
		values["job "+job.Name], values["work of "+job.Name] = job, job.Work
	}
	for what, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			s.leaks(what+" by "+verb, fmt.Sprintf(verb, v))
		}
		var text bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&text, nil)).Info("x", "v", v)
		s.leaks(what+" by slog", text.String())
	}
	for _, v := range []any{cfg.Client.Auth, *cfg.Client.Auth, cfg.Jobs[0].Work, cfg.Jobs[4].Work} {
		asJSON, err := json.Marshal(v)
		require.NoError(t, err)
		asYAML, err := yaml.Marshal(v)
		require.NoError(t, err)
		s.leaks("JSON", string(asJSON))
		s.leaks("YAML", string(asYAML))
		require.Contains(t, string(asJSON)+string(asYAML), "[redacted]")
	}

	logged := &harness.Output{}
	logger := slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	errs := map[string]error{}
	client := func(c lock.Config) *lock.Client {
		c.Servers, c.Root, c.SessionTimeout, c.Logger = []string{s.Server.Addr()}, s.Root, 4*time.Second, logger
		return harness.NewClient(t, c)
	}
	right := client(lock.Config{Auth: cfg.Client.Auth, Operators: cfg.Client.Operators})
	guard, err := lockguard.New(right, lockguard.WithLogger(logger))
	require.NoError(t, err)
	errs["a panic in a hook"] = guard.Do(t.Context(), lockguard.Requirement{Scope: "town/panic", Terms: priority.Terms{CleanupTimeout: time.Second}}, func(context.Context) error {
		panic(fmt.Sprintf("%+v", cfg.Client))
	})
	require.Error(t, errs["a panic in a hook"])
	wrong := client(lock.Config{Auth: &lock.Digest{User: "keeper", Password: secret("wrong password")}})
	l, err := wrong.PriorityLock("town/panic")
	require.NoError(t, err)
	_, errs["a wrong password"] = l.Acquire(t.Context(), lock.Request{})
	_, errs["an override with a wrong password"] = wrong.Overrides().Clear(t.Context(), "INC-1")
	_, errs["no operator"] = client(lock.Config{
		Auth: &lock.Digest{User: "eve", Password: secret("wrong password")}, Operators: cfg.Client.Operators,
	}).Overrides().Clear(t.Context(), "INC-1")
	_, errs["a user with a colon"] = lock.NewClient(lock.Config{Auth: &lock.Digest{User: "a:b", Password: secret("wrong password")}})
	_, errs["who is named nowhere"] = lock.NewClient(lock.Config{
		Auth: &lock.Digest{User: "eve", Password: secret("wrong password")}, Operators: cfg.Client.Operators, Contenders: cfg.Client.Operators,
	})
	for what, err := range errs {
		require.Error(t, err, what)
		s.leaks(what, fmt.Sprintf("%v %+v %#v", err, err, err))
	}
	require.NotEmpty(t, logged.String())
	s.leaks("the log of a client", logged.String())
}
