package lockguard_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// These bytes were written by commit 9813b63 and its followers: they are in histories of workflows.
func TestRequirementIsWrittenAsHistoriesHaveIt(t *testing.T) {
	t.Parallel()
	full := lockguard.Requirement{
		Scope: "s", Owner: "o", Job: "j", Labels: map[string]string{"team": "a"}, Message: "m", Hold: "h", Class: "tenant/{id}",
		Terms: priority.Terms{
			Priority: 7, Mode: priority.Shared, LeaseTimeout: time.Hour, CleanupTimeout: time.Minute, WaitingTimeout: new(time.Duration),
			AcquireTimeout: new(5 * time.Second), Forceful: true, MinRuntime: 2 * time.Second, LockDelay: time.Second, PreemptDelta: 3, NeverPreempts: true,
		},
	}
	for text, r := range map[string]lockguard.Requirement{
		`{"AcquireTimeout":5000000000,"Class":"tenant/{id}","CleanupTimeout":60000000000,"Forceful":true,"Hold":"h","Job":"j","Labels":{"team":"a"},"LeaseTimeout":3600000000000,"LockDelay":1000000000,"Message":"m","MinRuntime":2000000000,"Mode":"shared","NeverPreempts":true,"Owner":"o","PreemptDelta":3,"Priority":7,"Scope":"s","WaitingTimeout":0}`: full,
		`{"AcquireTimeout":null,"CleanupTimeout":0,"Forceful":false,"Hold":"","Job":"","Labels":null,"LeaseTimeout":0,"LockDelay":0,"Message":"","MinRuntime":0,"Mode":"exclusive","NeverPreempts":false,"Owner":"","PreemptDelta":0,"Priority":0,"Scope":"s","WaitingTimeout":null}`:                                                                         {Scope: "s"},
	} {
		written, err := json.Marshal(r)
		require.NoError(t, err)
		require.Equal(t, text, string(written))
		var read lockguard.Requirement
		require.NoError(t, json.Unmarshal([]byte(text), &read))
		require.Equal(t, r, read)
	}

	// and the example leaves nothing out
	for field, value := range reflect.ValueOf(full).Fields() {
		require.False(t, value.IsZero(), field.Name)
	}
	for field, value := range reflect.ValueOf(full.Terms).Fields() {
		require.False(t, value.IsZero(), field.Name)
	}
}
