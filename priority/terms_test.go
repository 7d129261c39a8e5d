package priority

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is left of a request's durations, or an operator's grace, may be shorter than what can be written.
func TestDurationsBelowAMillisecondAreRefusedWhereTheyAreWritten(t *testing.T) {
	t.Parallel()
	short := 10 * time.Microsecond
	for field, terms := range map[string]Terms{
		"cleanup_timeout": {CleanupTimeout: short}, "waiting_timeout": {WaitingTimeout: &short},
		"min_runtime": {MinRuntime: short}, "lock_delay": {LockDelay: short},
	} {
		require.EqualError(t, terms.Validate(), "lockkeeper: "+field+": 10µs is too short; write 1ms or more")
		require.NoError(t, terms.ValidateRequest(), field)
	}
	require.NoError(t, Terms{AcquireTimeout: &short}.Validate(), "what is left of one")
	require.Error(t, Terms{LeaseTimeout: short}.ValidateRequest())
}
