package peers

import (
	"slices"
	"time"
)

// latency is how long it took until an activity knew that it has to go.
type latency struct {
	name      string
	heartbeat time.Duration
	samples   []time.Duration
}

func (l latency) percentile(p int) time.Duration {
	if len(l.samples) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(l.samples))
	return all[min(len(all)-1, (len(all)*p)/100)]
}
