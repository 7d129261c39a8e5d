package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/survey"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// run lets one check speak: "result: found", one a line.
func run(check func(*findings, *facts, Options), x *facts, o Options) string {
	f := &findings{}
	check(f, x, o)
	var lines []string
	for _, found := range f.all {
		text := string(found.Result) + ": "
		if found.Subject != "" {
			text += found.Subject + ": "
		}
		lines = append(lines, text+found.Found)
	}
	return strings.Join(lines, "\n")
}

func voters(n int) []zkclient.EnsembleMember {
	members := make([]zkclient.EnsembleMember, n)
	for i := range members {
		members[i] = zkclient.EnsembleMember{ID: i + 1, Host: "zk"}
	}
	return members
}

// figures of a server: name, value, name, value …
func figures(pairs ...string) figureMap {
	f := figureMap{}
	for i := 0; i < len(pairs); i += 2 {
		f[pairs[i]] = pairs[i+1]
	}
	return f
}

func TestJobsThatAClockHasStoppedAreNamed(t *testing.T) {
	x := &facts{servers: []*server{{address: "a", figures: figures("server_state", "standalone")}}, survey: survey.Survey{Exists: true}}
	require.Empty(t, run(checkTicks, x, Options{}))
	x.ticks = []ticks.State{{Job: "backup"}}
	require.Equal(t, "ok: of 1 job, none is decided before it was due", run(checkTicks, x, Options{}))
	x.ticks = append(x.ticks, ticks.State{Job: "rollup", Last: time.Date(2026, 11, 23, 9, 5, 0, 0, time.UTC), Ahead: time.Hour})
	require.Equal(t, "problem: rollup: runs no tick until 2026-11-23T09:05:00Z: a daemon whose clock was ahead has decided those before", run(checkTicks, x, Options{}))
	require.Empty(t, run(checkTicks, x, Options{ReadOnly: true}))
	x.ticksErr = errors.New("no right")
	require.Equal(t, "skipped: what is decided of the jobs' ticks cannot be read: no right", run(checkTicks, x, Options{}))
}

