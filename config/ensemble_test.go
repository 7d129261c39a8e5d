package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnsemblesHaveEverythingFromHomeButWhereTheyAre(t *testing.T) {
	cfg := mustParse(t, file(`zookeeper:
  servers: zk1:2181
  root: /here
  session_timeout: 5s
  ensembles:
    us: {servers: [zk-us1:2181, zk-us2:2181], prefixes: [cluster/us], root: /there}
    eu: {servers: "zk-eu:2181/chroot", prefixes: [cluster/eu, jobs]}
jobs:
  a: {schedule: "@daily", run: [x], locks: [{scope: cluster/eu/a}, {scope: jobs}]}
  b: {schedule: "@daily", run: [x], locks: [{scope: cluster/europe}, {scope: other}]}
`))
	require.Equal(t, []Ensemble{
		{Name: "eu", Servers: []string{"zk-eu:2181"}, Chroot: "/chroot", Prefixes: []string{"cluster/eu", "jobs"}},
		{Name: "us", Servers: []string{"zk-us1:2181", "zk-us2:2181"}, Root: "/there", Prefixes: []string{"cluster/us"}},
	}, cfg.Ensembles)
	eu, us := cfg.Ensembles[0].Client(cfg.Client), cfg.Ensembles[1].Client(cfg.Client)
	require.Equal(t, "/here", eu.Root)
	require.Equal(t, "/chroot", eu.Chroot)
	require.Equal(t, "/there", us.Root)
	require.Empty(t, us.Chroot)
	require.Equal(t, 5*time.Second, us.SessionTimeout)
	require.Equal(t, []string{"zk1:2181"}, cfg.Client.Servers)
}

func TestWhatIsWrongWithEnsembles(t *testing.T) {
	_, problems, _ := parse(t, file(`zookeeper:
  ensembles:
    a: {servers: [zk:2181]}
    b: {prefixes: [x]}
    c: {servers: [zk:2181], prefixes: [x, y/, ""]}
    d: {servers: [zk:2181], prefixes: [], root: here}
    e: {servers: [zk:port], prefix: [z]}
    f: {servers: [zk:2181], prefixes: [f], tls: {}}
`))
	require.Equal(t, []string{
		`4:8 zookeeper.ensembles[a]: prefixes is missing; write it like eu: {servers: [zk-eu1:2181, zk-eu2:2181], prefixes: [cluster/eu]}`,
		`5:8 zookeeper.ensembles[b]: servers is missing; write it like eu: {servers: [zk-eu1:2181, zk-eu2:2181], prefixes: [cluster/eu]}`,
		`6:40 zookeeper.ensembles[c].prefixes[0]: the prefix "x" stands at 5:20 already; write each prefix once`,
		`6:43 zookeeper.ensembles[c].prefixes[1]: "y/" ends with a slash; write "y"`,
		`6:47 zookeeper.ensembles[c].prefixes[2]: "" is empty; write a list of them, for example [cluster/eu]`,
		`7:39 zookeeper.ensembles[d].prefixes: the list is empty; write a list of them, for example [cluster/eu]`,
		`7:49 zookeeper.ensembles[d].root: here does not begin with /; write an absolute path such as /lockkeeper`,
		`8:8 zookeeper.ensembles[e]: prefixes is missing; write it like eu: {servers: [zk-eu1:2181, zk-eu2:2181], prefixes: [cluster/eu]}`,
		`8:19 zookeeper.ensembles[e].servers[0]: "zk:port" has no valid port; write host:port, for example localhost:2181`,
		`8:29 zookeeper.ensembles[e]: unknown field "prefix"; did you mean "prefixes"?`,
		`9:44 zookeeper.ensembles[f]: unknown field "tls"; all ensembles have that of zookeeper`,
	}, problems)
}

func TestJobWithLocksOnTwoEnsemblesIsRefused(t *testing.T) {
	_, problems, _ := parse(t, `version: 1
zookeeper:
  ensembles:
    eu: {servers: [zk:2181], prefixes: [eu]}
    deep: {servers: [zk2:2181], prefixes: [eu/deep]}
jobs:
  a: {schedule: "@daily", run: [x], locks: [{scope: eu/a}, {scope: eu/b}, {scope: eu/deep/c}]}
  b: {schedule: "@daily", run: [x], locks: [{scope: other}, {scope: eu}]}
  c: {schedule: "@daily", run: [x], locks: [{scope: eu/deep/a}, {scope: eu/deep/b}]}
`)
	require.Equal(t, []string{
		`7:83 jobs[a].locks[2].scope: "eu/deep/c" is on the ensemble "deep", and "eu/a" on the ensemble "eu": locks of two ensembles are not taken together; give them a prefix in common, or make two jobs of it`,
		`8:69 jobs[b].locks[1].scope: "eu" is on the ensemble "eu", and "other" on the ensemble of zookeeper.servers: locks of two ensembles are not taken together; give them a prefix in common, or make two jobs of it`,
	}, problems)
}

func TestEnsemblesChangeWithARestartAlone(t *testing.T) {
	with := func(ensembles string) *Config { return mustParse(t, file("zookeeper: {ensembles: {"+ensembles+"}}\n")) }
	one, other := with("e: {servers: [zk:2181], prefixes: [a]}"), with("e: {servers: [zk:2181], prefixes: [b]}")
	require.Equal(t, []Change{{Field: "zookeeper.ensembles"}}, Compare(one, other).Settings)
	require.Error(t, Compare(one, other).needsRestart(nil))
	require.True(t, Compare(one, with("e: {servers: [zk:2181], prefixes: [a]}")).Empty())
}
