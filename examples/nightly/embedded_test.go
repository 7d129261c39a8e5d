package nightly

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// In a bubble of synctest, on the embedded server, minutes of contention are
// seconds of testing.

func TestNothingIsCorruptedAfterFiveMinutesOnTheEmbeddedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, out := show(t, 5*time.Minute, Config{Client: embedded(t), Daemons: 3})

		requireSound(t, report, out)
		require.Equal(t, 10, report.Backups, "the newest ones")
		require.InDelta(t, 5*60/20*2*6, report.Corrections, 12, "two times six in each cycle of 20 seconds")
	})
}

func TestNobodyWaitsLongForTheFirstPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(5500 * time.Millisecond) // in the schedule nothing is preempted before 18s

		_, out := show(t, 3*time.Second, Config{Client: embedded(t)})

		require.Contains(t, out, "compact  ! preempted   by hotfix (priority 90), 2s to clean up")
		require.Contains(t, out, "compact  → handed over to hotfix")
		requireOneHolderAtATime(t, out)
	})
}

func TestWithoutLocksTheDataIsCorruptedOnTheEmbeddedServerToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, out := show(t, cycle, Config{Client: embedded(t), Unsafe: true})

		requireCorrupted(t, report, out)
	})
}

func TestWhenNobodyReadsAnyMoreTheDaemonsStop(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken pipe")

		_, err := Run(t.Context(), Config{Client: embedded(t), Out: failing{broken}})

		require.ErrorIs(t, err, broken)
		requireEmpty(t, os.TempDir())
	})
}

func embedded(t *testing.T) recipes.Config {
	t.Helper()
	server := zktest.RunT(t, zktest.Pipe())
	return recipes.Config{Servers: []string{server.Addr()}, Dialer: server.Dial}
}
