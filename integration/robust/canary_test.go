package robust

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/verdict"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestCanaryNoticesServersThatForget(t *testing.T) {
	zk := zktest.RunT(t)
	c, err := newCanary(zk.Addr())
	require.NoError(t, err)
	grown := func(than int32) {
		require.Eventually(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.acked > than
		}, time.Minute, 5*time.Millisecond)
	}
	grown(5)
	zk.Stop() // forgets nothing
	require.NoError(t, zk.Restart())
	c.mu.Lock()
	before := c.acked
	c.mu.Unlock()
	grown(before + 2)
	c.mu.Lock()
	require.Empty(t, c.lapses)
	c.mu.Unlock()

	require.NoError(t, zk.Delete(canaryNode))
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.lapses) > 0
	}, time.Minute, 5*time.Millisecond)
	lapses := c.close()
	require.Greater(t, lapses[0].Writes, 5)
	require.Less(t, lapses[0].Since, lapses[0].Seen)
	require.Contains(t, lapses[0].String(), "writes of the canary")
}

func TestViolationsOfServersThatForgetAreToldApart(t *testing.T) {
	violations := []verdict.Violation{
		{Check: verdict.CheckModel, At: 10, Scope: "old"},
		{Check: verdict.CheckModel, At: 30, Scope: "old"},
		{Check: verdict.CheckModel, At: 30, Scope: "new"},
		{Check: verdict.CheckEnd},
		{Check: verdict.CheckEnd, Scope: "new"},
		{Check: verdict.CheckProcess},
	}
	born := map[string]time.Duration{"old": 5, "new": 26}
	ours, theirs := undermined(violations, []Lapse{{Since: 40, Seen: 45}, {Since: 20, Seen: 25}}, born)
	require.Equal(t, []verdict.Violation{violations[0], violations[2], violations[5]}, ours)
	require.Equal(t, []verdict.Violation{violations[1], violations[3], violations[4]}, theirs)

	ours, theirs = undermined(violations, []Lapse{{Since: 20, Seen: 25}}, born)
	require.Equal(t, []verdict.Violation{violations[0], violations[2], violations[4], violations[5]}, ours)
	require.Equal(t, []verdict.Violation{violations[1], violations[3]}, theirs)

	ours, theirs = undermined(violations, nil, nil)
	require.Equal(t, violations, ours)
	require.Empty(t, theirs)
	require.Positive(t, history.Now())
}
