package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// schedules reads the jobs of a configuration that are schedules.
func schedules(t *testing.T, jobs string) []temporal.Schedule {
	t.Helper()
	cfg, err := config.Parse("lockkeeper.yaml", []byte("version: 1\ntemporal: {schedules: true}\njobs:\n"+jobs), config.Options{})
	require.NoError(t, err)
	t.Cleanup(cfg.Close)
	return cfg.Schedules
}

const (
	moveJob   = "  move: {schedule: \"0 4 * * 1-5\", overlap: buffer-one, jitter: 5m, misfire: {window: 1h}, retry: 2, locks: [{scope: db, priority: 20}], run: {temporal: {workflow: Move, task_queue: orders, args: [all, {dry: true}], run_timeout: 1h, id_prefix: eu-}}}\n"
	reportJob = "  report: {schedule: \"@every 1h/15m\", pause_after_failures: 1, run: {temporal: {workflow: Report, task_queue: orders}}}\n"
)

// A planner keeps schedules, as a daemon does.
type planner struct {
	*fixture
	orphans temporal.Orphans
	paused  map[string]string
}

func newPlanner(t *testing.T) *planner {
	t.Helper()
	return &planner{fixture: newFixture(t), paused: map[string]string{}}
}

func (p *planner) sync(root, set string, all []temporal.Schedule) (temporal.ScheduleChanges, error) {
	p.Helper()
	keeper, err := temporal.NewSchedules(temporal.SchedulesConfig{
		Client: p.temporal, Orphans: p.orphans, Root: root, Set: set,
		Paused: func(j jobs.Job) (string, bool) { why, ok := p.paused[j.Name]; return why, ok },
	})
	require.NoError(p, err)
	return keeper.Sync(p.Context(), all)
}

// changes keeps schedules until the server, which may be busy, has answered in time.
func (p *planner) changes(all []temporal.Schedule) (changes temporal.ScheduleChanges) {
	p.Helper()
	harness.Eventually(p, func() bool {
		more, err := p.sync("/lockkeeper", "", all)
		if errors.As(err, new(*serviceerror.DeadlineExceeded)) || errors.Is(err, context.DeadlineExceeded) {
			changes.Created, changes.Updated = append(changes.Created, more.Created...), append(changes.Updated, more.Updated...)
			return false
		}
		require.NoError(p, err)
		more.Created, more.Updated = append(changes.Created, more.Created...), append(changes.Updated, more.Updated...)
		changes = more
		return true
	}, "the schedules are kept")
	return changes
}

func (p *planner) handle(job string) client.ScheduleHandle {
	return p.temporal.ScheduleClient().GetHandle(p.Context(), "lockkeeper:/lockkeeper:"+job)
}

func (p *planner) describe(job string) *client.Schedule {
	p.Helper()
	is, err := p.handle(job).Describe(p.Context())
	require.NoError(p, err)
	return &is.Schedule
}

func (p *planner) action(job string) *client.ScheduleWorkflowAction {
	p.Helper()
	return p.describe(job).Action.(*client.ScheduleWorkflowAction)
}

// theirs is a schedule of somebody else.
func (p *planner) theirs(id string) {
	p.Helper()
	_, err := p.temporal.ScheduleClient().Create(p.Context(), client.ScheduleOptions{
		ID: id, Spec: client.ScheduleSpec{CronExpressions: []string{"@daily"}}, Action: &client.ScheduleWorkflowAction{Workflow: "Theirs", TaskQueue: "theirs"},
	})
	require.NoError(p, err)
}

func TestSchedulesAreKeptAsTheFileSays(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)

	// given jobs of which nothing is there
	both := schedules(t, moveJob+reportJob)
	require.Equal(t, temporal.ScheduleChanges{Created: []string{"move", "report"}}, p.changes(both))
	is, action := p.describe("move"), p.action("move")
	require.Equal(t, []any{"eu-move", "Move", "orders", time.Hour, int32(3), 3}, []any{
		action.ID, action.Workflow, action.TaskQueue, action.WorkflowRunTimeout, action.RetryPolicy.MaximumAttempts, action.Priority.PriorityKey,
	})
	require.Equal(t, enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE, is.Policy.Overlap)
	require.Equal(t, time.Hour, is.Policy.CatchupWindow)
	require.True(t, p.describe("report").Policy.PauseOnFailure)
	require.Equal(t, 5*time.Minute, is.Spec.Jitter)

	// then the same once more changes nothing
	require.False(t, p.changes(both).Any())

	// and what is changed, here or there, is set right, and nothing else
	other := schedules(t, strings.Replace(moveJob, "run_timeout: 1h", "run_timeout: 2h", 1)+reportJob)
	require.Equal(t, temporal.ScheduleChanges{Updated: []string{"move"}}, p.changes(other))
	require.Equal(t, 2*time.Hour, p.action("move").WorkflowRunTimeout)
	require.False(t, p.changes(other).Any())
	require.NoError(t, p.handle("report").Update(t.Context(), client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			in.Description.Schedule.Spec.Intervals[0].Offset = 0
			return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
		},
	}))
	require.Equal(t, temporal.ScheduleChanges{Updated: []string{"report"}}, p.changes(other))
	require.Equal(t, 15*time.Minute, p.describe("report").Spec.Intervals[0].Offset)

	// and each part of a job counts
	for _, change := range [][2]string{
		{"0 4 * * 1-5", "0 4 * * 1-6"},
		{"buffer-one", "skip"},
		{"jitter: 5m", "jitter: 6m"},
		{"window: 1h", "window: 2h"},
		{"retry: 2", "retry: 3"},
		{"scope: db", "scope: dbs"},
		{"priority: 20", "priority: 30"},
		{"workflow: Move", "workflow: Moves"},
		{"queue: orders", "queue: users"},
		{"dry: true", "dry: false"},
		{"id_prefix: eu-", "id_prefix: us-"},
	} {
		require.Contains(t, moveJob, change[0])
		changed := schedules(t, strings.Replace(moveJob, change[0], change[1], 1)+reportJob)
		p.changes(both)
		require.Equal(t, temporal.ScheduleChanges{Updated: []string{"move"}}, p.changes(changed), "%v", change)
		require.False(t, p.changes(changed).Any(), "%v", change)
	}
}

