package daemons

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

var (
	soakFor  = flag.Duration("soak", 12*time.Second, "how long daemons are stopped, killed and paused at random")
	soakSeed = flag.Uint64("seed", 0, "of the soak's random numbers; 0: another one each time")
	soakCast = flag.String("soak-cast", "soak 20", "of the soak: \"soak 20\" or \"soak 500\", so many jobs")
)

const soakSession = 4 * time.Second

// Given three processes with clocks that differ, which run many jobs a second while they are restarted, killed and
// paused, then what the ledger has recorded is what has happened.
func TestEveryTickRunsOnceOrItsSkipHasAReason(t *testing.T) {
	t.Parallel()
	var many int
	_, err := fmt.Sscanf(*soakCast, "soak %d", &many)
	require.NoError(t, err)
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("-seed %d", seed)

	// given three daemons whose clocks are a second apart, and drift
	server, root := shared.Server(t), zkserver.Root(t)
	story := newChronicle(t)
	begin := func(i int) *child {
		return startChild(t, story, settings{
			Name: fmt.Sprintf("place-%d", i), ZK: server.Connect(), Root: root, Session: soakSession, Drain: 2 * time.Second,
			Jobs: many, Skew: time.Duration(i-1) * time.Second, Drift: time.Duration(i-1) * time.Millisecond,
		})
	}
	places := []*child{begin(0), begin(1), begin(2)}

	// when each of them is restarted, killed and paused, and then one of them after the other at random
	faults := map[string]int{}
	ends := time.Now().Add(*soakFor)
	for n := 0; n < 3 || time.Now().Before(ends); n++ {
		wait(t, time.Duration(1000+random.IntN(2000))*time.Millisecond)
		i, fault := random.IntN(len(places)), random.IntN(3)
		if n < 3 {
			fault = n
		}
		switch fault {
		case 0:
			faults["restarted"]++
			places[i].end(syscall.SIGTERM)
			places[i] = begin(i)
		case 1:
			faults["killed"]++
			places[i].end(syscall.SIGKILL)
			places[i] = begin(i)
		case 2: // shorter than the session timeout, and longer
			faults["paused"]++
			places[i].signal(syscall.SIGSTOP)
			wait(t, time.Duration(200+random.IntN(7000))*time.Millisecond)
			places[i].signal(syscall.SIGCONT)
		}
	}
	wait(t, 2*soakSession) // what was cut short is found
	for _, p := range places {
		p.end(syscall.SIGTERM)
	}

	// then each instant of each job has one outcome
	ledger := reader(t, settings{ZK: server.Connect(), Root: root, Session: soakSession})
	begun := tallyOf(story.all())
	require.Empty(t, begun.twice)
	skips, ticks, ran, open := map[string]int64{}, int64(0), int64(0), 0
	for i := range many {
		state := ledger.state(jobName(i))
		ticks += begun.balance(t, state)
		ran += state.Counts.Ran
		open += len(state.Runs)
		for reason, n := range state.Counts.Skipped {
			skips[reason] += n
		}
	}
	t.Logf("%s, %d daemons, %d jobs, faults %v", *soakFor, len(places), many, faults)
	t.Logf("%d ticks: %d ran (%.1f %%), skipped: %s; %d runs of daemons that died last",
		ticks, ran, 100*float64(ran)/float64(ticks), describe(skips), open)
	require.Positive(t, ran)
}
