package robust

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/nemesis"
	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/verdict"
)

func TestUnavailabilityIsTheLongestTimeWithoutAGrantFromTheBeginningOfAFaultOn(t *testing.T) {
	var events []history.Event
	for _, at := range []time.Duration{1, 2, 3, 20, 21, 60, 61} {
		events = append(events, history.Event{At: at, Kind: history.Granted}, history.Event{At: at, Kind: history.Invoked})
	}
	faults := []nemesis.Fault{
		{Kind: nemesis.LeaderKill, Began: 5, Ended: 19},     // until 20, from 5 on
		{Kind: nemesis.LeaderKill, Began: 60, Ended: 61},    // none
		{Kind: nemesis.LinkCut, Began: 20, Ended: 22},       // from 21, within it, until 60
		{Kind: nemesis.ClientKill, Began: 1, Ended: 2},      // until the next
		{Kind: nemesis.DiskFull, Began: 100, Ended: 200},    // no grant came afterwards
		{Kind: nemesis.ServerPause, Began: 1000, Ended: 99}, // nonsense does no harm
	}
	require.Equal(t, map[nemesis.Kind]time.Duration{nemesis.LeaderKill: 15, nemesis.LinkCut: 39, nemesis.ClientKill: 1}, unavailable(faults, events))
}

func TestLeastMarginNamesTheFaultOfItsClient(t *testing.T) {
	g := &verdict.Gap{Client: "c02.3", Told: 10}
	kill := nemesis.Fault{Kind: nemesis.FollowerKillAcked, Clients: []string{"c01"}, Began: 5}
	cut := nemesis.Fault{Kind: nemesis.LinkCut, Clients: []string{"c02"}, Began: 5, Ended: 10}
	other := nemesis.Fault{Kind: nemesis.LinkCut, Clients: []string{"c03"}, Began: 6, Ended: 12}
	early := nemesis.Fault{Kind: nemesis.LinkCut, Clients: []string{"c02"}, Began: 1, Ended: 9}
	late := nemesis.Fault{Kind: nemesis.LinkCut, Clients: []string{"c02"}, Began: 11, Ended: 20}

	require.Equal(t, cut.String(), during(g, []nemesis.Fault{early, kill, cut, other, late}))
	require.Equal(t, kill.String(), during(g, []nemesis.Fault{early, kill, other, late}))
	require.Equal(t, other.String(), during(g, []nemesis.Fault{early, other, late}))
	require.Empty(t, during(g, []nemesis.Fault{early, late}))
	require.Empty(t, during(nil, []nemesis.Fault{cut}))
}

func TestReportsAreAddedUp(t *testing.T) {
	one := func(seed uint64) *Report {
		return &Report{
			Seeds: []uint64{seed}, Runs: 1, Clients: 10, Duration: time.Minute, Drained: time.Duration(seed) * time.Second,
			Faults: []nemesis.Fault{{Kind: nemesis.LinkCut}, {Kind: nemesis.DiskFull, Err: "no"}},
			Absent: map[nemesis.Kind]string{nemesis.ServerClock: "no library"}, Notes: []string{"a note"},
			Unavailable: map[nemesis.Kind]time.Duration{nemesis.LinkCut: time.Duration(seed) * time.Second},
			Violations:  []verdict.Violation{{Check: verdict.CheckTold, Scope: "s", Text: "wrong", Holds: []*verdict.Hold{{Who: "c01.1/1.1"}}}},
			Figures: verdict.Figures{
				Grants: 100, Losses: map[string]int{"session": 2}, Ends: map[string]int{"": 1}, Excused: map[string]int{"paused": 3},
				Overlaps: map[string]verdict.Spread{verdict.OverlapLost: {-5000: 1, -3000: 1}},
				Margins:  verdict.Spread{3000: 1},
				Least:    &verdict.Gap{Length: 303*time.Millisecond - time.Duration(seed)*time.Millisecond, Who: "c01.1/1.1", Next: "c02.1/1.1", Scope: "s"},
			},
			Margin: 250 * time.Millisecond, Noise: 80 * time.Millisecond, LeastDuring: fmt.Sprintf("fault %d", seed),
		}
	}
	total := &Report{}
	for _, seed := range []uint64{3, 4} {
		text, err := json.Marshal(one(seed))
		require.NoError(t, err)
		again := &Report{}
		require.NoError(t, json.Unmarshal(text, again))
		total.Merge(again)
	}

	var text strings.Builder
	require.NoError(t, total.Write(&text))
	for _, want := range []string{
		`(?m)^seeds +3 4$`, `(?m)^faults +4 in 2m0s, in 2 runs$`, `4s after the last fault`, `(?m)^grants +200 `, `(?m)^losses told +session 4$`, `(?m)^excused +paused 6$`,
		`(?m)^VIOLATIONS +2$`,
		`(?m)^least margin +299\.0ms, of 2; 250\.0ms are promised, of which the machine may take 80\.0ms\n +c01\.1/1\.1 was told, then c02\.1/1\.1 was granted "s", during fault 4$`,
		`lost, told before +4 +-500\.0 +-300\.0 +-300\.0 +-300\.0`, `link-cut +2 +4\.0s`, `disk-full +2 +0\.0s +\(2 could not be made\)`,
		`server-clock +cannot be made here: no library`, `note: a note`, `VIOLATION \(told\) of "s"`, `c01\.1/1\.1 exclusive`,
	} {
		require.Regexp(t, want, text.String())
	}
	require.Equal(t, 1, strings.Count(text.String(), "a note"))
	require.Equal(t, "told 2", total.Checks())
}
