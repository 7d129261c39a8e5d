package peers

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// newContest is a run whose contestants are this program, in a role.
func newContest(t *testing.T, as string, rounds int) *contest {
	t.Helper()
	t.Setenv(role, as)
	c := &contest{
		Run: Run{Options: Options{
			Rounds: rounds, Turn: time.Second, WarmUp: time.Second, Session: 10 * time.Second, Hang: 20 * time.Second, Log: &bytes.Buffer{},
		}},
		tools: Tools{self: []string{os.Args[0]}, Missing: map[string]error{}},
		crews: map[string]*crew{},
		place: &place{site: Sites()[0], addresses: map[Family]string{ZooKeeper: "nowhere", Etcd: "nowhere", Redis: "nowhere"}},
	}
	t.Cleanup(func() {
		for _, crew := range c.crews {
			require.NoError(t, crew.close())
		}
	})
	return c
}

func contended(kinds ...string) Work {
	w := Works()[3]
	w.Kinds = kinds
	return w
}

func TestEveryRoundHasATurnOfEachAndRatiosAreOfTheSameRound(t *testing.T) {
	c := newContest(t, "scripted", 5)
	own := Works()[0]
	own.Kinds = []string{"raw", Product}
	require.NoError(t, c.work(t.Context(), own))
	require.Len(t, c.Samples, 10)
	orders := map[string]bool{}
	for round := range 5 {
		pair := c.Samples[2*round : 2*round+2]
		require.Equal(t, round, pair[0].Round)
		require.Equal(t, round, pair[1].Round)
		require.NotEqual(t, pair[0].Kind, pair[1].Kind)
		orders[pair[0].Kind] = true
	}
	lines := c.Lines()
	require.Len(t, lines, 2)
	require.Equal(t, Product, lines[0].Kind)
	// Both get faster by a tenth of their first each round: a ratio of medians of other rounds would show.
	require.Equal(t, Ratio{0.75, 0.75, 0.75, 5}, lines[1].Ours)
	require.InDelta(t, 300+3*30, lines[0].Rate, 0, "the first turn, which warms up, does not count")
	require.Empty(t, c.Failures)
}

func TestTheOrderIsDrawnAnew(t *testing.T) {
	c := newContest(t, "scripted", 40)
	require.NoError(t, c.work(t.Context(), contended("redis", Product)))
	first := map[string]int{}
	for i := 0; i < len(c.Samples); i += 2 {
		first[c.Samples[i].Kind]++
	}
	require.Len(t, first, 2, "in 40 rounds the same one began: %v", first) // by chance once in half a million million runs
}

func TestAContestantThatHangsIsEndedAndShown(t *testing.T) {
	c := newContest(t, "scripted", 4)
	c.Options.Turn, c.Options.Hang = time.Millisecond, 10*time.Second
	c.Options.WarmUp = 10 * time.Second // it answers that one
	require.NoError(t, c.work(t.Context(), contended(Product, "zklock")))
	require.Len(t, c.Failures, 1)
	require.Equal(t, "zklock", c.Failures[0].Kind)
	require.Contains(t, c.Failures[0].Why, "round 2: process ")
	require.Contains(t, c.Failures[0].Why, "did not answer in time, and was ended")
	require.NotContains(t, c.crews, "zklock×1")
	require.Len(t, c.Samples, 5, "ours goes on")
	text := printed(t, c.Run)
	require.Contains(t, text, "Who could not take part, or not to the end")
	require.Contains(t, text, "did not answer in time")
}

func TestAContestantThatEndsOrLacksSomethingIsShownWithTheReason(t *testing.T) {
	c := newContest(t, "scripted", 2)
	c.tools.Missing["java"] = errors.New("no Curator here")
	require.NoError(t, c.work(t.Context(), contended(Product, "curator-mutex", "etcd")))
	require.Len(t, c.Samples, 2)
	text := printed(t, c.Run)
	require.Contains(t, text, "no Curator here")
	require.Contains(t, text, "has ended; it said: this one does not like cycles")
}

