package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// configuration has two jobs that run each second, in whatever daemon is first, and a group of two locks.
const configuration = `version: 1
jobs:
  a: {schedule: "@every 1s", run: [sh, -c, 'echo $SITE $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>ticks'], locks: [{scope: jobs/a}]}
  b: {schedule: "@every 1s", run: [sh, -c, 'echo $SITE $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>ticks']}
  c: {schedule: "@every 1s", run: [sh, -c, 'echo $SITE $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>ticks']}
groups:
  - {name: shards, locks: [users, carts]}
`

// credentials are those of all processes.
const credentials = "ann:s3cret"

// cleaning is work that says when it begins, when it gets SIGTERM, and when it has cleaned up.
const cleaning = `trap 'echo $SITE cleans >>journal; exit 0' TERM; echo $SITE holds >>journal; while :; do sleep 0.05; done`

func newSite(t *testing.T, server *zktest.Server) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), zk: server.Addr()}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "lockkeeper.yaml"), []byte(configuration), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "digest"), []byte(credentials+"\n"), 0o600))
	return s
}

func TestProgramOfAnEarlierCommitAndTodaysShareOneZooKeeper(t *testing.T) {
	if !hasHistory(t) {
		t.Logf("the commit %s is not at hand: its recorded nodes are read in TestNodesOfAnEarlierCommitAreRead alone", earlier)
		return
	}
	programs := map[string]string{"old": buildEarlier(t), "new": buildToday(t)}
	both := [][2]string{{"old", "new"}, {"new", "old"}}

	t.Run("ticks", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, zktest.RunT(t))
		daemons := []*process{s.start("old", programs["old"], "run"), s.start("new", programs["new"], "run")}
		ran := func(lines []string, who string) bool {
			return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, who+" ") })
		}
		s.lines("ticks", func(lines []string) bool { return len(lines) >= 20 && ran(lines, "old") && ran(lines, "new") }, "20 ticks, of both")
		jobs := s.run(programs["new"], "jobs", "ls", "-o", "json")
		require.JSONEq(t, names(t, jobs), names(t, s.run(programs["old"], "jobs", "ls", "-o", "json")))
		for _, d := range daemons {
			d.terminate()
			d.exits(0)
		}
		once := map[string]string{}
		for _, line := range s.lines("ticks", func([]string) bool { return true }, "") {
			who, tick, _ := strings.Cut(line, " ")
			require.Empty(t, once[tick], "%s ran twice, by %s too", line, once[tick])
			once[tick] = who
		}
	})

	for _, pair := range both {
		holder, other := pair[0], pair[1]
		t.Run(fmt.Sprintf("a lock of the %s program", holder), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, zktest.RunT(t))
			hold := s.start(holder, programs[holder], "exec", "-s", "orders", "--", "sh", "-c", cleaning)
			s.has("journal", holder+" holds")

			// Two wait: one of each, the more important one behind the other.
			late := s.start("late", programs[holder], "exec", "-s", "orders", "--", "sh", "-c", "echo late >>journal")
			s.waiters(programs[other], "orders", 1)
			// The other program preempts, and passes the one that waits.
			first := s.start("first", programs[other], "exec", "-s", "orders", "-p", "9", "--", "sh", "-c", "echo first >>journal; sleep 0.2")
			hold.exits(76)
			first.exits(0)
			late.exits(0)
			journal := s.lines("journal", func(lines []string) bool { return len(lines) == 4 }, "four lines")
			require.Equal(t, []string{holder + " holds", holder + " cleans", "first", "late"}, journal)
			for _, program := range programs {
				require.Contains(t, s.run(program, "locks", "ls", "-o", "json"), `"state": "free"`)
			}
		})

		t.Run(fmt.Sprintf("an override that the %s program applies", holder), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, zktest.RunT(t))
			s.run(programs["new"], "exec", "-s", "orders", "--", "true") // there is a root, whichever program was first
			s.run(programs[holder], "override", "apply", "INC-1", "--kind", "freeze", "-s", "orders", "--for", "1h", "-r", "repair")
			frozen := s.start("frozen", programs[other], "exec", "-s", "orders", "--acquire", "500ms", "--", "sh", "-c", "echo ran >>journal")
			frozen.exits(75)
			require.NoFileExists(t, filepath.Join(s.dir, "journal"))
			require.Contains(t, s.run(programs[other], "override", "ls"), "INC-1")
			s.run(programs[other], "override", "clear", "INC-1", "-r", "repaired")
			s.run(programs[holder], "exec", "-s", "orders", "--", "true")
			for _, program := range programs {
				require.Contains(t, s.run(program, "audit"), "INC-1")
				s.run(program, "audit", "verify")
			}
		})
	}

	t.Run("a group", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, zktest.RunT(t))
		work := []string{"--", "sh", "-c", `trap 'echo $SITE leaves $LOCKKEEPER_LOCK >>journal; exit 0' TERM; echo $SITE has $LOCKKEEPER_LOCK >>journal; while :; do sleep 0.05; done`}
		join := func(who string) *process {
			return s.start(who, programs[who], append([]string{"group", "join", "--name", who}, work...)...)
		}
		older := join("old")
		s.lines("journal", func(lines []string) bool { return len(lines) == 2 }, "the old one has both locks")
		newer := join("new")
		lines := s.lines("journal", func(lines []string) bool { return len(lines) == 4 }, "one lock has moved")
		require.Regexp(t, "^old leaves ", lines[2])
		require.Equal(t, "new has "+strings.TrimPrefix(lines[2], "old leaves "), lines[3])
		older.terminate()
		older.exits(0)
		s.lines("journal", func(lines []string) bool { return len(lines) == 6 && strings.HasPrefix(lines[5], "new has ") }, "the new one has both")
		newer.terminate()
		newer.exits(0)
	})
}

// names are the names in a list in JSON.
func names(t *testing.T, list string) string {
	t.Helper()
	var all []struct {
		Name string `json:"name"`
	}
	require.NoError(t, json.Unmarshal([]byte(list), &all), list)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	return string(text)
}

// waiters waits until that many requests wait for a lock.
func (s *site) waiters(program, scope string, n int) {
	s.t.Helper()
	harness.Eventually(s.t, func() bool {
		var locks []struct {
			Scope   string            `json:"scope"`
			Waiters []json.RawMessage `json:"waiters"`
		}
		text := s.run(program, "locks", "ls", "-o", "json")
		require.NoError(s.t, json.Unmarshal([]byte(text), &locks), text)
		for _, l := range locks {
			if l.Scope == scope {
				return len(l.Waiters) == n
			}
		}
		return false
	}, "%d wait for %s", n, scope)
}