func TestQuorum(t *testing.T) {
	down := &server{address: "zk9", refused: errors.New("refused")}
	member := func(address, state string, more ...string) *server {
		return &server{address: address, figures: figures(append([]string{"server_state", state}, more...)...)}
	}
	for name, c := range map[string]struct {
		servers []*server
		members []zkclient.EnsembleMember
		want    string
	}{
		"none there":                        {[]*server{down}, nil, ""},
		"one on its own":                    {[]*server{member("a", "standalone")}, nil, "warning: a: one server on its own: while it is down, no lock is granted, and its disk is the only copy"},
		"two on their own":                  {[]*server{member("a", "standalone"), member("b", "standalone")}, nil, "problem: a and b stands alone, beside others in the same connect string: two clients can hold the same lock"},
		"one on its own beside an ensemble": {[]*server{member("a", "standalone"), member("b", "follower")}, voters(3), "problem: a stands alone, beside others in the same connect string: two clients can hold the same lock"},
		"two leaders":                       {[]*server{member("a", "leader"), member("b", "leader")}, voters(3), "problem: a and b lead at the same time: either they belong to different ensembles, or one has lost its followers just now"},
		"all there":                         {[]*server{member("a", "leader", "synced_followers", "2"), member("b", "follower"), member("c", "follower")}, voters(3), "ok: 3 voting servers, all there, led by a: one may fail"},
		"five, all there":                   {[]*server{member("a", "leader", "synced_followers", "4")}, voters(1), "ok: 1 voting servers, all there, led by a: 4 may fail"},
		"one down":                          {[]*server{member("a", "leader", "synced_followers", "1"), member("b", "follower"), down}, voters(3), "problem: 2 of 3 voting servers are there: when one more fails, no lock is granted"},
		"one behind":                        {[]*server{member("a", "leader", "followers", "2", "synced_followers", "1"), member("b", "follower"), down}, voters(3), "warning: a: 1 of its followers have not caught up\nproblem: 2 of 3 voting servers are there: when one more fails, no lock is granted"},
		"even":                              {[]*server{member("a", "leader", "synced_followers", "3"), member("b", "follower"), member("c", "follower"), member("d", "follower")}, voters(4), "warning: 4 servers vote: no more of them may fail than of 3\nok: 4 voting servers, all there, led by a: one may fail"},
		"an observer":                       {[]*server{member("a", "leader", "learners", "3", "synced_followers", "2", "synced_observers", "1"), member("b", "observer"), member("c", "follower"), member("d", "follower")}, append(voters(3), zkclient.EnsembleMember{ID: 4, Host: "zk", Observer: true}), "ok: 3 voting servers, all there, led by a: one may fail"},
		"silent":                            {[]*server{member("a", ""), member("b", ""), member("c", "")}, voters(3), "ok: 3 servers vote; how many follow the leader is not known\nskipped: which server leads is not known: none in the connect string says so"},
		"no leader":                         {[]*server{member("a", "follower"), member("b", "follower"), member("c", "follower")}, voters(3), "ok: 3 servers vote; how many follow the leader is not known\nskipped: no server of the connect string leads"},
		"one of three named":                {[]*server{member("a", "leader", "synced_followers", "2")}, voters(3), "ok: 3 voting servers, all there, led by a: one may fail\nwarning: the connect string names 1 server of an ensemble of 3: clients are cut off when those fail"},
	} {
		if name == "five, all there" {
			c.members = nil
			c.servers[0].figures["quorum_size"] = "5"
			c.want = "ok: 5 voting servers, all there, led by a: 2 may fail"
		}
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, run(checkQuorum, &facts{servers: c.servers, members: c.members}, Options{}))
		})
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"3.4.14-4c25d48, built on 03/06/2019 16:18 GMT":  "problem: a: runs ZooKeeper 3.4.14, which has no container nodes: the classic recipes fail on it",
		"3.5.2-alpha, built on 07/20/2016 00:00 GMT":     "problem: a: runs ZooKeeper 3.5.2, which has no container nodes: the classic recipes fail on it",
		"3.5.8-f439ca5, built on 05/04/2020 15:07 GMT":   "warning: a: runs ZooKeeper 3.5.8, which gets no corrections any more",
		"3.7.2-x, built on 2023-10-01 00:00 UTC":         "warning: a: runs ZooKeeper 3.7.2, which gets no corrections any more",
		"3.8.0-5a02a05, built on 2022-02-25 08:49 UTC":   "warning: a: runs ZooKeeper 3.8.0, in which watches tell strangers the names of nodes that they may not read (CVE-2024-23944)",
		"3.8.0-debian, built on 2024-12-29 17:54 UTC":    "ok: a: runs ZooKeeper 3.8.0",
		"3.8.4-9316c2a, built on 2024-02-12 22:16 UTC":   "ok: a: runs ZooKeeper 3.8.4",
		"3.9.1-c4b2a26, built on 2023-10-05 10:34 UTC":   "warning: a: runs ZooKeeper 3.9.1, in which watches tell strangers the names of nodes that they may not read (CVE-2024-23944)",
		"3.9.2-e454e8c, built on 2024-02-12 20:59 UTC":   "ok: a: runs ZooKeeper 3.9.2",
		"3.10.0-SNAPSHOT, built on 2027-01-01 00:00 UTC": "ok: a: runs ZooKeeper 3.10.0",
		"nonsense": `skipped: a: its version is not understood: "nonsense"`,
		"":         "skipped: a: its version is not known",
	} {
		x := &facts{servers: []*server{{address: "a", figures: figures("version", text)}}}
		require.Equal(t, want, run(checkVersions, x, Options{}), text)
	}
	two := &facts{servers: []*server{{address: "a", figures: figures("version", "3.8.4-x")}, {address: "b", figures: figures("version", "3.9.2-x")}}}
	require.Contains(t, run(checkVersions, two, Options{}), "warning: the servers run different versions: 3.8.4 at a; 3.9.2 at b")
}

