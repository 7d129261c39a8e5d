package priority_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestJobMayAskForEveryLevelButEmergency(t *testing.T) {
	for _, l := range []priority.Level{priority.Default, 1, 1000, priority.Emergency - 1} {
		require.NoError(t, l.CheckJob(), "level %d", l)
	}
}

func TestLevelThatAJobMayNotAskForIsRefusedWithAWayOut(t *testing.T) {
	require.EqualError(t, priority.Emergency.CheckJob(),
		"priority 2147483647 is the emergency level, reserved for operators' overrides; "+
			"write 2147483646 or less, and let an operator override in an emergency")
	for l, digits := range map[priority.Level]string{-1: "-1", math.MinInt32: "-2147483648"} {
		require.EqualError(t, l.CheckJob(),
			"priority "+digits+" is below the lowest; write a number from 0 (default, lowest) to 2147483646")
	}
}
