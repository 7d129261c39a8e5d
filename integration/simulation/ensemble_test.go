package simulation

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWritesShareOnePipelineAndReadsDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Ensemble{RoundTrip: 500 * time.Microsecond, Flush: time.Millisecond, Rate: 2000}
		start := time.Now()
		var after []time.Duration
		for range 5 {
			after = append(after, e.due(write).Sub(start))
		}
		require.Equal(t, []time.Duration{1e6, 1e6, 2e6, 2e6, 3e6}, after, "two a flush")
		require.Equal(t, e.RoundTrip, e.due(read).Sub(start))
		require.Equal(t, e.RoundTrip, e.due(ping).Sub(start))

		<-time.After(2800 * time.Microsecond)
		require.Equal(t, 4*time.Millisecond, e.due(write).Sub(start), "there is room in the third, but it is too late for it")
		require.Equal(t, Load{Reads: 1, Writes: 6, Pings: 1}, e.Load())
	})
}

func TestWhatAFrameIs(t *testing.T) {
	for op, want := range map[int32]kind{1: write, 2: write, 3: read, 4: read, 5: write, 8: read, 9: read, 11: ping, 12: read, 14: write, 15: write, -11: write, 100: read, 101: read} {
		frame := binary.BigEndian.AppendUint32(make([]byte, 8), uint32(op))
		require.Equal(t, want, kindOf(frame), "operation %d", op)
	}
}
