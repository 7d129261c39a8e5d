package timings

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawDurations draws what jobs take: milliseconds to years, of all orders of
// magnitude.
func drawDurations(t *rapid.T, label string, least int) []time.Duration {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
		exponent := rapid.Float64Range(0, math.Log(float64(2*365*24*time.Hour/time.Millisecond))).Draw(t, "exponent")
		return time.Duration(math.Exp(exponent) * float64(time.Millisecond))
	}), least, 300).Draw(t, label)
}

func recorded(durations []time.Duration) Histogram {
	var h Histogram
	for _, d := range durations {
		h.Record(d)
	}
	return h
}

func TestQuantilesAreAtMostFourPercentOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// given
		durations := drawDurations(t, "durations", 1)
		h := recorded(durations)
		slices.Sort(durations)
		q := rapid.Float64Range(0, 1).Draw(t, "q")

		// then
		exact := durations[max(int(math.Ceil(q*float64(len(durations)))), 1)-1]
		require.InEpsilon(t, float64(exact), float64(h.Quantile(q)), 0.04)
		require.Equal(t, durations[len(durations)-1], h.Max())
		require.EqualValues(t, len(durations), h.Count())
		require.LessOrEqual(t, h.Quantile(1), h.Max())
	})
}

func TestMergedHistogramIsThatOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// given
		a, b := drawDurations(t, "a", 0), drawDurations(t, "b", 0)
		merged := recorded(a)

		// when
		merged.Merge(recorded(b))

		// then
		require.Equal(t, recorded(append(a, b...)), merged)
	})
}

func TestHistogramIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// given
		h := recorded(drawDurations(t, "durations", 1))
		text, err := json.Marshal(h)
		require.NoError(t, err)

		// when
		var read Histogram
		require.NoError(t, json.Unmarshal(text, &read))

		// then
		require.Equal(t, h, read)
	})
}

func TestHistogramOfStrangeDurationsStaysSmall(t *testing.T) {
	var h Histogram
	for d := time.Duration(1); d > 0 && d < math.MaxInt64/2; d += d/50 + 1 {
		h.Record(d)
	}
	h.Record(-time.Second)
	h.Record(0)
	h.Record(math.MaxInt64)
	require.LessOrEqual(t, len(h.buckets), 400)
	require.Equal(t, time.Duration(math.MaxInt64), h.Max())
	require.Equal(t, finest, h.Quantile(0))
	require.Zero(t, (&Histogram{}).Quantile(0.5))
}

func TestWithinCountsWhatIsNotLonger(t *testing.T) {
	h := recorded([]time.Duration{time.Second, 2 * time.Second, time.Minute})
	require.EqualValues(t, 0, h.Within(time.Millisecond))
	require.EqualValues(t, 2, h.Within(30*time.Second))
	require.EqualValues(t, 3, h.Within(time.Minute))
}

func TestUnknownBytesAreNoHistogram(t *testing.T) {
	for _, text := range []string{
		`{"max_ns":1,"buckets":[1]}`, `{"max_ns":-1,"buckets":[]}`, `{"max_ns":1,"buckets":[5000,1]}`, `{"max_ns":1,"buckets":[1,0]}`,
		`{"max_ns":1,"buckets":[1,-1]}`, `{"max_ns":1,"buckets":[1,18446744073709551615]}`, `[]`,
	} {
		require.Error(t, json.Unmarshal([]byte(text), &Histogram{}), text)
	}
}
