package nightly

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// In a bubble of synctest, on the embedded server, minutes of contention are
// seconds of testing.

func TestNothingIsCorruptedAfterFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, out := show(t, 5*time.Minute, Config{Client: embedded(t), Daemons: 3})

		requireSound(t, report, out)
		require.Equal(t, 10, report.Backups, "the newest ones")
		require.InDelta(t, 5*60/20*2*6, report.Corrections, 12, "two times six in each cycle of 20 seconds")
	})
}

func TestFirstPreemptionComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(5500 * time.Millisecond) // in the schedule nothing is preempted before 18s

		_, out := show(t, 3*time.Second, Config{Client: embedded(t)})

		require.Contains(t, out, "compact  ! preempted   by hotfix (priority 90), 2s to clean up")
		require.Contains(t, out, "compact  → handed over to hotfix")
		requireOneHolderAtATime(t, out)
	})
}

func TestWithoutLocksTheDataIsCorrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, out := show(t, 32*time.Second, Config{Client: embedded(t), Unsafe: true})

		requireCorrupted(t, report, out)
	})
}

func TestZooKeeperThatRefusesAccessIsNoSuccess(t *testing.T) {
	ticks := func(t *testing.T, theirs *lock.Client) {
		_, err := theirs.TickLedger("them").Begin(t.Context(), "theirs", time.Now())
		require.NoError(t, err)
	}
	locks := func(t *testing.T, theirs *lock.Client) {
		guard, err := lockguard.New(theirs)
		require.NoError(t, err)
		require.NoError(t, guard.Do(t.Context(), lockguard.Requirement{Scope: "shop/orders"}, func(context.Context) error { return nil }))
	}
	tests := map[string]struct {
		root bool // open to every client
		made func(*testing.T, *lock.Client)
	}{
		"the root":  {false, ticks},
		"its ticks": {true, ticks},
		"its locks": {true, locks},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				server := zktest.RunT(t, zktest.Pipe())
				cfg := lock.Config{Servers: []string{server.Addr()}, Dialer: server.Dial}
				if test.root {
					require.NoError(t, server.Create("/lockkeeper", nil))
				}
				credentials := cfg
				credentials.Auth = &lock.Digest{User: "them", Password: "secret"}
				theirs, err := lock.NewClient(credentials)
				require.NoError(t, err)
				test.made(t, theirs)
				require.NoError(t, theirs.Close(t.Context()))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var out bytes.Buffer

				_, err = Run(ctx, Config{Client: cfg, Out: &out})

				require.ErrorAs(t, err, new(*lock.AccessError), out.String())
				require.Empty(t, out.String(), "it does not begin")
				require.NoError(t, ctx.Err(), "it is said at once")
				requireEmpty(t, os.TempDir())
			})
		})
	}
}

func TestAccessThatIsRefusedLaterEndsItToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Pipe())
		server.On(zktest.Op(zktest.Create).Path("/lockkeeper/locks/**")).Fail(zktest.NoAuth)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()

		_, err := Run(ctx, Config{Client: lock.Config{Servers: []string{server.Addr()}, Dialer: server.Dial}})

		require.ErrorAs(t, err, new(*lock.AccessError))
		require.NoError(t, ctx.Err(), "it is said at once")
	})
}

func TestNothingThatRanProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given somebody more important, who keeps the lock.
		cfg := embedded(t)
		client, err := lock.NewClient(cfg)
		require.NoError(t, err)
		guard, err := lockguard.New(client)
		require.NoError(t, err)
		hold, err := guard.Acquire(t.Context(), lockguard.Requirement{Scope: "shop/orders", Terms: priority.Terms{Priority: 99}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()

		_, err = Run(ctx, Config{Client: cfg})

		require.ErrorIs(t, err, ErrNothingRan)
		require.NoError(t, hold.Release(t.Context()))
		require.NoError(t, client.Close(t.Context()))
	})
}

func TestEndBeforeTheBeginningIsNotBlamedOnZooKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cfg := embedded(t)
		cfg.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel(enough)
			<-ctx.Done()
			return nil, ctx.Err()
		}

		_, err := Run(ctx, Config{Client: cfg})

		require.EqualError(t, err, enough.Error())
	})
}

func TestOutageAndReturnAreOnTheTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Pipe())
		dial := server.Dialer("daemons")
		time.AfterFunc(10*time.Second, func() { server.Partition("daemons") })
		time.AfterFunc(20*time.Second, func() { server.Heal("daemons") })

		_, out := show(t, 40*time.Second, Config{Client: lock.Config{Servers: []string{server.Addr()}, Dialer: dial}})

		require.Regexp(t, `(?m)^  \d\d:\d\d:\d\d\.\d              ✗ outage      ZooKeeper does not answer$`, out)
		require.Regexp(t, `(?m)^  \d\d:\d\d:\d\d\.\d              ✓ answers     ZooKeeper is back, after [\d.]+s$`, out)
		require.Contains(t, out, "nothing is corrupted")
	})
}

func TestEndDuringAnOutageSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Pipe())
		dial := server.Dialer("daemons")
		time.AfterFunc(5*time.Second, func() { server.Partition("daemons") })
		began := time.Now()

		_, out := show(t, 9*time.Second, Config{Client: lock.Config{Servers: []string{server.Addr()}, Dialer: dial}})

		require.Contains(t, out, "  Waiting for ZooKeeper (at most 15s); Ctrl-C again ends at once.\n")
		require.Less(t, time.Since(began), 9*time.Second+patience)
	})
}

func TestRunByHandThatIsRefusedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := embedded(t)
		client, err := lock.NewClient(cfg)
		require.NoError(t, err)
		claim, err := client.TickLedger("other").ClaimManual(t.Context(), "compact", time.Now())
		require.NoError(t, err)
		require.Equal(t, ticks.Claimed, claim.Verdict)

		_, out := show(t, 5*time.Second, Config{Client: cfg})

		require.Contains(t, out, "compact  - skipped     its run by hand: it still runs\n")
		require.NoError(t, client.Close(t.Context()))
	})
}

func TestDaemonsStopWhenTheirOutputIsClosed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken pipe")

		_, err := Run(t.Context(), Config{Client: embedded(t), Out: failing{broken}})

		require.ErrorIs(t, err, broken)
		requireEmpty(t, os.TempDir())
	})
}

func embedded(t *testing.T) lock.Config {
	t.Helper()
	server := zktest.RunT(t, zktest.Pipe())
	return lock.Config{Servers: []string{server.Addr()}, Dialer: server.Dial}
}
