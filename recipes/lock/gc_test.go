package lock

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatchOfARemovalIsBounded(t *testing.T) {
	t.Parallel()
	all := make([]candidate, 1000)
	for i := range all {
		all[i].path = strings.Repeat("p", 300)
	}
	require.Equal(t, maxBatch, batchSize(all))
	for i := range all {
		all[i].path = strings.Repeat("p", 2000)
	}
	require.Equal(t, maxBatchBytes/2000, batchSize(all))
	all[0].path = strings.Repeat("p", 2*maxBatchBytes)
	require.Equal(t, 1, batchSize(all))
	require.Equal(t, 3, batchSize(all[1:4]))
}

func TestMarksStayFewAndOfAllAges(t *testing.T) {
	t.Parallel()
	const second, day = int64(1000), int64(86_400_000)
	var r gcRecord
	for now := int64(0); now < 60*day; now += 60 * second {
		r.Marks = append(r.Marks, gcMark{Zxid: now, At: now})
		r = r.thin(now)
		if len(r.Marks) > 40 {
			t.Fatalf("%d marks at %d", len(r.Marks), now)
		}
		if now < 30*day {
			continue
		}
		// there is one that is a week old, and not older than that takes
		week := false
		for _, m := range r.Marks {
			week = week || now-m.At >= 7*day && now-m.At <= 4*7*day
		}
		if !week {
			t.Fatalf("no mark is a week old: %v", r.Marks)
		}
	}
}
