package timings

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sort"
	"time"
)

// growth is how much larger a bucket of a Histogram is than the one before.
// What a bucket stands for is at most (growth-1)/(growth+1) off: 4 %.
const growth = 1.08

// finest is what the first bucket holds: everything up to it.
const finest = time.Millisecond

// A Histogram counts durations. The zero value is empty. It has no more than
// 400 buckets, whatever is recorded, and most have a dozen.
type Histogram struct {
	count   uint64
	longest time.Duration
	buckets []bucket // by index
}

// A bucket counts durations up to finest × growth^index that are in no smaller
// one.
type bucket struct {
	index int16
	count uint64
}

// Record adds a duration; a negative one counts as 0.
func (h *Histogram) Record(d time.Duration) {
	h.longest = max(h.longest, d)
	h.add(bucket{indexOf(d), 1})
}

// Merge adds all that other has.
func (h *Histogram) Merge(other Histogram) {
	h.longest = max(h.longest, other.longest)
	for _, b := range other.buckets {
		h.add(b)
	}
}

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max is the longest duration, exactly; 0 when there is none.
func (h *Histogram) Max() time.Duration { return h.longest }

// Quantile returns the duration that the share q, 0 to 1, of all do not exceed.
// It is at most 4 % off, and never above Max; 0 when there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.count)))
	seen := uint64(0)
	for _, b := range h.buckets {
		if seen += b.count; seen >= max(rank, 1) {
			return min(b.duration(), h.longest)
		}
	}
	return h.longest
}

// Within returns how many of the durations do not exceed d, give or take those
// that are within 4 % of it.
func (h *Histogram) Within(d time.Duration) uint64 {
	if d >= h.longest {
		return h.count
	}
	within := uint64(0)
	for _, b := range h.buckets {
		if b.duration() <= d {
			within += b.count
		}
	}
	return within
}

// Clone returns a copy that shares nothing with h.
func (h *Histogram) Clone() Histogram {
	c := *h
	c.buckets = slices.Clone(h.buckets)
	return c
}

func (h *Histogram) add(b bucket) {
	h.count += b.count
	at := sort.Search(len(h.buckets), func(i int) bool { return h.buckets[i].index >= b.index })
	if at < len(h.buckets) && h.buckets[at].index == b.index {
		h.buckets[at].count += b.count
		return
	}
	h.buckets = slices.Insert(h.buckets, at, b)
}

func indexOf(d time.Duration) int16 {
	if d <= finest {
		return 0
	}
	return int16(math.Ceil(math.Log(float64(d)/float64(finest)) / math.Log(growth)))
}

// duration is what has the smallest relative error for all in the bucket.
func (b bucket) duration() time.Duration {
	if b.index == 0 {
		return finest
	}
	d := float64(finest) * math.Pow(growth, float64(b.index)) * 2 / (growth + 1)
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}

// histogramJSON is a Histogram in a file.
type histogramJSON struct {
	MaxNS   int64    `json:"max_ns"`
	Buckets []uint64 `json:"buckets"` // index, count, index, count …
}

// MarshalJSON writes the buckets that are not empty.
func (h Histogram) MarshalJSON() ([]byte, error) {
	flat := make([]uint64, 0, 2*len(h.buckets))
	for _, b := range h.buckets {
		flat = append(flat, uint64(b.index), b.count)
	}
	return json.Marshal(histogramJSON{int64(h.longest), flat})
}

// UnmarshalJSON reads what MarshalJSON has written, and refuses anything else.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var file histogramJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	read := Histogram{longest: time.Duration(file.MaxNS)}
	if len(file.Buckets)%2 != 0 || read.longest < 0 {
		return errors.New("a histogram that no one has written")
	}
	for pair := range slices.Chunk(file.Buckets, 2) {
		if pair[0] > uint64(indexOf(math.MaxInt64)) || pair[1] == 0 || pair[1] > math.MaxUint32 {
			return errors.New("a bucket that no one has written")
		}
		read.add(bucket{int16(pair[0]), pair[1]})
	}
	*h = read
	return nil
}

// IsZero is for omitzero: an empty histogram is left out of files.
func (h Histogram) IsZero() bool { return h.count == 0 }
