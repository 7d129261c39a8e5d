package scheduler

import (
	"context"
	"math/rand/v2"
	"time"
)

// pace slows down what is tried again until ZooKeeper answers.
type pace struct{ pause time.Duration }

func newPace() *pace { return &pace{pause: 50 * time.Millisecond} }

// maxPause is the longest that a pace pauses.
const maxPause = 2 * time.Second

// wait pauses; it reports false when ctx ends first.
func (p *pace) wait(ctx context.Context) bool {
	timer := time.NewTimer(p.pause/2 + rand.N(p.pause/2))
	defer timer.Stop()
	p.pause = min(2*p.pause, maxPause)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