func TestSlowServers(t *testing.T) {
	of := func(d time.Duration, n int) (all times) {
		for range n {
			all = append(all, d)
		}
		return all
	}
	s := &server{
		address: "a", timeout: 4 * time.Second, sync: of(time.Millisecond, 25), read: of(time.Millisecond, 25), write: of(2*time.Millisecond, 50),
		figures: figures("min_latency", "0", "avg_latency", "0.5", "max_latency", "12", "outstanding_requests", "0"),
	}
	x := &facts{servers: []*server{s}}
	require.Equal(t, "ok: a: min/avg/max 0/0.5/12 ms over all clients since its start", run(checkLatency, x, Options{}))
	require.Equal(t, "ok: a: sync 1.00 ms/1.00 ms, read 1.00 ms/1.00 ms, write 2.00 ms/2.00 ms (p50/p99)", run(checkRoundTrips, x, Options{}))
	require.Equal(t, "ok: a: 0 requests wait inside", run(checkLoad, x, Options{}))

	s.figures.set("max_latency", "1500")
	require.Contains(t, run(checkLatency, x, Options{}), "warning: a: min/avg/max 0/0.5/1500 ms over all clients since its start: one took more than a third of the session timeout (4s)")
	s.figures.set("avg_latency", "60")
	require.Contains(t, run(checkLatency, x, Options{}), "warning: a: min/avg/max 0/60.0/1500 ms")

	s.write = append(of(2*time.Millisecond, 40), of(150*time.Millisecond, 10)...)
	require.Contains(t, run(checkRoundTrips, x, Options{}), "warning: a: ")
	s.write = append(s.write, of(1100*time.Millisecond, 10)...)
	require.Contains(t, run(checkRoundTrips, x, Options{}), "problem: a: ")
	require.Contains(t, run(checkRoundTrips, x, Options{}), "write 2.00 ms/1.1 s (p50/p99): sessions of 4s are at risk")

	for n, want := range map[string]string{"10": "warning: a: 10 requests wait inside", "900": "problem: a: 900 requests wait inside: it does not keep up"} {
		s.figures.set("outstanding_requests", n)
		require.Contains(t, run(checkLoad, x, Options{}), want)
	}
	s.figures.set("fsync_threshold_exceed_count", "3")
	s.figures.set("open_file_descriptor_count", "950")
	s.figures.set("max_file_descriptor_count", "1024")
	require.Contains(t, run(checkLoad, x, Options{}), "warning: a: its log took over a second to reach the disk, 3 times since its start")
	require.Contains(t, run(checkLoad, x, Options{}), "warning: a: has 950 of 1024 files open")
}

func (f figureMap) set(name, value string) { f[name] = value }

func TestSessionTimeouts(t *testing.T) {
	s := &server{address: "a", timeout: 40 * time.Second, figures: figures("tick_time", "2000", "min_session_timeout", "4000", "max_session_timeout", "40000")}
	x := &facts{servers: []*server{s}}
	require.Equal(t, "warning: a: grants a session timeout of 40s in place of 1m: it allows 4s to 40s, with a tick of 2s",
		run(checkSession, x, Options{Client: lock.Config{SessionTimeout: time.Minute}}))
	require.Equal(t, "ok: a: grants the session timeout of 40s", run(checkSession, x, Options{Client: lock.Config{SessionTimeout: 40 * time.Second}}))
	s.timeout = 4400 * time.Millisecond
	require.Equal(t, "ok: a: grants the session timeout of 4.4s", run(checkSession, x, Options{Client: lock.Config{SessionTimeout: 4400 * time.Millisecond}}),
		"two ticks, and the time that a ping may be late")
	require.Contains(t, run(checkSession, x, Options{Client: lock.Config{SessionTimeout: 4400 * time.Millisecond, Margin: 100 * time.Millisecond}}),
		"warning: a: a holder keeps 100ms to the end of its session of 4.4s, and with a tick of 2s it needs 144ms")
	s.timeout = 4 * time.Second
	require.Equal(t, "ok: a: grants the session timeout of 4s\nwarning: a: a holder keeps 333ms to the end of its session of 4s, and with a tick of 2s it needs 407ms: a lock may be given away a moment before its holder knows",
		run(checkSession, x, Options{Client: lock.Config{SessionTimeout: 4 * time.Second}}), "a late ping may cost a heartbeat")
	s.timeout = 2 * time.Second // as minSessionTimeout may allow
	require.Contains(t, run(checkSession, x, Options{Client: lock.Config{SessionTimeout: 2 * time.Second}}),
		"warning: a: a holder keeps 167ms to the end of its session of 2s, and with a tick of 2s it needs 753ms")
	other := &server{address: "b", timeout: 4400 * time.Millisecond, figures: figures("tick_time", "3000")}
	s.timeout = other.timeout
	require.Contains(t, run(checkSession, &facts{servers: []*server{s, other}}, Options{Client: lock.Config{SessionTimeout: other.timeout}}),
		"warning: a: a holder keeps 367ms to the end of its session of 4.4s, and with a tick of 3s it needs", "the other one may lead")
	for _, tick := range []time.Duration{10 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second} {
		enough := enoughSession(tick)
		require.GreaterOrEqual(t, lock.Config{}.MarginOf(enough), zkclient.LeastMargin(enough, tick), "what the remedy says is enough")
	}
}

