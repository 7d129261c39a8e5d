package robust

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
)

// crewOf is a crew of one whose program is a shell script.
func crewOf(t *testing.T, script string) *crew {
	dir := t.TempDir()
	worker := filepath.Join(dir, "worker")
	require.NoError(t, os.WriteFile(worker, []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // a program
	c := newCrew(Options{Clients: 1, Dir: dir, Worker: worker, Seed: 1}.withDefaults())
	require.NoError(t, c.start(func(string) string { return "nowhere:1" }))
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		c.drain(now)
	})
	return c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestProcessThatIsKilledIsFollowedByAnotherAndThatIsNoTrouble(t *testing.T) {
	c := crewOf(t, "read line; test \"$line\" = drain")
	before := history.Now()
	require.NoError(t, c.Kill("c01"))
	require.NoError(t, c.Pause("c01")) // waits for the next
	require.Len(t, c.told(history.Now()), 2, "a pause that goes on is known")
	require.NoError(t, c.Resume("c01"))

	require.Empty(t, c.drain(soon(t)))
	require.Empty(t, c.troubles)
	require.Equal(t, []string{"c01.1", "c01.2"}, c.clients("c01"))
	events := c.told(history.Now())
	require.Len(t, events, 2)
	require.Equal(t, history.Killed, events[0].Kind)
	require.Equal(t, "c01.1", events[0].Client)
	require.Equal(t, history.Paused, events[1].Kind)
	require.Equal(t, "c01.2", events[1].Client)
	require.GreaterOrEqual(t, events[0].At, before)
	require.Greater(t, events[1].From, events[0].At)
	require.Greater(t, events[1].At, events[1].From)
}

func TestProcessThatEndsByItselfIsTroubleAndItsWordsAreKept(t *testing.T) {
	c := crewOf(t, "echo DATA RACE >&2; exit 66")
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.troubles) > 0
	}, time.Minute, 10*time.Millisecond)
	c.drain(soon(t))
	require.Contains(t, c.troubles[0], "exit status 66")
	require.Contains(t, c.troubles[0], "DATA RACE")
}

func TestProcessThatDoesNotDrainIsNamedAndEnded(t *testing.T) {
	c := crewOf(t, "exec sleep 1000")
	now, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, []string{"c01.1"}, c.drain(now))
	require.Nil(t, c.seats["c01"].process)
}
