//go:build deadlines

package deadlines_test

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/deadlines"
	"github.com/lockkeeper/lockkeeper/integration/internal/peers"
)

var (
	whole    = flag.Bool("whole", false, "measure the whole table; the flags below choose a part of it")
	voters   = flag.String("voters", "3,5", "voters of the ensembles")
	ticks    = flag.String("ticks", "200ms,500ms,2s", "ticks of the servers")
	limits   = flag.String("synclimits", "5", "syncLimits of the servers, in ticks")
	faults   = flag.String("faults", "", "faults; none is all that the ensemble can have")
	sessions = flag.String("sessions", "4s,10s,30s", "session timeouts; those below two ticks are left out")
	margins  = flag.String("margins", "default,1t", "values of Config.Margin: default, a duration, or a number of ticks (1t)")
	rounds   = flag.Int("rounds", 1, "how often each fault strikes")
	each     = flag.Int("each", 8, "how many holders of each kind a fault meets")
	seed     = flag.Uint64("seed", 0, "seed of the instants; 0 draws one")
	others   = flag.Bool("peers", false, "measure the locks of other libraries")
)

func list[T any](t *testing.T, text string, parse func(string) (T, error)) (all []T) {
	t.Helper()
	for field := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(field))
		require.NoError(t, err)
		all = append(all, v)
	}
	return all
}

// margin is negative for ticks, see deadlines.Specs.
func margin(text string) (time.Duration, error) {
	if text == "default" {
		return 0, nil
	}
	if n, isTicks := strings.CutSuffix(text, "t"); isTicks {
		ticks, err := strconv.Atoi(n)
		return -time.Duration(ticks), err
	}
	return time.ParseDuration(text)
}

// The flags say what is played: the whole table, the locks of other libraries, or else a small part of the table.
func TestHolderIsNotifiedBeforeItsWaiterIsGranted(t *testing.T) {
	switch {
	case *whole:
		playWhole(t)
	case *others:
		playPeers(t)
	default:
		playClosest(t)
	}
}

// playClosest plays what is known to come closest.
func playClosest(t *testing.T) {
	t.Helper()
	bench, err := deadlines.Open(t.Context(), deadlines.Setup{Voters: 3, Tick: 500 * time.Millisecond, SyncLimit: 10})
	require.NoError(t, err)
	defer func() { require.NoError(t, bench.Close()) }()
	source := rand.New(rand.NewPCG(seedOf(t), 0))
	var samples []deadlines.Sample
	for _, fault := range []deadlines.Fault{deadlines.FollowerKilled, deadlines.LeaderDeposedFast} {
		got, err := bench.Run(t.Context(), fault, source.Uint64(),
			deadlines.Specs([]time.Duration{4 * time.Second, 10 * time.Second}, []time.Duration{0, -1}, 4))
		require.NoError(t, err)
		samples = append(samples, got...)
	}
	t.Logf("\n%s", deadlines.Table(samples))
	judge(t, samples)
}

func playWhole(t *testing.T) {
	t.Helper()
	source := rand.New(rand.NewPCG(seedOf(t), 0))
	var samples []deadlines.Sample
	for _, n := range list(t, *voters, strconv.Atoi) {
		for _, tick := range list(t, *ticks, time.ParseDuration) {
			for _, limit := range list(t, *limits, strconv.Atoi) {
				setup := deadlines.Setup{Voters: n, Observers: 1, Tick: tick, SyncLimit: limit}
				samples = append(samples, measure(t, setup, source)...)
			}
		}
	}
	t.Logf("\n%s", deadlines.Table(samples))
	judge(t, samples)
}

func measure(t *testing.T, setup deadlines.Setup, source *rand.Rand) (samples []deadlines.Sample) {
	t.Helper()
	bench, err := deadlines.Open(t.Context(), setup)
	require.NoError(t, err)
	defer func() { require.NoError(t, bench.Close()) }()
	kinds := deadlines.Faults(setup)
	if *faults != "" {
		kinds = list(t, *faults, func(s string) (deadlines.Fault, error) { return deadlines.Fault(s), nil })
	}
	var fit []time.Duration
	for _, session := range list(t, *sessions, time.ParseDuration) {
		if session >= 2*setup.Tick {
			fit = append(fit, session)
		}
	}
	for _, fault := range kinds {
		var part []deadlines.Sample
		for range *rounds {
			got, err := bench.Run(t.Context(), fault, source.Uint64(), deadlines.Specs(fit, list(t, *margins, margin), *each))
			require.NoError(t, err)
			part = append(part, got...)
		}
		t.Logf("\n%s", deadlines.Table(part))
		for _, s := range part {
			if s.Err != nil {
				t.Logf("%s, session %s: %v", s.Fault, s.Session, s.Err)
			}
		}
		samples = append(samples, part...)
	}
	return samples
}

func playPeers(t *testing.T) {
	t.Helper()
	libraries := []deadlines.Peer{deadlines.GoZookeeper(), deadlines.Curator(peers.BuildJava(t, "java", "Holders"))}
	var samples []deadlines.PeerSample
	for _, tick := range list(t, *ticks, time.ParseDuration) {
		bench, err := deadlines.Open(t.Context(), deadlines.Setup{Voters: 3, Tick: tick})
		require.NoError(t, err)
		for _, session := range list(t, *sessions, time.ParseDuration) {
			for _, fault := range []deadlines.Fault{deadlines.FollowerKilled, deadlines.FollowerCutOff} {
				for _, library := range libraries {
					if session < 2*tick {
						continue
					}
					got, err := bench.RunPeer(t.Context(), library, fault, session, *each)
					require.NoError(t, err)
					t.Logf("\n%s", deadlines.PeerTable(got))
					samples = append(samples, got...)
				}
			}
		}
		require.NoError(t, bench.Close())
	}
	t.Logf("\n%s", deadlines.PeerTable(samples))
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	n := *seed
	if n == 0 {
		n = rand.Uint64()
	}
	t.Logf("-seed %d", n)
	return n
}

// judge fails for each sample that breaks the promise, for each of two holders, and where too few count.
func judge(t *testing.T, samples []deadlines.Sample) {
	t.Helper()
	failed := 0
	for _, s := range samples {
		if s.Err != nil || s.Unclear() {
			failed++
		}
		if s.Broken() || s.Err == nil && s.Gap() < 0 {
			t.Errorf("%+v: gap %s, promised %s", s, s.Gap(), s.Promise())
		}
	}
	require.LessOrEqual(t, failed, len(samples)/10, "samples that count for nothing")
}
