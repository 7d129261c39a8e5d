package priority_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestOnlyAHigherLevelOutranks(t *testing.T) {
	for _, c := range []struct {
		name string
		l, o priority.Level
		want bool
	}{
		{"higher", 2, 1, true},
		{"equal", 1, 1, false},
		{"lower", 1, 2, false},
		{"highest over lowest, no overflow", priority.Emergency, priority.Default, true},
		{"lowest over highest, no overflow", priority.Default, priority.Emergency, false},
		{"two emergencies", priority.Emergency, priority.Emergency, false},
		{"emergency over the highest of a job", priority.Emergency, priority.Emergency - 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.l.Outranks(c.o))
		})
	}
}

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
