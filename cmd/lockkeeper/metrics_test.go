package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func TestEachCountOfTheSchedulerIsShownUnderItsName(t *testing.T) {
	// given
	stats := scheduler.JobStats{
		Ran: 1, Failed: 2, Preempted: 3, Lost: 4, Interrupted: 5, Taken: 6, Preemptions: 7, Retries: 8, Stuck: 9, Running: 10, StuckNow: 11, Differing: 14,
		Skipped: map[scheduler.SkipReason]uint64{scheduler.SkipPaused: 12, "unheard of": 13},
	}

	// when
	jobs := measuredJobs(map[string]scheduler.JobStats{"backup": stats})

	// then
	skipped := map[string]uint64{"paused": 12, "unheard of": 13}
	for _, reason := range scheduler.SkipReasons() {
		skipped[string(reason)] += 0
	}
	require.Equal(t, []metrics.Job{{
		Name: "backup",
		Ran:  1, Failed: 2, Preempted: 3, Lost: 4, Interrupted: 5, Taken: 6, Preemptions: 7, Retries: 8, StuckRuns: 9, Running: 10, StuckNow: 11, Differing: 14,
		Skipped: skipped,
	}}, jobs)
}