func TestLeasesAgainstTheSessionTimeout(t *testing.T) {
	require.Equal(t, "skipped: no configuration file was named, so the leases of jobs are not known", run(checkLeases, &facts{}, Options{}))
	cfg := &config.Config{Jobs: []jobs.Job{
		{Name: "quick", Requirements: []lockguard.Requirement{{Scope: "db", Terms: priority.Terms{LeaseTimeout: 5 * time.Second, AcquireTimeout: new(2 * time.Second)}}}},
		{Name: "slow", Requirements: []lockguard.Requirement{{Scope: "db", Terms: priority.Terms{LeaseTimeout: time.Hour}}}},
	}}
	x := &facts{granted: 15 * time.Second}
	require.Equal(t, "warning: the lease is shorter than the session timeout of 15s: quick on db (5s); when the holder's machine dies, its lock is free only when the session ends\n"+
		"warning: the acquire timeout is shorter than the session timeout of 15s: quick on db (2s); after the death of a holder such a request gives up before the lock is free",
		run(checkLeases, x, Options{Config: cfg}))
	x.granted = time.Second
	require.Equal(t, "ok: the timeouts of 2 locks fit a session timeout of 1s", run(checkLeases, x, Options{Config: cfg}))
}

func TestClocks(t *testing.T) {
	now := time.Now()
	at := func(ahead, round time.Duration) *server {
		return &server{address: "a", stamp: &zkclient.Stamp{At: now.Add(ahead + round/2), Sent: now, Replied: now.Add(round)}}
	}
	for want, s := range map[string]*server{
		"ok: the leader's clock is 500 ms ahead of this machine's (± 2.00 ms)":     at(500*time.Millisecond, 2*time.Millisecond),
		"warning: the leader's clock is 5.0 s behind this machine's (± 2.00 ms)":   at(-5*time.Second, 2*time.Millisecond),
		"problem: the leader's clock is 1m30s ahead of this machine's (± 2.00 ms)": at(90*time.Second, 2*time.Millisecond),
		"ok: the leader's clock is 2.0 s ahead of this machine's (± 2.0 s)":        at(2*time.Second, 4*time.Second),
		"skipped: the clock of the leader is not known: nothing was written":       {address: "a"},
	} {
		require.Equal(t, want, run(checkClocks, &facts{servers: []*server{s}}, Options{}))
	}
	early, late := at(0, time.Millisecond), at(0, time.Millisecond)
	early.address, early.ahead, early.accuracy = "early", -3*time.Second, time.Millisecond
	late.address, late.ahead, late.accuracy = "late", time.Second, time.Millisecond
	require.Contains(t, run(checkClocks, &facts{servers: []*server{early, late}}, Options{}), "warning: the clock of late is 4.0 s ahead of that of early (± 2.00 ms)")
}

func TestSizes(t *testing.T) {
	x := &facts{servers: []*server{{address: "a", figures: figures("znode_count", "2000000")}}, survey: survey.Survey{Root: "/l", Exists: true}}
	x.survey.Longest = survey.ChildList{Path: "/l/locks/00/db", Children: 12_000, Bytes: 700 << 10}
	x.survey.Scopes, x.survey.Idle = 20_000, 15_000
	said := run(checkSize, x, Options{IdleAfter: DefaultIdleAfter})
	require.Contains(t, said, "warning: /l/locks/00/db: its list of 12000 children is the longest, 700 KiB of the 1024 KiB that an answer may have (jute.maxbuffer)")
	require.Contains(t, said, "warning: 15000 of 20000 scopes were not locked for 30 days")
	require.Contains(t, said, "warning: a: has 2000000 nodes")
	x.survey.Longest.Bytes = 2 << 20
	require.Contains(t, run(checkSize, x, Options{}), "problem: /l/locks/00/db: ")
}

