package upgrade

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// -update records the nodes anew, from the program of the earlier commit.
var update = flag.Bool("update", false, "record the nodes of the earlier program anew")

// recorded is a node that the earlier program has left.
type recorded struct {
	Path      string `json:"path"`
	Data      string `json:"data,omitempty"`
	Ephemeral bool   `json:"ephemeral,omitempty"`
}

var nodesFile = filepath.Join("testdata", "nodes-"+earlier+".json")

func TestNodesOfAnEarlierCommitAreRead(t *testing.T) {
	if *update {
		record(t)
	}
	text, err := os.ReadFile(nodesFile)
	require.NoError(t, err)
	var nodes []recorded
	require.NoError(t, json.Unmarshal(text, &nodes))

	// Given a ZooKeeper with these nodes, and a session that has those of requests and members.
	server := zktest.RunT(t)
	session, _, err := zk.Connect([]string{server.Addr()}, harness.Patience, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(session.Close)
	require.NoError(t, session.AddAuth("digest", []byte(credentials)))
	for _, n := range nodes {
		flags := int32(0)
		if n.Ephemeral {
			flags = zk.FlagEphemeral
		}
		_, err := session.Create(n.Path, []byte(n.Data), flags, zk.AuthACL(zk.PermAll))
		require.NoError(t, err, n.Path)
	}

	// Then today's commands read all of them.
	s, program := newSite(t, server), buildToday(t)
	var locks []struct {
		Scope   string                       `json:"scope"`
		Holders []struct{ Priority int }     `json:"holders"`
		Waiters []struct{ Priority int }     `json:"waiters"`
		Problem *struct{ Reason, Do string } `json:"problem"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.run(program, "locks", "ls", "-o", "json")), &locks))
	found := false
	for _, l := range locks {
		if l.Scope == "orders" {
			found = true
			require.Len(t, l.Holders, 1)
			require.Equal(t, 3, l.Holders[0].Priority)
			require.Len(t, l.Waiters, 1)
			require.Equal(t, 2, l.Waiters[0].Priority)
		}
	}
	require.True(t, found, "the lock of orders")
	for _, read := range []struct {
		args  []string
		shows string
	}{
		{[]string{"jobs", "ls"}, `(?m)^a +`},
		{[]string{"jobs", "history", "a"}, `ran`},
		{[]string{"group", "show", "shards"}, `users`},
		{[]string{"override", "ls"}, ``}, // it is over by now
		{[]string{"audit"}, `INC-1`},
		{[]string{"locks", "why", "orders"}, `waits|held`},
	} {
		p := s.start("read", program, read.args...)
		require.Regexp(t, read.shows, p.exits(0), read.args)
		require.NotContains(t, p.stderr.String(), "unreadable", read.args)
	}
	// And a request of today waits behind them, and for its turn.
	s.start("behind", program, "exec", "-s", "orders", "--acquire", "300ms", "--", "true").exits(75)
}

// record lets the earlier program leave one node of each kind.
func record(t *testing.T) {
	t.Helper()
	server := zktest.RunT(t)
	s, program := newSite(t, server), buildEarlier(t)
	s.run(program, "override", "apply", "INC-1", "--kind", "freeze", "-s", "elsewhere", "--for", "24h", "-r", "repair")
	daemon := s.start("daemon", program, "run")
	s.lines("ticks", func(lines []string) bool { return len(lines) >= 6 }, "six ticks")
	daemon.terminate()
	daemon.exits(0)
	s.start("holder", program, "exec", "-s", "orders", "-p", "3", "--lease", "1h", "--", "sh", "-c", cleaning)
	s.has("journal", "holder holds")
	s.start("waiter", program, "exec", "-s", "orders", "-p", "2", "--", "true")
	s.waiters(program, "orders", 1)
	s.start("member", program, "group", "join", "--name", "member", "--", "sh", "-c", `echo $LOCKKEEPER_LOCK >>journal; while :; do sleep 0.05; done`)
	s.has("journal", "users")
	s.has("journal", "carts")

	var nodes []recorded
	for _, n := range server.Tree("/lockkeeper") {
		nodes = append(nodes, recorded{Path: n.Path, Data: string(n.Data), Ephemeral: n.Stat.EphemeralOwner != 0})
	}
	text, err := json.MarshalIndent(nodes, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(nodesFile), 0o755))
	require.NoError(t, os.WriteFile(nodesFile, append(text, '\n'), 0o644))
}
