package lock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestEveryMistakeOfARequestIsReported(t *testing.T) {
	r := Request{
		Terms: priority.Terms{
			LeaseTimeout: -1, CleanupTimeout: -1, WaitingTimeout: new(time.Duration(-1)), AcquireTimeout: new(time.Duration(-1)),
			Priority: -1, Mode: 7, MinRuntime: -1, PreemptDelta: -1,
		},
	}
	err := r.complete(unconnected(t))
	for _, field := range []string{"lease_timeout", "cleanup_timeout", "waiting_timeout", "acquire_timeout", "priority", "mode", "min_runtime", "preempt_delta"} {
		require.ErrorContains(t, err, field+":")
	}
}

func TestRulesOfARequestGoTogether(t *testing.T) {
	c := unconnected(t)
	good := Request{Terms: priority.Terms{MinRuntime: priority.DefaultLeaseTimeout, NeverPreempts: true}}
	require.NoError(t, good.complete(c))
	bad := Request{Terms: priority.Terms{MinRuntime: priority.DefaultLeaseTimeout + 1, NeverPreempts: true, PreemptDelta: 1}}
	err := bad.complete(c)
	require.ErrorContains(t, err, "min_runtime: min_runtime (10m0.000000001s) is longer than lease_timeout (10m)")
	require.ErrorContains(t, err, "preempt_delta: has no meaning")
}

func TestLimitsOfTextsAreThoseThatAreDocumented(t *testing.T) {
	c := unconnected(t)
	r := Request{Identity: priority.Identity{Owner: strings.Repeat("o", priority.MaxOwner), Message: strings.Repeat("m", priority.MaxMessage)}}
	require.NoError(t, r.complete(c))
	r = Request{
		Identity: priority.Identity{Owner: r.Owner + "o", Message: r.Message + "m", Trace: strings.Repeat("t", 1025)},
		Under:    make([]string, maxUnder+1),
	}
	err := r.complete(c)
	require.ErrorContains(t, err, "owner: takes 1025 bytes; the limit is 1024")
	require.ErrorContains(t, err, "message: takes 16385 bytes; the limit is 16384")
	require.ErrorContains(t, err, "traceparent: takes 1025 bytes; the limit is 1024")
	require.ErrorContains(t, err, "under: names 1001 grants; the limit is 1000")
}
