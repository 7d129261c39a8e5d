package zkdiff

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	stepsFlag = flag.Int("steps", 5_000, "steps of each lock-step run")
	seedFlag  = flag.Uint64("seed", 0, "the only seed to run; 0 runs the usual ones")
)

// Two real servers show what is worth comparing: where they differ, neither is right.
func TestRealServersAgreeWithEachOther(t *testing.T) {
	explored(t, oracle, oracle, newGenerator(1, sessions), *stepsFlag/10)
}

// The embedded server does what the real one does, whatever clients do.
func TestEmbeddedBehavesLikeZooKeeper(t *testing.T) {
	for _, seed := range usualSeeds() {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			explored(t, oracle, embedded, newGenerator(seed, sessions), *stepsFlag)
		})
	}
}

// A client that comes back with its watches is notified of what it has missed, and only of
// that.
func TestMissedEventsAreMadeUpFor(t *testing.T) {
	explored(t, oracle, embedded, newReturner(3), *stepsFlag/4)
}

// explored lets steps be invented and fails the test with the shortest script that shows how the servers differ.
func explored(t *testing.T, genuine, fake launcher, source inventor, steps int) {
	t.Helper()
	p, err := launchPair(t.Context(), genuine, fake)
	require.NoError(t, err)
	began := time.Now()
	found := explore(t.Context(), p, source, steps, func(done int) {
		if done%max(1000, steps/20) == 0 {
			t.Logf("%d of %d steps, %.2f ms each", done, steps, float64(time.Since(began).Milliseconds())/float64(done))
		}
	})
	require.NoError(t, p.close())
	if found == nil {
		return
	}
	require.Fail(t, "the servers differ", "%s", shrunk(t, genuine, fake, found))
}

// shrunk tells of a divergence with the shortest script that has one.
func shrunk(t *testing.T, genuine, fake launcher, found *divergence) string {
	t.Helper()
	last := &divergence{found.script[max(0, len(found.script)-5):], found.difference}
	text := fmt.Sprintf("as found, in the end %s\n", last)
	short, again := shrinkDivergence(t, genuine, fake, found)
	if !again {
		return text + "it did not happen again: is it a race between the server and its clients?"
	}
	return text + "shrunk, " + short.String()
}

// shrinkDivergence finds the shortest script with a divergence of the same kind. Every attempt has servers of its own.
func shrinkDivergence(t *testing.T, genuine, fake launcher, found *divergence) (short *divergence, again bool) {
	t.Helper()
	shrink(found.script, func(script Script) Script {
		attempt, err := replay(t.Context(), genuine, fake, script)
		require.NoError(t, err)
		if attempt == nil || attempt.kind() != found.kind() {
			return nil
		}
		short = attempt
		return attempt.script
	})
	return short, short != nil
}

func usualSeeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	return []uint64{1, 2, rand.Uint64()}
}
