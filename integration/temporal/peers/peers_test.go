package peers

import (
	"testing"
	"time"
)

// Each contestant excludes, else its figures would be those of something else.
func TestEachContestantLetsOneAtATimeIn(t *testing.T) {
	for _, c := range contestants() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := c.start(t)
			l.linger.Store(int64(20 * time.Millisecond))
			l.run(t, 4, 2)
		})
	}
}