func TestAPausedJobIsAPausedSchedule(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	p.paused["report"] = "paused by ana: repair"
	both := schedules(t, moveJob+reportJob)
	p.changes(both)
	require.True(t, p.describe("report").State.Paused)
	require.Equal(t, "lockkeeper: paused by ana: repair", p.describe("report").State.Note)
	require.False(t, p.changes(both).Any())
	p.paused = map[string]string{"move": "disk full"}
	require.Equal(t, temporal.ScheduleChanges{Paused: []string{"move"}, Resumed: []string{"report"}}, p.changes(both))
	p.paused = nil
	p.changes(both)

	// what somebody has paused in Temporal stays so, also when the job changes
	require.NoError(t, p.handle("move").Pause(t.Context(), client.SchedulePauseOptions{Note: "bob"}))
	changed := schedules(t, strings.Replace(moveJob, "1h, id", "2h, id", 1)+reportJob)
	require.Equal(t, temporal.ScheduleChanges{Updated: []string{"move"}}, p.changes(changed))
	require.True(t, p.describe("move").State.Paused)
	require.Equal(t, "bob", p.describe("move").State.Note)
}

func TestSchedulesWithoutJobs(t *testing.T) {
	t.Parallel()
	for _, orphans := range []temporal.Orphans{temporal.OrphansPause, temporal.OrphansDelete, temporal.OrphansKeep} {
		t.Run(string(orphans), func(t *testing.T) {
			t.Parallel()
			// given schedules of this set, of another one, of another root, and of somebody else
			p := newPlanner(t)
			p.orphans = orphans
			both := schedules(t, moveJob+reportJob)
			p.changes(both)
			_, err := p.sync("/lockkeeper", "other", schedules(t, strings.Replace(moveJob, "move:", "copy:", 1)))
			require.NoError(t, err)
			_, err = p.sync("/tenants/a", "", schedules(t, moveJob))
			require.NoError(t, err)
			p.theirs("theirs")
			eventually(t, func() bool { return p.listed() == 5 }, "all are listed")

			// when a job goes
			changes := p.changes(both[:1])

			// then its schedule does, alone
			switch orphans {
			case temporal.OrphansPause:
				require.Equal(t, []string{"report"}, changes.Orphaned)
				require.True(t, p.describe("report").State.Paused)
				require.False(t, p.changes(both[:1]).Any())
				require.Equal(t, temporal.ScheduleChanges{Resumed: []string{"report"}}, p.changes(both), "the job is back")
			case temporal.OrphansDelete:
				require.Equal(t, []string{"report"}, changes.Orphaned)
				_, err := p.handle("report").Describe(t.Context())
				require.ErrorAs(t, err, new(*serviceerror.NotFound))
			case temporal.OrphansKeep:
				require.False(t, changes.Any())
			}
			for _, id := range []string{"lockkeeper:/lockkeeper:move", "lockkeeper:/lockkeeper:copy", "lockkeeper:/tenants/a:move", "theirs"} {
				is, err := p.temporal.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
				require.NoError(t, err)
				require.False(t, is.Schedule.State.Paused, id)
			}
		})
	}
}

// listed is how many schedules the server lists.
func (p *planner) listed() (n int) {
	p.Helper()
	list, err := p.temporal.ScheduleClient().List(p.Context(), client.ScheduleListOptions{})
	require.NoError(p, err)
	for ; list.HasNext(); n++ {
		_, err := list.Next()
		require.NoError(p, err)
	}
	return n
}

func TestAScheduleThatIsNotOursIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	p.theirs("lockkeeper:/lockkeeper:move")
	changes, err := p.sync("/lockkeeper", "", schedules(t, moveJob+reportJob))
	require.ErrorContains(t, err, "which is not lockkeeper's")
	require.Equal(t, []string{"report"}, changes.Created, "the others are kept all the same")
	require.Equal(t, "Theirs", p.action("move").Workflow)
	_, err = p.sync("/lockkeeper", "other", schedules(t, reportJob))
	require.ErrorContains(t, err, "belongs to the set lockkeeper, not to other")
}