func TestBrokenExclusionAndErrorsAreShown(t *testing.T) {
	c := newContest(t, "scripted", 2)
	require.NoError(t, c.work(t.Context(), contended(Product, "redis")))
	require.Len(t, c.Checks, 2)
	for _, s := range c.Samples {
		require.Zero(t, s.Violations, "measured turns are not checked")
	}
	text := printed(t, c.Run)
	require.Contains(t, text, "BROKEN 7 of 50")
	require.Contains(t, text, "yes, 300")
	require.Contains(t, text, "4: timeout")
}

func printed(t *testing.T, r Run) string {
	t.Helper()
	var text, markdown bytes.Buffer
	require.NoError(t, WriteText(&text, r.Tables()))
	require.NoError(t, WriteMarkdown(&markdown, r.Tables()))
	for _, table := range r.Tables() {
		require.Contains(t, markdown.String(), "### "+table.Title+"\n\n")
		for _, row := range table.Rows {
			require.Contains(t, markdown.String(), "| "+strings.Join(row, " | ")+" |\n")
			for _, cell := range row {
				require.Contains(t, text.String(), cell)
			}
		}
	}
	return text.String()
}

func TestSeveralProcessesAddUp(t *testing.T) {
	c := newContest(t, "scripted", 1)
	w := contended(Product)
	w.Processes = 3
	require.NoError(t, c.work(t.Context(), w))
	require.Len(t, c.Samples, 1)
	require.Equal(t, 3*360, c.Samples[0].Cycles, "after two turns to warm up, one of them for several processes alone")
	require.InDelta(t, 1, c.Samples[0].Seconds, 0)
}

// All contestants for ZooKeeper, in all languages, on the embedded server.
func TestContestantsSpeakTheProtocol(t *testing.T) {
	server := zktest.RunT(t, zktest.FourLetterWords("*"))
	t.Setenv(role, "played")
	tools := FindTools(t.Context(), []string{os.Args[0]}, ".", t.TempDir())
	for _, k := range Kinds() {
		if k.Family != ZooKeeper {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			require.NoError(t, tools.lacks(k), "a test of all of them needs all of them")
			crew, err := recruit(tools.command(k), k, server.Addr(), 10*time.Second, 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, crew.close()) }()
			play := func(turn contestant.Turn) (contestant.Result, error) {
				return crew.play(t.Context(), time.Minute, func(int) contestant.Turn { return turn })
			}
			// until plays a turn again while the machine is too busy for a new contestant to get anywhere.
			until := func(turn contestant.Turn, enough func(contestant.Result) bool) contestant.Result {
				var r contestant.Result
				for range 30 {
					var err error
					r, err = play(turn)
					require.NoError(t, err)
					require.Zero(t, r.Errors, r.FirstError)
					if enough(r) {
						break
					}
				}
				return r
			}
			locks := []string{"one", "one", "one", "one"}
			turn := contestant.Turn{Do: contestant.Cycles, Locks: locks, Seconds: 0.5, WorkMicros: 2000, Check: t.TempDir()}
			if k.Name == "curator-semaphore" {
				turn.Permits = 2
			}
			r := until(turn, func(r contestant.Result) bool { return r.Cycles > 3 && (k.Name != "raw" || r.Violations > 0) })
			require.Greater(t, r.Cycles, 3)
			require.LessOrEqual(t, r.Cycles, 4*250)
			require.Equal(t, k.Name == "raw", r.Violations > 0, "%d violations: only the limit does not exclude", r.Violations)
			require.Positive(t, r.CPUMillis)
			require.Positive(t, r.P50Micros)
			require.GreaterOrEqual(t, r.P99Micros, r.P50Micros)

			turn.Locks = []string{"a", "b", "c", "d"}
			r = until(turn, func(r contestant.Result) bool { return r.Violations > 0 })
			require.Positive(t, r.Violations, "with a lock each they are inside together: that has to be seen")

			turn.Locks = locks
			turn.Shared, turn.Permits, turn.Check, turn.Clients = true, 2, "", 1
			r = until(turn, func(r contestant.Result) bool { return r.Cycles > 0 })
			require.Positive(t, r.Cycles)

			_, err = play(contestant.Turn{Do: contestant.Hold, Locks: []string{"held"}})
			require.NoError(t, err)
			_, err = play(contestant.Turn{Do: "dance"})
			require.ErrorContains(t, err, "dance")
		})
	}
}

