package robust

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/verdict"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestCanaryNoticesServersThatForget(t *testing.T) {
	zk := zktest.RunT(t)
	c, err := newCanary(zk.Addr(), time.Minute)
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
	require.Eventually(t, func() bool { return len(c.slowness()) > 1 }, time.Minute, 5*time.Millisecond, "requests fail")
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

func TestCanaryNotesAnswersThatTookLongerThanItsPatience(t *testing.T) {
	zk := zktest.RunT(t)
	c, err := newCanary(zk.Addr(), 0)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(c.slowness()) > 3 }, time.Minute, 5*time.Millisecond)
	c.close()
	patient, err := newCanary(zk.Addr(), time.Hour)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		patient.mu.Lock()
		defer patient.mu.Unlock()
		return patient.acked > 10
	}, time.Minute, 5*time.Millisecond)
	require.LessOrEqual(t, len(patient.slowness()), 1, "the one that is under way")
	patient.close()
}

func TestViolationsOfServersThatForgetAreDistinguished(t *testing.T) {
	violations := []verdict.Violation{
		{Check: verdict.CheckModel, At: 10, Scope: "old"},
		{Check: verdict.CheckModel, At: 30, Scope: "old"},
		{Check: verdict.CheckModel, At: 30, Scope: "new"},
		{Check: verdict.CheckEnd},
		{Check: verdict.CheckEnd, Scope: "new"},
		{Check: verdict.CheckProcess},
	}
	born := map[string]time.Duration{"old": 5, "new": 26}
	ours, theirs := undermined(violations, []Lapse{{Since: 40, Seen: 45}, {Since: 20, Seen: 25}}, nil, born)
	require.Equal(t, []verdict.Violation{violations[0], violations[2], violations[5]}, ours)
	require.Equal(t, []verdict.Violation{violations[1], violations[3], violations[4]}, theirs)

	ours, theirs = undermined(violations, []Lapse{{Since: 20, Seen: 25}}, nil, born)
	require.Equal(t, []verdict.Violation{violations[0], violations[2], violations[4], violations[5]}, ours)
	require.Equal(t, []verdict.Violation{violations[1], violations[3]}, theirs)

	ours, theirs = undermined(violations, nil, nil, nil)
	require.Equal(t, violations, ours)
	require.Empty(t, theirs)
	require.Positive(t, history.Now())
}

func TestViolationsOfLocksAboutWhichServersDifferAreDistinguished(t *testing.T) {
	log := "15:27:19.097 [CommitProcessor:3] WARN DataTree - Unexpected extra paths under session " +
		"[/lockkeeper/locks/37/robust%2F2%2F002513/2147483637-x-ebec0fb422e5ea4cb9427f4f-0000000033, /lockkeeper/locks/0a/robust%2F1%2F002514/x] which are not in txn 0x4000006bd\n"
	differ := disagreements("15:27:18 [main] INFO - all is well\n" + log + log)
	require.Equal(t, []string{"robust/2/002513", "robust/1/002514"}, differ)
	require.Empty(t, disagreements("15:27:18 [main] INFO - all is well\n"))

	violations := []verdict.Violation{
		{Check: verdict.CheckTurn, At: 10, Scope: "robust/2/002513"},
		{Check: verdict.CheckTurn, At: 10, Scope: "robust/2/002512"},
		{Check: verdict.CheckEnd},
		{Check: verdict.CheckProcess, Scope: "robust/2/002513"},
	}
	for _, check := range []string{verdict.CheckModel, verdict.CheckTold, verdict.CheckMargin, verdict.CheckGrace, verdict.CheckToken, verdict.CheckFence, verdict.CheckStale, verdict.CheckReader} {
		violations = append(violations, verdict.Violation{Check: check, Scope: "robust/2/002513"}) // two hold, or may have
	}
	ours, theirs := undermined(violations, nil, differ, nil)
	require.Equal(t, slices.Concat(violations[1:2], violations[3:]), ours)
	require.Equal(t, []verdict.Violation{violations[0], violations[2]}, theirs)
	ours, theirs = undermined(violations, nil, nil, nil)
	require.Equal(t, violations, ours)
	require.Empty(t, theirs)
}
