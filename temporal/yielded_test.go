package temporal_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// leftBehind are the heartbeat details of an attempt that has yielded.
func leftBehind(t *testing.T, ref lockguard.Reference) converter.RawValue {
	t.Helper()
	text, err := json.Marshal(map[string]any{"reference": ref, "since": time.Now(), "yields": 1})
	require.NoError(t, err)
	return converter.NewRawValue(&commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON), "lockkeeper": []byte("slip")},
		Data:     text,
	})
}

// Workers are deployed anew, with another declaration, while an activity has
// yielded: its place is that of another lock, or of a weaker one.
func TestPlaceThatIsNotOfTheLockAsDeclaredNowIsNotTaken(t *testing.T) {
	exclusive, shared := lockguard.Requirement{Scope: "s"}, lockguard.Requirement{Scope: "s", Terms: priority.Terms{Mode: priority.Shared}}
	for name, c := range map[string]struct {
		before, now lockguard.Requirement
		taken       bool
	}{
		"the same":      {exclusive, exclusive, true},
		"another scope": {lockguard.Requirement{Scope: "other"}, exclusive, false},
		"exclusive now": {shared, exclusive, false},
		"shared now":    {exclusive, shared, false},
	} {
		t.Run(name, func(t *testing.T) {
			// given a place that an attempt has left behind
			zk := zktest.RunT(t)
			before := c.before
			before.Hold = "activity-before"
			place, err := newGuard(t, zk, "before").Acquire(t.Context(), before)
			require.NoError(t, err)

			// when the next attempt is made
			ended := make(chan error, 1)
			var info lockguard.Info
			guard := newGuard(t, zk, "now")
			env := activities(newPlugin(t, guard, temporal.Declare("work", temporal.Lock{Requirement: c.now, OnBusy: temporal.BusyWait})))
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				hold, _ := lockguard.FromContext(ctx)
				info = hold.Info()
				return nil
			}, activity.RegisterOptions{Name: "work"})
			env.SetHeartbeatDetails(leftBehind(t, place.Reference()))
			go func() {
				_, err := env.ExecuteActivity("work")
				ended <- err
			}()
			if !c.taken && c.before.Scope == c.now.Scope {
				awaitWaiter(t, newGuard(t, zk, "stranger"))
			}
			if !c.taken {
				require.NoError(t, place.Release(t.Context()))
			}

			// then it has the lock that is declared
			require.NoError(t, <-ended)
			if c.taken {
				require.ErrorAs(t, place.Release(t.Context()), new(*lockguard.LostError))
			}
			require.Equal(t, c.now.Scope, info.Requirement.Scope)
			require.Equal(t, c.now.Mode, info.Requirement.Mode)
			require.Equal(t, c.taken, info.Token == place.Token())
		})
	}
}

// What claims to be a slip may come from another version, or be invalid.
func TestPlaceThatCannotBeIsNotTaken(t *testing.T) {
	for name, ref := range map[string]lockguard.Reference{
		"no id":   {Scope: "s", Hold: "activity-before"},
		"no hold": {Scope: "s", ID: "0123456789abcdef0123456789abcdef"},
		"no node": {Scope: "s", Hold: "a/b\x00", ID: "../../zookeeper"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, temporal.Lock{OnBusy: temporal.BusyWait}, done)
			s.env.SetHeartbeatDetails(leftBehind(t, ref))
			result, err := s.run()
			require.NoError(t, err)
			require.Equal(t, "done", result)
		})
	}
}
