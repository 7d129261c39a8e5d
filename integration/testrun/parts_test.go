package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// Every package with tests is run by some part, and no package by two parts of the same settings.
func TestEveryPackageIsRunOnceUnderEachSetting(t *testing.T) {
	seen := make(map[string][]string)
	for _, p := range append(testParts(), restParts()...) {
		packages, err := p.list(t.Context(), root)
		require.NoError(t, err)
		require.NotEmpty(t, packages, p.name)
		for _, pkg := range packages {
			key := strings.Join(append([]string{pkg, p.run}, p.env...), " ")
			seen[key] = append(seen[key], p.name)
		}
	}
	for key, parts := range seen {
		require.Len(t, parts, 1, key)
	}
	modules, err := filepath.Glob(root + "/*/*/go.mod")
	require.NoError(t, err)
	deeper, err := filepath.Glob(root + "/*/*/*/go.mod")
	require.NoError(t, err)
	for _, mod := range slices.Concat([]string{root + "/go.mod"}, modules, deeper) {
		dir := filepath.Dir(mod)
		list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
		list.Dir = dir
		out, err := list.Output()
		require.NoError(t, err, dir)
		for pkg := range strings.FieldsSeq(string(out)) {
			is := func(key string) bool { return strings.HasPrefix(key+" ", pkg+" ") }
			found := false
			for key := range seen {
				found = found || is(key)
			}
			require.True(t, found, "no part of the suite runs %s", pkg)
		}
	}
}

// On a fresh machine Temporal's server is still being built when the other parts begin.
func TestWhatNeedsTemporalsServerComesAfterItsBuild(t *testing.T) {
	const server = module + "/integration/temporal/devserver"
	for _, p := range append(testParts(), restParts()...) {
		if p.dir != "" || slices.Equal(p.prepare, temporal) {
			continue
		}
		packages, err := p.list(t.Context(), root)
		require.NoError(t, err)
		list := exec.CommandContext(t.Context(), "go", slices.Concat(
			[]string{"list", "-f", "{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}"}, packages)...)
		list.Dir = root
		out, err := list.Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			require.NotContains(t, line, server, p.name)
		}
	}
}

func TestCommandRepeatsJustTheTest(t *testing.T) {
	servers := &part{name: "real", env: []string{"LOCKKEEPER_TEST_ZK=real"}}
	require.Equal(t, `LOCKKEEPER_TEST_ZK=real go test -race -shuffle 17 -run '^TestA$/^lease_\(0\)$' ./integration/locks`,
		servers.again(failure{module + "/integration/locks", "TestA/lease_(0)", "-test.shuffle 17\n"}))

	own := &part{name: "gocron", dir: "adapters/gocron"}
	require.Equal(t, `cd adapters/gocron && go test -race -run '^TestA$' ./example`,
		own.again(failure{module + "/adapters/gocron/example", "TestA", ""}))
	require.Equal(t, `cd adapters/gocron && go test -race .`, own.again(failure{module + "/adapters/gocron", whole, ""}))
}

func TestPackageIsLookedUpInAllParts(t *testing.T) {
	t.Chdir(root)
	names := func(packages ...string) (list []string) {
		parts, err := partsOf(packages)
		require.NoError(t, err)
		for _, p := range parts {
			list = append(list, p.name+" "+strings.Join(p.packages, " "))
		}
		return list
	}
	require.Equal(t, []string{"embedded ./recipes/lock"}, names("./recipes/lock"))
	require.Equal(t, []string{"embedded ./integration/locks", "real ./integration/locks", "local-queue ./integration/locks"}, names("integration/locks/"))
	require.Equal(t, []string{"gocron ./example"}, names("adapters/gocron/example"))
	require.Equal(t, []string{"gocron ./."}, names("adapters/gocron"))
	require.Equal(t, []string{"embedded ./.", "embedded ./recipes/lock ./scheduler", "prometheus ./integration/observability/prometheus"},
		append(names("."), names("./recipes/lock", "integration/observability/prometheus", "./scheduler")...))

	_, err := partsOf([]string{"./nothing"})
	require.ErrorContains(t, err, "./nothing is not a package")
}
