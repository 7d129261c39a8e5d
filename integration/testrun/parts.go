package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// part is one go test command: some packages of one module, with settings.
type part struct {
	name string
	dir  string   // of the module, from the repository's root; "" is the root module
	env  []string // as in os.Environ

	packages []string // patterns of go list
	without  []string // directories, with those below them, that are left out
	prepare  []string // shell commands that come first

	atOnce int    // packages at a time; 0 is for those that have one, or small ones
	alone  bool   // it looks at what a busy machine does late: no other part runs beside it
	run    string // tests, as go test -run and -skip select them; "" is all, and none
	skip   string
	short  bool // without what takes long
}

// Real servers wait for time to pass most of the time, and so do the tests on them. The embedded server's
// tests are short of processors.
const (
	realAtOnce     = 3
	embeddedAtOnce = 3
)

// servers are the packages that start processes: real ZooKeeper and Temporal servers, programs, browsers, builds. The
// longest come first: nothing waits for them at the end.
var servers = []string{
	"integration/packages", "integration/zkdiff", "integration/upgrade", "integration/nemesis",
	"integration/certificates", "integration/clients", "integration/daemons", "integration/deadlines",
	"integration/doctor", "integration/leaders", "integration/netfault", "integration/observability",
	"integration/polyglot", "integration/program", "integration/release", "integration/robust", "integration/secrets",
	"integration/zkserver",
}

// conformance are the packages whose tests run on the embedded server and on a real one.
var conformance = []string{
	"integration/audit", "integration/classic", "integration/emergency", "integration/ensembles", "integration/foreign",
	"integration/groups", "integration/helix", "integration/identity", "integration/interleavings", "integration/locks",
	"integration/testbed", "integration/tickledger",
}

// large are the tests of limits on a real server: it is what refuses requests. What a client keeps in memory
// is the same on both.
const large = "Refused|LargeRequests"

// first are the servers' and the conformance packages that a newcomer must see pass on real servers.
var first = []string{"integration/locks", "integration/program", "integration/tickledger"}

// temporalTests are the packages whose tests start Temporal's server.
var temporalTests = []string{"examples/temporal", "integration/temporal"}

// basic are the tests on a real Temporal server that a newcomer must see pass.
const basic = "^TestBasic"

// temporal builds Temporal's server, once: beside other parts.
var temporal = []string{"scripts/setup.sh temporal"}

// static compiles the program as releases have it, once: several packages build it.
var static = []string{"CGO_ENABLED=0 go list -export -trimpath ./cmd/lockkeeper"}

// long are tests that start the program more than a hundred times, or that run a hundred jobs a second for minutes.
const long = "^(TestProgram|TestDaemonCatchesUpAfterABurstOfOverload)$"

// unitParts is what `make unit` runs, the longest first.
func unitParts() []*part {
	return []*part{{
		name: "unit", env: []string{"LOCKKEEPER_TEST_ZK=embedded"},
		packages: []string{"./cmd/lockkeeper", "./temporal/...", "./scheduler", "./recipes/lock", "./..."},
		without:  []string{"examples", "integration"}, skip: long, atOnce: 6, short: true,
	}}
}

// testParts is what `make test` runs. While Temporal's server is built, what the others have in common is compiled.
func testParts() []*part {
	return []*part{
		{
			name: "temporal", prepare: temporal, env: []string{"LOCKKEEPER_TEST_ZK=real"},
			packages: []string{"./examples/temporal", "./integration/temporal"}, run: basic,
		},
		{
			name: "embedded", env: []string{"LOCKKEEPER_TEST_ZK=embedded"},
			packages: []string{"./integration/...", "./temporal/...", "./..."}, // the longest first
			without:  slices.Concat(servers, temporalTests), atOnce: embeddedAtOnce,
		},
		{name: "real", env: []string{"LOCKKEEPER_TEST_ZK=real"}, packages: below(first), atOnce: realAtOnce},
	}
}

