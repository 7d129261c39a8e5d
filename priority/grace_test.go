package priority_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestGraceIsTheCleanupTimeoutUnlessForceComesFirst(t *testing.T) {
	const forceful, polite = true, false
	for _, c := range []struct {
		name     string
		forceful bool
		waiting  *time.Duration
		cleanup  time.Duration
		want     time.Duration
	}{
		{"polite, waits for ever", polite, nil, 10 * s, 10 * s},
		{"polite, does not wait", polite, new(0 * s), 10 * s, 10 * s},
		{"polite, waits shorter", polite, new(4 * s), 10 * s, 10 * s},
		{"polite, waits longer", polite, new(30 * s), 10 * s, 10 * s},
		{"polite, no cleanup", polite, nil, 0, 0},
		{"forceful, waits for ever", forceful, nil, 10 * s, 10 * s},
		{"forceful, does not wait", forceful, new(0 * s), 10 * s, 0},
		{"forceful, waits shorter", forceful, new(4 * s), 10 * s, 4 * s},
		{"forceful, waits as long", forceful, new(10 * s), 10 * s, 10 * s},
		{"forceful, waits longer", forceful, new(30 * s), 10 * s, 10 * s},
		{"forceful, no cleanup", forceful, new(30 * s), 0, 0},
		{"forceful, waiting below zero", forceful, new(-1 * s), 10 * s, 0},
		{"cleanup below zero", polite, nil, -1 * s, 0},
	} {
		for _, reason := range []priority.Reason{priority.Outranked, priority.LeaseExpired} {
			t.Run(c.name+", "+string(reason), func(t *testing.T) {
				r := priority.Request{Forceful: c.forceful, WaitingTimeout: c.waiting}
				require.Equal(t, c.want, priority.Grace(reason, r, c.cleanup))
			})
		}
	}
}