func TestFile(t *testing.T) {
	require.Empty(t, run(checkConfig, nil, Options{}))
	_, err := config.Parse("bad.yaml", []byte("version: 1\njobs:\n  a: {schedule: never, run: [x]}\n"), config.Options{})
	require.Error(t, err)
	require.Contains(t, run(checkConfig, nil, Options{File: "bad.yaml", ConfigError: err}), "problem: bad.yaml:3:17: jobs[a].schedule: ")
	cfg, err := config.Parse("good.yaml", []byte("version: 1\njobs:\n  a: {schedule: manual, run: [x], locks: [{scope: db}]}\n"), config.Options{})
	require.NoError(t, err)
	require.Equal(t, "ok: good.yaml: is valid: 1 job, 0 groups", run(checkConfig, nil, Options{File: "good.yaml", Config: cfg}))
}

func TestOverridesFileNeedNotBeThere(t *testing.T) {
	name := t.TempDir() + "/overrides.yaml"
	cfg := &config.Config{Emergency: config.Emergency{File: name}}
	require.Equal(t, "ok: "+name+": is not there, as it should be while there is no emergency", run(checkOverrides, nil, Options{Config: cfg}))
	require.NoError(t, os.WriteFile(name, []byte("overrides: 7\n"), 0o600))
	require.Contains(t, run(checkOverrides, nil, Options{Config: cfg}), "problem: "+name+":1:12: ")
}

func TestStateDirectory(t *testing.T) {
	require.NoError(t, writable(t.TempDir()))
	require.ErrorContains(t, writable(t.TempDir()+"/missing"), "does not exist")
	require.ErrorContains(t, writable("/dev/null"), "no directory")
	x := &facts{host: host{stateDir: errors.New("permission denied")}}
	require.Equal(t, "problem: /var/lib/lk: this user cannot write there: permission denied", run(checkStateDir, x, Options{Config: &config.Config{StateDir: "/var/lib/lk"}}))
}

func TestFilesAndTime(t *testing.T) {
	require.Equal(t, "warning: a process may have 100 files open; 256 would be safe for what the file runs", run(checkFiles, &facts{host: host{files: 100}}, Options{}))
	require.Equal(t, "ok: a process may have 1024 files open", run(checkFiles, &facts{host: host{files: 1024}}, Options{}))
	require.Equal(t, "warning: the kernel says that the clock of this machine is not synchronised", run(checkTimeSync, &facts{host: host{timeFree: true}}, Options{}))
}

func TestAuditFileOfAllUsers(t *testing.T) {
	dir := t.TempDir()
	look := func(name string) string {
		return run(checkAudit, &facts{}, Options{Config: &config.Config{Audit: config.Audit{File: name}}})
	}
	file, link := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "link")
	require.Empty(t, look(file), "it is not there yet")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(file, link))
	require.Equal(t, "ok: "+file+": is for its owner alone, or his group", look(file))
	require.NoError(t, os.Chmod(file, 0o644))
	require.Equal(t, "warning: "+file+": has the audit trail in it, and others may read or change it (-rw-r--r--)", look(file))
	require.NoError(t, os.Chmod(file, 0o666))
	require.Equal(t, "problem: "+file+": is writable by all users (-rw-rw-rw-): daemons refuse it, and it shows nothing", look(file))
	require.Equal(t, "problem: "+link+": is a symbolic link: daemons refuse it, since a change of the link would redirect what is written", look(link))
}

// Nodes in several places that cannot be read are set right by a command for each.
func TestEachPlaceThatCannotBeReadHasItsCommand(t *testing.T) {
	cfg := lock.Config{Root: "/lk", Operators: []string{"digest:ana:hash"}, Contenders: []string{"digest:keeper:hash"}}
	x := &facts{survey: survey.Survey{Root: "/lk", Exists: true, Refused: []string{"/lk/locks/92", "/lk/ticks/a", "/lk/ticks/b"}}}
	f := &findings{}
	checkMatrix(f, x, Options{Client: cfg})
	require.Len(t, f.all, 2)
	for i, room := range []string{"/lk/locks", "/lk/ticks"} {
		require.Equal(t, setACLs(Options{Client: cfg}, room), f.all[i].Do)
	}
	require.Contains(t, f.all[1].Found, "2 nodes cannot be read")
}