// restParts is what `make test-full` runs beside that: what waits most comes first.
func restParts() []*part {
	return []*part{
		{
			name: "servers", prepare: static, env: []string{"LOCKKEEPER_TEST_ZK=real"},
			packages: below(without(servers, first)), without: []string{"integration/observability/prometheus"},
			atOnce: realAtOnce,
		},
		{
			name: "temporal", prepare: temporal, env: []string{"LOCKKEEPER_TEST_ZK=real"},
			packages: below(temporalTests), skip: basic, atOnce: realAtOnce,
		},
		{
			name: "conformance", env: []string{"LOCKKEEPER_TEST_ZK=real"}, packages: below(without(conformance, first)),
			atOnce: realAtOnce,
		},
		{name: "console", dir: "integration/observability/console", packages: []string{"./..."}},
		{
			name: "local-queue", env: []string{"LOCKKEEPER_TEST_ZK=embedded", "LOCKKEEPER_TEST_LOCAL_QUEUE=4"},
			packages: []string{"./integration/locks"},
		},
		{name: "schedulers", dir: "integration/schedulers", packages: []string{"./..."}},
		{name: "peers", dir: "integration/peers", packages: []string{"./..."}},
		{name: "container", dir: "packaging/container", packages: []string{"./..."}},
		{name: "limits", env: []string{"LOCKKEEPER_TEST_ZK=real"}, packages: []string{"./integration/limits"}, run: large},
		{name: "gocron", dir: "adapters/gocron", packages: []string{"./..."}},
		{
			name: "prometheus", env: []string{"LOCKKEEPER_TEST_ZK=real"}, alone: true,
			packages: []string{"./integration/observability/prometheus"},
		},
	}
}

func below(dirs []string) []string {
	patterns := make([]string, len(dirs))
	for i, dir := range dirs {
		patterns[i] = "./" + dir + "/..."
	}
	return patterns
}

func without(dirs, not []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return slices.Contains(not, dir) })
}

// list returns the import paths of the packages that have tests.
func (p *part) list(ctx context.Context, root string) ([]string, error) {
	args := append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, p.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, p.dir)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("%s: %w\n%s", cmd, err, exit.Stderr)
		}
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(pkg string) bool {
		return slices.ContainsFunc(p.without, func(dir string) bool {
			return pkg == module+"/"+dir || strings.HasPrefix(pkg, module+"/"+dir+"/")
		})
	}), nil
}

// lean leaves out vet and symbols, which lint and a debugger want: a third of the time to build.
func lean() []string { return []string{"-vet=off", "-ldflags=-s"} }

func (p *part) flags() (flags []string) {
	if p.atOnce > 0 {
		flags = append(flags, fmt.Sprintf("-p=%d", p.atOnce))
	}
	if p.short {
		flags = append(flags, "-short", "-parallel=8") // what waits leaves the processors to the others
	}
	if p.run != "" {
		flags = append(flags, "-run="+p.run)
	}
	if p.skip != "" {
		flags = append(flags, "-skip="+p.skip)
	}
	return flags
}

var shuffled = regexp.MustCompile(`-test\.shuffle (\d+)`)

// again is the command that repeats a failure, from the root of the repository.
func (p *part) again(f failure) string {
	var words []string
	if p.dir != "" {
		words = append(words, "cd "+p.dir+" &&")
	}
	words = append(words, p.env...)
	words = append(words, "go test -race")
	if p.short {
		words = append(words, "-short")
	}
	if seed := shuffled.FindStringSubmatch(f.output); seed != nil {
		words = append(words, "-shuffle "+seed[1])
	}
	if f.test != whole {
		levels := strings.Split(f.test, "/")
		for i, level := range levels {
			levels[i] = "^" + regexp.QuoteMeta(level) + "$"
		}
		words = append(words, "-run "+quote(strings.Join(levels, "/")))
	}
	dir := "./" + short(f.pkg)
	if p.dir != "" {
		dir = "." + strings.TrimPrefix(short(f.pkg), p.dir)
	}
	return strings.Join(append(words, dir), " ")
}

// quote is a word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