func TestThoseThatEndLateCostAsMuch(t *testing.T) {
	var r Run
	for kind, cycles := range map[string]int{Product: 95, "zklock": 100, "curator-mutex": 90, "kazoo": 60} {
		w := Works()[5] // 10 ms inside: 100 in a second
		r.Samples = append(r.Samples, Sample{
			Site: "tmpfs", Group: w.Group, Work: w.Name, Kind: kind,
			Result:   contestant.Result{Cycles: cycles, Late: cycles, Seconds: 1, CPUMillis: float64(2 * cycles)},
			Counters: Counters{Writes: float64(4 * cycles)},
		})
	}
	lines := r.Lines()
	require.Len(t, lines, 4)
	for _, l := range lines {
		require.InDelta(t, 2, l.Counters.Writes, 0, "those that ended late cost as much")
		require.InDelta(t, 1000, l.CPU, 0)
	}
	require.Equal(t, 2*128*10*time.Millisecond, Works()[14].length(time.Second), "everybody comes in twice: "+Works()[14].Name)
}

func TestSharedModeAndPermitsAreAskedFor(t *testing.T) {
	for _, w := range Works() {
		turn := w.turn(3, 2*time.Second)
		require.Len(t, turn.Locks, w.Workers)
		require.InDelta(t, 2, turn.Seconds, 0)
		require.Equal(t, w.Shared, turn.Shared)
		require.Equal(t, w.Permits, turn.Permits)
		names := map[string]bool{}
		for _, l := range append(turn.Locks, w.turn(4, time.Second).Locks...) {
			names[l] = true
		}
		if w.One {
			require.Len(t, names, 1)
		} else {
			require.Len(t, names, 2*w.Workers)
		}
		require.Contains(t, w.Kinds, Product)
		for _, k := range w.Kinds {
			_, known := kindOf(k)
			require.True(t, known, k)
		}
	}
	require.Equal(t, []string{"own", "contended", "processes", "crowd", "shared", "semaphore", "queue", "preempt", "failover"}, Groups())
}

func TestWhatServersCountIsRead(t *testing.T) {
	zxid, err := parseZxid("Zookeeper version: 3.8\nReceived: 35\nZxid: 0x10000000b\nMode: follower\n")
	require.NoError(t, err)
	require.InDelta(t, 11, zxid, 0)
	_, err = parseZxid("This ZooKeeper instance is not currently serving requests\n")
	require.ErrorContains(t, err, "no zxid")
	c := parseCounters(map[string]string{
		"zk_packets_received": "34", "zk_response_bytes": "2500", "zk_cnt_x_read_per_namespace": "3", "zk_cnt_y_read_per_namespace": "2.0",
		"zk_cnt_x_write_per_namespace": "9",
	})
	require.Equal(t, Counters{Requests: 34, Reads: 5, Bytes: 2500}, c)
	require.Equal(t, Counters{Requests: 17, Reads: 2.5, Bytes: 1250}, c.each(2))
}

func TestTheJarsAreFound(t *testing.T) {
	java, err := peers.CompileJava(t.Context(), "java", t.TempDir(), "Contestant")
	require.NoError(t, err)
	require.Contains(t, version(java.Jar("curator-recipes")), "curator-recipes")
}

func TestAServerThatDoesNotStartIsMissing(t *testing.T) {
	tools := Tools{etcd: "/bin/false", redis: "/no/such/program", Missing: map[string]error{}}
	place, err := Sites()[0].open(t.Context(), tools, func(f Family) bool { return f != ZooKeeper })
	require.NoError(t, err)
	defer func() { require.NoError(t, place.close()) }()
	require.Empty(t, place.addresses)
	etcd, _ := kindOf("etcd")
	require.ErrorContains(t, tools.lacks(etcd), "etcd could not be started")
	redis, _ := kindOf("redis")
	require.ErrorContains(t, tools.lacks(redis), "Redis could not be started")
	raw, _ := kindOf("raw")
	require.NoError(t, tools.lacks(raw))
}
