package zkdiff

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// The four letter words tell the same of the same state: zxid, nodes, watches, sessions, ephemeral nodes. Times, sizes of
// packets and what the machine is like are left out.
func TestFourLetterWords(t *testing.T) {
	p, err := launchPair(t.Context(), oracle, embedded)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.close()) }()
	for _, step := range (Script{
		{Do: Create, Path: "/a", Data: []byte("data"), ACL: everybody},
		{Do: Create, Path: "/a/e1", ACL: everybody, Flags: ephemeral},
		{Do: Create, Path: "/a/e2", ACL: everybody, Flags: ephemeral},
		{On: 1, Do: Create, Path: "/e-", ACL: everybody, Flags: ephemeralSequential},
		{On: 1, Do: Exists, Path: "/a", Watch: true},
		{On: 1, Do: GetChildren, Path: "/a", Watch: true},
		{On: 2, Do: GetData, Path: "/a", Watch: true},
		{On: 2, Do: Exists, Path: "/none", Watch: true},
		{On: 2, Do: AddWatch, Path: "/a", Mode: 1},
		{On: 3, Do: WhoAmI},
		{On: 3, Do: CloseSession},
	}) {
		difference, _ := p.do(step)
		require.Empty(t, difference)
	}
	require.Eventually(t, func() bool { // one that has just been answered may still count as being served
		return strings.Count(ask(t, p.real.addr, "cons"), "[1](") == sessions-1
	}, patience, time.Millisecond)
	words := []string{
		"srvr", "stat", "mntr", "ruok", "isro", "envi", "conf", "cons", "wchs", "wchp", "wchc", "dump", "gtmk",
		"crst", "srst", "dirs", "hash", "orst", "xxxx",
	}
	for _, word := range words {
		t.Run(word, func(t *testing.T) {
			expected := plain(p.real, ask(t, p.real.addr, word))
			actual := plain(p.fake, ask(t, p.fake.addr, word))
			if word == "mntr" || word == "envi" { // a JVM has more to tell
				expected = linesOf(expected, actual)
			}
			require.Equal(t, expected, actual, "expected: the real server's")
			t.Logf("both:\n%s", actual)
		})
	}
}

// ask sends a word and returns the answer.
func ask(t *testing.T, addr, word string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := zkserver.Ask(ctx, addr, word)
	require.NoError(t, err)
	return answer
}

// What cannot be the same, by its place in a line.
var matters = []struct{ pattern, instead string }{
	{`^Zookeeper version: .*`, "Zookeeper version"},
	{`^(Latency min/avg/max: ).*`, "$1"},
	{`^(Received|Sent|Connections|Outstanding): \d+`, "$1"},
	{`^ /127\.0\.0\.1:\d+\[1\]\(queued=0,recved=\d+,sent=\d+.*`, " /client[1]"},
	{`^ /127\.0\.0\.1:\d+\[0\].*|^\tip: \S+ sessionId: 0x0$`, ""}, // this word, or the last one on its way out
	{`^(\tip: )\S+`, "$1"},
	{`^(maxClientCnxns|dataDir|dataLogDir|dataDirSize|dataLogSize|datadir_size|logdir_size|clientPort|clientPortBindAddress|secureClientPort)(=|: ).*`, "$1"},
	{`\b0x1[0-9a-f]{14,15}\b`, "session"},
	{`^(Sessions with Ephemerals|Session Sets|Connections Sets) .*`, "$1"},
	{`^\d+ expire at .*`, ""},
	{`^(ephemeral nodes dump:|Connections dump:)$`, "$1"},
}

// plain leaves out what is a matter of time and machine, and sorts what a hash set has mixed.
func plain(s *side, text string) string {
	for id, n := range s.sessions {
		text = strings.ReplaceAll(text, fmt.Sprintf("0x%x", uint64(id)), fmt.Sprintf("S%d", n))
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		for _, m := range matters {
			line = regexp.MustCompile(m.pattern).ReplaceAllString(line, m.instead)
		}
		if key, value, ok := strings.Cut(line, "\t"); ok && strings.HasPrefix(key, "zk_") && !exact[key] {
			line = key + "\t" + map[bool]string{true: "#", false: value}[anyNumber.MatchString(value)]
		}
		if key, _, ok := strings.Cut(line, "="); ok && slices.ContainsFunc(machine, func(p string) bool { return strings.HasPrefix(key, p) }) {
			line = key
		}
		lines[i] = line
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// linesOf leaves the lines of a text whose keys another one has, too.
func linesOf(text, other string) string {
	key := func(line string) string { return line[:strings.IndexAny(line+"=", "=\t")] }
	var known []string
	for line := range strings.Lines(other) {
		known = append(known, key(strings.TrimSpace(line)))
	}
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return !slices.Contains(known, key(line))
	}), "\n")
}

// exact are figures of mntr that depend on the state alone.
var exact = map[string]bool{
	"zk_znode_count": true, "zk_watch_count": true, "zk_ephemerals_count": true, "zk_approximate_data_size": true,
	"zk_global_sessions": true, "zk_server_state": true,
}

// machine are the parts of envi that tell of the machine.
var machine = []string{"zookeeper.version", "java.", "os.", "user.", "host.", "jvm."}
