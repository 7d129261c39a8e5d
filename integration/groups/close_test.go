package groups

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAClientIsClosedAtOnceAfterAJoinThatFailedAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4)
	first := h.join(s, "node1")
	h.share(s, map[*player]int{first: 4})

	for range 10 {
		// given a join that fails because the name is taken
		c := h.client()
		second := h.player("node1", c)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := second.group(s).Join(ctx, "node1", second)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)

		// when the client is closed, as a program does that ends then
		ctx, cancel = context.WithTimeout(context.Background(), soon)
		require.NoError(t, c.Close(ctx))
		cancel()

		// then nothing is left of it
		require.Len(t, h.members(), 1)
	}
}
