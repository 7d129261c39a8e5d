package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATimelineBeginsWhereSomethingIsKnown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		known time.Duration // ago
		from  time.Duration
	}{
		{known: 4 * time.Minute, from: 4 * time.Minute},
		{known: 15 * time.Second, from: 15 * time.Second},
		{known: time.Second, from: 15 * time.Second},
		{known: 0, from: 15 * time.Second},
	} {
		require.Equal(t, now.Add(-c.from), timelineFrom(now.Add(-c.known), now, 10*time.Minute), "known for %s", c.known)
	}
}
