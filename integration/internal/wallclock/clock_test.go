package wallclock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockVariable makes this test binary tell the time, again and again.
const clockVariable = "WALLCLOCK_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(clockVariable) != "" {
		start := time.Now()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			now := time.Now()
			fmt.Println(now.Unix(), int64(now.Sub(start).Seconds()))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestWallClockOfOneProcessIsSteppedAndNoOtherClock(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), clockVariable+"=1")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var clock Clock
	if err := clock.Start(cmd, 5*time.Hour); errors.Is(err, errors.ErrUnsupported) {
		return // not on this kind of machine
	} else {
		require.NoError(t, err)
	}
	defer func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, cmd.Wait())
	}()
	ask := func() (ahead, elapsed int64) {
		_, err := io.WriteString(stdin, "?\n")
		require.NoError(t, err)
		var wall int64
		_, err = fmt.Fscanln(stdout, &wall, &elapsed)
		require.NoError(t, err)
		return wall - time.Now().Unix(), elapsed
	}
	ahead, _ := ask()
	require.InDelta(t, (5 * time.Hour).Seconds(), ahead, 60, "from the first instruction on")
	for _, offset := range []time.Duration{0, 10 * time.Hour, -3 * time.Hour, 0} {
		require.NoError(t, clock.Step(offset))
		ahead, elapsed := ask()
		require.InDelta(t, offset.Seconds(), ahead, 60)
		require.Less(t, elapsed, int64(600))
		require.GreaterOrEqual(t, elapsed, int64(0))
	}
}
