package temporal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

func TestPrioritiesOfLocksAreTemporalsUpsideDown(t *testing.T) {
	for level, key := range map[priority.Level]int{0: 0, 1: 5, 9: 5, 10: 4, 19: 4, 20: 3, 30: 2, 39: 2, 40: 1, 90: 1, priority.Emergency - 1: 1} {
		require.Equal(t, key, temporal.KeyOf(level).PriorityKey, level)
	}
	for key := 1; key <= 4; key++ { // there and back
		level := priority.Level(50 - 10*key)
		require.Equal(t, key, temporal.KeyOf(level).PriorityKey)
		require.Equal(t, level, temporal.PriorityOf(temporal.KeyOf(level)))
	}
	require.Equal(t, priority.Default, temporal.PriorityOf(temporal.KeyOf(priority.Default)))
}
