package virtualtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/timings"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Two jobs share a scope for two days: one holds for an hour, and needs 40s to
// clean up when the other, more important one asks. Its declared timeouts are
// wrong, and what was measured says by how much.
func TestAdviceTellsWhatTheJobsReallyTook(t *testing.T) {
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		// given
		zk := zktest.RunT(t, zktest.Pipe(), zktest.SessionTimeouts(time.Second, long))
		store, err := timings.Open(state, nil)
		require.NoError(t, err)
		client, err := lock.NewClient(lock.Config{Dialer: zk.Dialer("daemon"), SessionTimeout: long})
		require.NoError(t, err)
		guard, err := lockguard.New(client, lockguard.WithObserver(store.Observe))
		require.NoError(t, err)
		compact := lockguard.Requirement{Owner: "compact", Scope: scope, Terms: priority.Terms{LeaseTimeout: 24 * time.Hour, CleanupTimeout: 30 * time.Second}}
		hotfix := lockguard.Requirement{Owner: "hotfix", Scope: scope, Terms: priority.Terms{Priority: 90, WaitingTimeout: new(35 * time.Second), LeaseTimeout: 5 * time.Minute}}
		run := func(r lockguard.Requirement, d time.Duration, hooks ...lockguard.Hook) {
			_ = guard.Do(t.Context(), r, func(ctx context.Context) error {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return nil
			}, hooks...)
		}

		// when
		for range 25 {
			run(compact, time.Hour)
			run(hotfix, 10*time.Minute)
			done := make(chan struct{})
			go func() {
				run(compact, time.Hour, func(context.Context) error { time.Sleep(40 * time.Second); return nil })
				close(done)
			}()
			time.Sleep(time.Minute)
			run(hotfix, 10*time.Minute) // is not ready to wait so long
			<-done
		}
		require.NoError(t, client.Close(context.Background()))
		require.NoError(t, store.Close())

		// then
		stats, problems := timings.Read(state)
		require.Empty(t, problems)
		advice := map[string]timings.Proposal{}
		for _, p := range timings.Advise(stats, []lockguard.Requirement{compact, hotfix}, 15*time.Second) {
			advice[p.Owner+" "+p.Timeout] = p
		}
		for name, want := range map[string]struct {
			verdict  timings.Verdict
			proposed time.Duration
			why      string
		}{
			"compact lease_timeout":   {timings.Lower, 90 * time.Minute, "longer than it needs to be"},
			"compact cleanup_timeout": {timings.Raise, time.Minute, "preempted 25 times; kept its timeout 0 of 25 times"},
			"hotfix lease_timeout":    {timings.Raise, 15 * time.Minute, "too short"},
			"hotfix waiting_timeout":  {timings.Raise, time.Minute, "it was over 25 times before the holder had gone; others on this scope took up to 40s to clean up"},
		} {
			got := advice[name]
			require.Equal(t, want.verdict, got.Verdict, "%s: %+v", name, got)
			require.Equal(t, want.proposed.String(), got.Proposed.String(), "%s: %+v", name, got)
			require.Contains(t, got.Why, want.why)
		}
		require.EqualValues(t, 25, advice["compact cleanup_timeout"].Evidence.Samples)
		require.Equal(t, 40*time.Second, advice["compact cleanup_timeout"].Evidence.Max)
		require.Equal(t, time.Hour, advice["compact lease_timeout"].Evidence.Max)
	})
}
