package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/temporal"
)

const pushed = "temporal: {schedules: true}\n"

// flow is a job that starts a workflow.
func flow(more string) string {
	return file(pushed + "jobs:\n  move:\n    run: {temporal: {workflow: Move, task_queue: orders}}\n" + more)
}

func TestJobsThatStartWorkflowsBecomeSchedules(t *testing.T) {
	cfg := mustParse(t, flow("    schedule: \"0 4 * * 1-5\"\n    locks: [{scope: db, priority: 20}]\n"))
	require.Len(t, cfg.Schedules, 1)
	require.Equal(t, "move", cfg.Schedules[0].Job.Name)
	require.Equal(t, []temporal.Calendar{{
		Second: []int{0}, Minute: []int{0}, Hour: []int{4}, DayOfMonth: cfg.Schedules[0].Timing.Calendars[0].DayOfMonth,
		Month: cfg.Schedules[0].Timing.Calendars[0].Month, DayOfWeek: []int{1, 2, 3, 4, 5},
	}}, cfg.Schedules[0].Timing.Calendars)
	require.Len(t, cfg.Jobs, 1, "it is a job all the same")
	require.Equal(t, TemporalSchedules{Asked: true, Set: "lockkeeper", Orphans: temporal.OrphansPause}, cfg.TemporalSchedules)

	cfg = mustParse(t, flow("    schedule: \"@every 1h/15m\"\n"))
	require.Equal(t, temporal.Timing{Every: time.Hour, Phase: 15 * time.Minute}, cfg.Schedules[0].Timing)
	cfg = mustParse(t, flow("    schedule: \"0 12 1,15 * mon\"\n"))
	require.Len(t, cfg.Schedules[0].Timing.Calendars, 2, "either day field is enough")
	require.Empty(t, mustParse(t, flow("    schedule: manual\n")).Schedules)
	require.Empty(t, mustParse(t, file("jobs: {move: {schedule: \"@daily\", run: {temporal: {workflow: Move, task_queue: orders}}}}\n")).Schedules)
	require.Empty(t, mustParse(t, file(pushed+"jobs: {move: {schedule: \"@daily\", run: {temporal: {workflow: Move, task_queue: orders, scheduled_by: lockkeeper}}}}\n")).Schedules)
	require.Len(t, mustParse(t, file("jobs: {move: {schedule: \"@daily\", run: {temporal: {workflow: Move, task_queue: orders, scheduled_by: temporal}}}}\n")).Schedules, 1)
	require.Equal(t, TemporalSchedules{Asked: true, Set: "a", Orphans: temporal.OrphansDelete},
		mustParse(t, file("temporal: {schedules: {set: a, orphans: delete}}\njobs: {a: {schedule: manual, run: [a]}}\n")).TemporalSchedules)
	cfg, err := Parse("testdata/lockkeeper.yaml", []byte(file("jobs: {move: {schedule: \"@daily\", run: {temporal: {workflow: Move, task_queue: orders}}}}\n")), Options{TemporalSchedules: true})
	require.NoError(t, err)
	t.Cleanup(cfg.Close)
	require.Len(t, cfg.Schedules, 1)
}

func TestWhatSchedulesOfTemporalCannotDoIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ more, want string }{
		"clocks that go forward": {"    schedule: \"30 2 * * *\"\n    timezone: America/New_York\n", `4:3 jobs[move].dst: Temporal's schedules start nothing at a time that the clocks of America/New_York leave out when they go forward; write dst: {gap: skip} if that will do, other times, or timezone: UTC`},
		"clocks that go back":    {"    schedule: \"*/15 * * * *\"\n    timezone: Europe/Berlin\n", `6:15 jobs[move].schedule: Temporal's schedules lose times of the hour that comes twice when the clocks of Europe/Berlin go back, and repeat those of the hour before; write other times, or timezone: UTC`},
		"a blackout":             {"    schedule: \"@daily\"\n    blackout: [{schedule: \"0 22 24 12 *\", for: 34h}]\n", `7:15 jobs[move].blackout: Temporal's schedules know no windows in which nothing runs; remove them, or write scheduled_by: lockkeeper`},
		"a bound":                {"    schedule: \"@daily\"\n    misfire: all\n    overlap: {policy: buffer-all, max: 3}\n", `8:14 jobs[move].overlap: Temporal's schedules have a bound of their own; remove max`},
		"all that was missed":    {"    schedule: \"@daily\"\n    misfire: all\n", `7:14 jobs[move].misfire: Temporal's schedules make up for all that was missed with overlap: buffer-all or allow-all alone; write one of these, or misfire: once`},
		"once":                   {"    schedule: \"@daily\"\n    overlap: allow-all\n", `4:3 jobs[move].misfire: Temporal's schedules make up for all that was missed with overlap: allow-all; write misfire: all or skip`},
		"a least hold":           {"    schedule: \"@daily\"\n    hold_at_least: 5s\n    locks: [{scope: db}]\n", `7:20 jobs[move].hold_at_least: Temporal's schedules give the lock back with the end of the workflow; remove it, and have the workflow last that long`},
		"a timeout":              {"    schedule: \"@daily\"\n    timeout: 5m\n", `7:14 jobs[move].timeout: Temporal's schedules know timeouts of workflows alone; write run_timeout in run: {temporal: {...}}`},
		"requeue":                {"    schedule: \"@daily\"\n    on_preempt: requeue\n    locks: [{scope: db}]\n", `7:17 jobs[move].on_preempt: Temporal's schedules start a run once; have the workflow begin anew itself, or write on_preempt: skip`},
		"several failures":       {"    schedule: \"@daily\"\n    pause_after_failures: 5\n", `7:27 jobs[move].pause_after_failures: Temporal's schedules pause after the first failure or not at all; write 1, or remove it`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, flow(c.more))
			require.Equal(t, []string{c.want}, problems)
		})
	}
	for _, c := range []struct{ text, want string }{
		{pushed + "jobs:\n  move:\n    schedule: \"@daily\"\n    run: {temporal: {workflow: Move, task_queue: orders, wait: true, terminate: true}}\n", `6:81 jobs[move].run.temporal.terminate: Temporal's schedules terminate no workflow whose lock was asked for; remove it`},
		{pushed + "jobs:\n  move:\n    schedule: manual\n    run: {temporal: {workflow: Move, task_queue: orders, scheduled_by: temporal}}\n", `5:15 jobs[move].schedule: Temporal's schedules have no job that is started by hand alone; write run: {temporal: {scheduled_by: lockkeeper}}`},
	} {
		_, problems, _ := parse(t, file(c.text))
		require.Equal(t, []string{c.want}, problems)
	}
	mustParse(t, flow("    schedule: \"30 2 * * *\"\n    timezone: America/New_York\n    dst: {gap: skip}\n"))
	mustParse(t, flow("    schedule: \"0 4 * * *\"\n    timezone: Europe/Berlin\n"))
}