// The server starts workflows at the very times at which daemons would.
func TestSchedulesAreDueWhenTheJobsAre(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	var text strings.Builder
	for i, when := range []string{
		`schedule: "*/15 * * * *"`, `schedule: "30 2 * * *"`, `schedule: "30 2 * * *", timezone: America/New_York, dst: {gap: skip}`,
		`schedule: "*/20 0,3-23 * * *", timezone: Europe/Berlin`, `schedule: "0 3,4 * * 0", timezone: Europe/Berlin`,
		`schedule: "0 12 13 * fri"`, `schedule: "0 0 * * 7"`, `schedule: "0 0 29 2 *"`, `schedule: "H H(2-5) * * *"`, `schedule: "@every 7m"`, `schedule: "@every 1h/15m"`,
		`schedule: "@every 90m/H"`, `schedule: "20 10 4 * * 1-5"`, `schedule: "0 9 * * *", timezone: Asia/Tokyo`, `schedule: "15 3,4 * * *", timezone: America/New_York`,
		`schedule: "5-50/15 8-18/2 1-7,15 */3 mon,wed"`,
	} {
		fmt.Fprintf(&text, "  job%02d: {%s, run: {temporal: {workflow: Move, task_queue: orders}}}\n", i, when)
	}
	all := schedules(t, text.String())
	p.changes(all)
	require.False(t, p.changes(all).Any())
	for _, s := range all {
		should, err := scheduler.ParseJob(s.Job)
		require.NoError(t, err)
		for _, from := range []time.Time{time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC), time.Date(2028, 2, 28, 0, 0, 0, 0, time.UTC)} {
			to := from.Add(3 * 24 * time.Hour)
			found, err := p.temporal.WorkflowService().ListScheduleMatchingTimes(t.Context(), &workflowservice.ListScheduleMatchingTimesRequest{
				Namespace: p.namespace, ScheduleId: s.ID("/lockkeeper"), StartTime: timestamppb.New(from.Add(-time.Second)), EndTime: timestamppb.New(to),
			})
			require.NoError(t, err)
			var is, want []string
			for _, at := range found.GetStartTime() {
				is = append(is, at.AsTime().Format(time.RFC3339))
			}
			for at := should.Next(from.Add(-time.Second)); !at.IsZero() && !at.After(to); at = should.Next(at) {
				want = append(want, at.UTC().Format(time.RFC3339))
			}
			require.Equal(t, want, is, "%s %s from %s", s.Job.Schedule, s.Job.TimeZone, from)
		}
	}
}

func TestTheDaemonLeavesItToTheServer(t *testing.T) {
	t.Parallel()
	// given a daemon whose job is due each second, and the server's to start
	p := newPrograms(t)
	p.write("lockkeeper.yaml", fmt.Sprintf(`version: 1
zookeeper: {session_timeout: 2m}
temporal: {address: %q, namespace: %s}
drain_timeout: 0s
jobs:
  move: {schedule: "@every 1s", run: {temporal: {workflow: Move, task_queue: unused}}}
  tidy: {schedule: "@every 1s", run: [sh, -c, 'echo tidied >> tidied']}
`, temporals.Server(t).Addr(), p.namespace))
	d := p.daemon("--temporal-schedules")
	d.Await(t, "schedule created on the Temporal server", "job=move")
	harness.Eventually(t, func() bool { return strings.Count(p.read("tidied"), "\n") >= 3 }, "the other job runs")

	// then the server starts it, once for as long as the workflow lasts, and the daemon does not
	eventually(t, func() bool {
		found, err := p.temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowType = 'Move'"})
		return err == nil && len(found.GetExecutions()) > 0
	}, "the server starts it")
	_, started := d.Line("workflow is started")
	require.False(t, started, "the daemon has started it")
	require.Contains(t, p.listed("jobs", "ls"), `"name": "tidy"`)
	p.write("scheduled.yaml", strings.Replace(p.read("lockkeeper.yaml"), "temporal: {", "temporal: {schedules: true, ", 1))
	ls := p.run(0, "jobs", "ls", "-f", "scheduled.yaml")
	require.Regexp(t, `(?m)^move +temporal `, ls)
	require.Regexp(t, `(?m)^tidy +(idle|running)`, ls)

	// and a pause of the job is one of the schedule
	p.run(0, "jobs", "pause", "move", "-f", "scheduled.yaml", "-r", "repair", "--by", "ana")
	d.Stop()
	d = p.daemon("--temporal-schedules")
	d.Await(t, "schedule paused on the Temporal server", "job=move", "paused by ana: repair")
	handle := p.temporal.ScheduleClient().GetHandle(t.Context(), "lockkeeper:"+p.Root+":move")
	is, err := handle.Describe(t.Context())
	require.NoError(t, err)
	require.True(t, is.Schedule.State.Paused)
	require.NoError(t, handle.Delete(t.Context()))
}
