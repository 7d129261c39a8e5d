package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// speaker reaches a server that answers words alone, in a bubble: how long that takes on a busy machine does not matter.
func speaker(answers map[string]string) lock.Config {
	return lock.Config{Dialer: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			word := make([]byte, 4)
			if _, err := io.ReadFull(ours, word); err != nil {
				return
			}
			answer, known := answers[string(word)]
			if !known {
				answer = string(word) + " is not executed because it is not in the whitelist.\n"
			}
			_, _ = io.WriteString(ours, answer)
		}()
		return theirs, nil
	}}
}

// What leaders of these versions answer, shortened.
var leaders = map[string]map[string]string{
	"3.4.14": {
		"srvr": "Zookeeper version: 3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT\nLatency min/avg/max: 0/1/38\nReceived: 77\nSent: 76\nConnections: 3\nOutstanding: 0\nZxid: 0x100000007\nMode: leader\nNode count: 12\n",
		"mntr": "zk_version\t3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT\nzk_avg_latency\t1\nzk_max_latency\t38\nzk_min_latency\t0\nzk_num_alive_connections\t3\nzk_outstanding_requests\t0\nzk_server_state\tleader\nzk_znode_count\t12\nzk_open_file_descriptor_count\t33\nzk_max_file_descriptor_count\t1048576\nzk_fsync_threshold_exceed_count\t2\nzk_followers\t2\nzk_synced_followers\t2\nzk_pending_syncs\t0\n",
	},
	"3.5.8": {
		"srvr": "Zookeeper version: 3.5.8-f439ca583e70862c3068a1f2a7d4d068eec33315, built on 05/04/2020 15:07 GMT\nLatency min/avg/max: 0/1/38\nReceived: 77\nSent: 76\nConnections: 3\nOutstanding: 0\nZxid: 0x100000007\nMode: leader\nNode count: 12\nProposal sizes last/min/max: 48/32/105\n",
		"mntr": "zk_version\t3.5.8-f439ca583e70862c3068a1f2a7d4d068eec33315, built on 05/04/2020 15:07 GMT\nzk_avg_latency\t1\nzk_max_latency\t38\nzk_min_latency\t0\nzk_num_alive_connections\t3\nzk_outstanding_requests\t0\nzk_server_state\tleader\nzk_znode_count\t12\nzk_open_file_descriptor_count\t66\nzk_max_file_descriptor_count\t1048576\nzk_followers\t2\nzk_synced_followers\t2\nzk_pending_syncs\t0\nzk_last_proposal_size\t48\n",
		"conf": "clientPort=2181\nsecureClientPort=-1\ntickTime=2000\nmaxClientCnxns=60\nminSessionTimeout=4000\nmaxSessionTimeout=40000\nserverId=1\ninitLimit=10\nserver.1=zk1:2888:3888:participant\nmembership: \n",
	},
	"3.6.3": {
		"srvr": "Zookeeper version: 3.6.3--6401e4ad2087061bc6b9f80dec2d69f2e3c8660a, built on 04/08/2021 16:35 GMT\nLatency min/avg/max: 0/0.7/38\nReceived: 77\nSent: 76\nConnections: 3\nOutstanding: 0\nZxid: 0x100000007\nMode: leader\nNode count: 12\n",
		"mntr": "zk_version\t3.6.3--6401e4ad2087061bc6b9f80dec2d69f2e3c8660a, built on 04/08/2021 16:35 GMT\nzk_server_state\tleader\nzk_peer_state\tleading - broadcast\nzk_avg_latency\t0.7\nzk_max_latency\t38\nzk_min_latency\t0\nzk_num_alive_connections\t3\nzk_outstanding_requests\t0\nzk_quorum_size\t3\nzk_learners\t2\nzk_synced_followers\t2\nzk_synced_observers\t0\nzk_synced_non_voting_followers\t0\n",
	},
	"3.8.4": {
		"srvr": "Zookeeper version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC\nLatency min/avg/max: 0/0.7345/38\nReceived: 77\nSent: 76\nConnections: 3\nOutstanding: 0\nZxid: 0x100000007\nMode: leader\nNode count: 12\n",
		"mntr": "zk_version\t3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC\nzk_server_state\tleader\nzk_peer_state\tleading - broadcast\nzk_avg_latency\t0.7345\nzk_max_latency\t38\nzk_min_latency\t0\nzk_num_alive_connections\t3\nzk_outstanding_requests\t0\nzk_quorum_size\t3\nzk_learners\t2\nzk_synced_followers\t2\nzk_synced_observers\t0\n",
	},
	"3.9.2": {
		"srvr": "Zookeeper version: 3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2024-02-12 20:59 UTC\nLatency min/avg/max: 0/0.7/38\nReceived: 77\nSent: 76\nConnections: 3\nOutstanding: 0\nZxid: 0x100000007\nMode: leader\nNode count: 12\nProposal sizes last/min/max: 48/48/105\n",
		"mntr": "zk_version\t3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2024-02-12 20:59 UTC\nzk_server_state\tleader\nzk_avg_latency\t0.7\nzk_max_latency\t38\nzk_min_latency\t0\nzk_num_alive_connections\t3\nzk_outstanding_requests\t0\nzk_quorum_size\t3\nzk_learners\t3\nzk_synced_followers\t2\nzk_synced_observers\t1\n",
	},
}

