package daemons

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

const endlessName = "endless"

// endless returns a job that does not end by itself.
func endless(daemon string, tell func(mark)) jobs.Job {
	return jobs.Job{
		Name: endlessName, Schedule: "* * * * * *",
		Requirements: []lockguard.Requirement{{Scope: "endless"}},
		Work: jobs.Func(func(ctx context.Context, run jobs.Run) error {
			tell(mark{At: time.Now(), Daemon: daemon, Job: run.Job, Instant: run.Scheduled, What: began})
			<-ctx.Done()
			return context.Cause(ctx)
		}),
	}
}

func TestKilledDaemonLosesNoTickOfTheOther(t *testing.T) {
	t.Parallel()
	moments := map[string]func(*testing.T, *chronicle, *resident){
		"while no short job runs": func(t *testing.T, _ *chronicle, s *resident) {
			require.Eventually(t, func() bool { return s.idle() }, patience, time.Millisecond)
		},
		"while short jobs run": func(_ *testing.T, story *chronicle, _ *resident) {
			reached := latest(story.all())
			story.await("an instant begins", func(marks []mark) bool { return latest(marks).After(reached) })
		},
	}
	for name, await := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killOne(t, await)
		})
	}
}

func killOne(t *testing.T, await func(*testing.T, *chronicle, *resident)) {
	t.Helper()
	const expiry = 2 * time.Second
	// given a daemon, and another one that is always first, because its clock is ahead
	story := newChronicle(t)
	survivor := settings{Name: "survivor", ZK: shared.Server(t).Connect(), Root: zkserver.Root(t), Session: expiry, Drain: -1}
	victim := survivor
	victim.Name, victim.Skew, victim.Cast = "victim", 2*time.Second, "crowd and endless"
	weather := watchWeather(t, survivor.ZK)
	k := startChild(t, story, victim)
	dying := story.first(victim.Name, endlessName, began)
	s := start(t, story, survivor, append(crowd(survivor.Name, story.add), endless(survivor.Name, story.add))...)
	story.awaitUntil(dying.Instant.Add(5*time.Second), victim.Name)

	// when that one is killed
	await(t, story, s)
	k.kill()
	killed := time.Now()

	// then the survivor runs all jobs
	goal := killed.Add(8 * time.Second).Truncate(time.Second).UTC()
	story.awaitUntil(goal, survivor.Name)

	// the run that was cut short is recorded as interrupted, and the job goes on
	after := story.first(survivor.Name, endlessName, began)
	line := s.log.await(0, interrupted, "job="+endlessName)
	require.Contains(t, line, "owner=victim")
	require.Contains(t, line, fmt.Sprintf("pid=%d", k.cmd.Process.Pid))
	require.Contains(t, line, logged(dying.Instant))
	require.EqualValues(t, 1, s.state(endlessName).Counts.Interrupted)
	require.Less(t, after.At.Sub(killed), expiry+20*time.Second)

	// and nothing is lost: each instant of each short job ran once, or was skipped for a run of the same job that was
	// cut short and not known to be yet
	s.end()
	ledger := reader(t, survivor)
	grid := gridOf(story.all())
	require.Len(t, grid.jobs(), crowdSize+1)
	cutShort, excused := 0, 0
	for _, job := range grid.jobs() {
		if job == endlessName {
			continue
		}
		dead := s.log.lines(interrupted, "job="+job+" ")
		require.LessOrEqual(t, len(dead), 1)
		require.EqualValues(t, len(dead), ledger.state(job).Counts.Interrupted, job)
		cutShort += len(dead)
		from, _ := grid.span(job)
		for _, instant := range seconds(from, goal) {
			marks := grid[job][instant]
			if len(marks) == 0 { // it was claimed, and no more
				require.Len(t, dead, 1, grid.around(job, instant))
				require.Contains(t, dead[0], logged(instant), grid.around(job, instant))
				continue
			}
			require.Len(t, marks, 1, grid.around(job, instant))
			switch m := marks[0]; {
			case m.What == began:
			case len(dead) == 1 && m.Detail == "overlap" && m.At.Sub(killed) < expiry+2*time.Second:
			default:
				require.True(t, weather.bad(m.At), grid.around(job, instant))
				t.Logf("excused: %s (killed at %s, %d dead)", m, killed.Format("15:04:05.000"), len(dead))
				excused++
			}
		}
	}
	t.Logf("%d short runs were cut short as well; %d ticks were skipped while the machine was slow", cutShort, excused)
}

const interrupted = "previous run was interrupted"

// logged is how an instant stands in a log.
func logged(instant time.Time) string {
	return "instant=" + instant.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// idle reports whether no job of the crowd runs anywhere.
func (r *resident) idle() bool {
	for i := range crowdSize {
		if r.state(crowdName(i)).Runs != nil {
			return false
		}
	}
	return true
}
