package temporal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

func TestPrioritiesOfLocksAreTemporalsUpsideDown(t *testing.T) {
	for key, want := range map[int]priority.Level{0: 0, 1: 40, 2: 30, 3: 20, 4: 10, 5: 0, 9: 0, -1: 0} {
		require.Equal(t, want, temporal.PriorityOf(sdk.Priority{PriorityKey: key}))
	}
	for level, key := range map[priority.Level]int{0: 0, 1: 5, 9: 5, 10: 4, 19: 4, 20: 3, 30: 2, 39: 2, 40: 1, 90: 1, priority.Emergency - 1: 1} {
		require.Equal(t, key, temporal.KeyOf(level).PriorityKey, level)
	}
}