func TestAnswersOfAllVersions(t *testing.T) {
	for release, answers := range leaders {
		t.Run(release, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, closed, answered := askWords(t.Context(), speaker(answers), "zk1:2181")
				require.True(t, answered)
				require.Equal(t, answers["conf"] == "", len(closed) == 1 && closed[0] == "conf", "%q", closed)
				v, built, ok := parseVersion(f["version"])
				require.True(t, ok, f["version"])
				require.Equal(t, release, v.String())
				require.NotZero(t, built.Year())
				require.Equal(t, "leader", f["server_state"])
				for name, want := range map[string]float64{"max_latency": 38, "outstanding_requests": 0, "num_alive_connections": 3, "synced_followers": 2} {
					n, ok := f.number(name)
					require.True(t, ok, name)
					require.InDelta(t, want, n, 0, name)
				}
				x := &facts{servers: []*server{{address: "zk1", figures: f, source: fromWords}}, members: voters(3)}
				found := run(checkQuorum, x, Options{})
				require.Contains(t, found, "ok: 3 voting servers, all there, led by zk1: one may fail")
			})
		})
	}
}

func TestServerWithoutQuorumSaysSo(t *testing.T) {
	const text = "This ZooKeeper instance is not currently serving requests\n"
	synctest.Test(t, func(t *testing.T) {
		f, closed, answered := askWords(t.Context(), speaker(map[string]string{"srvr": text, "mntr": text, "conf": "tickTime=2000\n"}), "zk1:2181")
		require.True(t, answered)
		require.Empty(t, closed)
		require.True(t, (&server{figures: f}).withoutQuorum())
	})
}

func TestFourLetterWordTimesOutWithoutAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = word(ctx, lock.Config{}, l.Addr().String(), "srvr")
	require.Error(t, err)
}

// Of ZooKeeper 3.8.0, shortened.
const (
	adminServer  = `{"version": "3.8.0-x, built on 2024-12-29 17:54 UTC", "read_only": false, "server_stats": {"server_state": "standalone", "outstanding_requests": 7, "avg_latency": 0.5, "fsync_threshold_exceed_count": 1}, "node_count": 5, "command": "server_stats", "error": null}`
	adminSilence = `{"command": "monitor", "error": "This ZooKeeper instance is not currently serving requests"}`
)

func TestAnswersOfTheAdminServer(t *testing.T) {
	f, ok := parseAdmin([]byte(adminServer))
	require.True(t, ok)
	require.Equal(t, "standalone", f["server_state"])
	n, ok := f.number("fsync_threshold_exceed_count")
	require.True(t, ok)
	require.InDelta(t, 1, n, 0)

	f, ok = parseAdmin([]byte(adminSilence))
	require.True(t, ok)
	require.Contains(t, f["error"], notServing)

	for _, text := range []string{"", "<html>", `{"status": "up"}`, `[1]`} {
		_, ok = parseAdmin([]byte(text))
		require.False(t, ok, "another program: %s", text)
	}
}

func TestSessionIsFoundAmongConnections(t *testing.T) {
	const text = " /127.0.0.1:1[1](queued=0,recved=3,sent=3,sid=0x100000000000001,lop=PING,est=1700000000123,to=4000)\n /127.0.0.1:2[0](queued=0,recved=1,sent=0)\n"
	at, ok := parseEstablished(text, 0x100000000000001)
	require.True(t, ok)
	require.EqualValues(t, 1700000000123, at)
	_, ok = parseEstablished(text, 0x10000000000000)
	require.False(t, ok)
}

func TestAdminServerOfAnotherServerIsNotBelieved(t *testing.T) {
	answers := map[string]string{
		"/commands/srvr":          adminServer,
		"/commands/monitor":       `{"server_state": "standalone", "znode_count": 5, "command": "monitor", "error": null}`,
		"/commands/configuration": `{"client_port": 2181, "tick_time": 2000, "command": "configuration", "error": null}`,
	}
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, answers[r.URL.Path]) }))
	defer admin.Close()
	_, text, err := net.SplitHostPort(admin.Listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)

	f, ok := askAdmin(t.Context(), "127.0.0.1:2181", port)
	require.True(t, ok)
	require.Equal(t, "2000", f["tick_time"])
	require.Equal(t, "7", f["outstanding_requests"])
	_, ok = askAdmin(t.Context(), "127.0.0.1:2182", port)
	require.False(t, ok, "that of the server at port 2181")
	answers["/commands/monitor"] = "<html>"
	_, ok = askAdmin(t.Context(), "127.0.0.1:2181", port)
	require.False(t, ok, "no ZooKeeper at all")
}
